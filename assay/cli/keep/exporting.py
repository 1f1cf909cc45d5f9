"""`assay export`: events, views and figures as files for other tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from assay.cli.progress import counting
from assay.exports.wanted import DOCUMENTS, FORMATS, NOUNS, ExportSelection, format_of
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["export", "filtered"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Moment(click.ParamType[datetime]):
    """`2026-11-01` or `2026-11-01T12:00:00Z`; UTC where no offset is given."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment; anything but ISO 8601 is wrong usage."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a date; write 2026-11-01 or 2026-11-01T12:00:00Z", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def filtered(verb: Verb) -> Verb:
    """Add the filters of views: `--model`, `--hardware`, …; each as one word."""
    for name, document in reversed(
        (
            ("model", "Only this model (an id or alias)."),
            ("hardware", "Only this hardware (an id or alias)."),
            ("platform", "Only this platform."),
            ("precision", "Only this precision."),
            ("mode", "Only inference, or training."),
            ("origin", "Only measured, imported or simulated."),
            ("category", "Only models of this category."),
            ("family", "Only models of this family."),
            ("run_id", "Only this run."),
            ("configuration", "Only this configuration (its key)."),
        )
    ):
        verb = click.option(f"--{name.replace('_', '-')}", name, metavar=name.upper(), help=document)(verb)
    return verb


@click.command(
    epilog="""\b
Examples:
  assay export log.ndjson.gz                                    # to post elsewhere
  assay export measurements.parquet --what measurements --model bert-base-uncased
  assay export lake/ --what measurements --partition-by hardware_id,month
  assay export everything.duckdb
  assay export bench.json --format bmf
  assay export badge.svg --model bert-base-uncased --hardware nvidia-l4
  assay export tables --to lake/                                # every view, for Spark
  assay export tables --to lake/ --views measurements,hardware --as-of "release 1.4" --force"""
)
@click.argument("path", type=OutputFile(folder=True, parents=True, word="tables"))
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Of `tables`: one typed Parquet file a view, and manifest.json.",
)
@click.option("--views", type=WORDS, metavar="VIEW,…", help="Of `tables`: only these views.")
@click.option("--what", type=click.Choice(list(NOUNS)), help="Events by default; everything for .duckdb.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="By the suffix of PATH by default.")
@click.option("--partition-by", type=WORDS, metavar="COLUMN,…", help="Parquet in folders by columns, or by month.")
@click.option("--metric", "metrics", type=WORDS, metavar="COLUMN,…", help="Figures of bmf, github-action and badge.")
@click.option("--label", metavar="TEXT", help="Left side of a badge, instead of model and hardware.")
@filtered
@click.option("--batch-size", type=click.IntRange(min=1), metavar="N", help="Only this batch size.")
@click.option("--as-of", metavar="POSITION|SNAPSHOT", help="What was true there.")
@click.option("--after", type=click.IntRange(min=0), help="Only events above this position.")
@click.option("--upto", type=click.IntRange(min=0), help="Only events up to this position.")
@click.option("--since", type=Moment(), help="Only events recorded at this moment or later.")
@click.option("--until", type=Moment(), help="Only events recorded before this moment.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated.")
@click.option("--source", metavar="SOURCE", help="Only events of this source.")
@click.option("--subject", metavar="SUBJECT", help="Only events of this subject.")
@click.option(
    "--monthly", is_flag=True, help="PATH is a folder; one Parquet file of events a month of recording (UTC)."
)
@overwritable
@served
@as_json
def export(
    path: Path | str,
    to: Path | None,
    views: list[str] | None,
    what: str | None,
    form: str | None,
    partition_by: list[str] | None,
    metrics: list[str] | None,
    label: str | None,
    as_of: str | None,
    monthly: bool,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
    **filters: Any,
) -> int:
    """Write events or views to a file: Parquet, CSV, Arrow, DuckDB, NDJSON, or what other benchmark tools read.

    Every export names the position of the log, the version of the schema and the filters: in its metadata, or in a file
    of its name and .card.json beside it. Files appear whole or not at all. Raw samples that have expired have no data.
    """
    from assay.cli.connection import connected
    from assay.exports.places import position_of
    from assay.exports.writing import export as write

    if to is not None or views:
        chosen = [name for name, value in {"what": what, "format": form, **filters}.items() if value]
        _require_tables(
            path, to, [*chosen, *(["monthly"] if monthly else []), *(["partition_by"] if partition_by else [])]
        )
        assert to is not None
        with connected(server, token) as client:
            return _export_tables(client, to, views or (), as_of, force=force, as_json=as_json)
    path = Path(path)
    form = format_of(path, form, what, folder=bool(partition_by) or monthly)
    what = what or ("best" if form in DOCUMENTS else "all" if form == "duckdb" else "events")
    wanted = ExportSelection(
        what=what,
        format=form,
        filters={name: list(value) if isinstance(value, tuple) else value for name, value in filters.items() if value},
        partition_by=partition_by or (),
        metrics=metrics or (),
        monthly=monthly,
    )
    with connected(server, token) as client, counting("rows") as advance:
        if as_of is not None:
            import msgspec

            wanted = msgspec.structs.replace(wanted, as_of=position_of(client, as_of))
        card, files = write(client, wanted, path, force=force, advance=advance, label=label)
    rows = card.rows or {}
    if as_json:
        print_json({"files": [str(file) for file in files], "card": card})
    else:
        counted = ", ".join(f"{formatting.count(count)} {noun}" for noun, count in rows.items())
        say(f"{counted} at position {card.position}: {', '.join(map(str, files))}")
    return 0


def _require_tables(path: Path | str, to: Path | None, others: list[str]) -> None:
    """Raise UsageError unless the options are those of `assay export tables --to FOLDER`."""
    if path != "tables" or to is None:
        raise UsageError(
            "--to and --views are of `tables`.", field="to", remedy="Write `assay export tables --to FOLDER`."
        )
    if others:
        raise UsageError(
            "tables are written whole, as Parquet.", field=others[0], remedy="Leave it out; --views and --as-of choose."
        )


def _export_tables(
    client: Client, folder: Path, views: Sequence[str], as_of: str | None, *, force: bool, as_json: bool
) -> int:
    from assay.exports.places import position_of
    from assay.exports.portable import export_tables

    position = None if as_of is None else position_of(client, as_of)
    with counting("rows") as advance:
        manifest = export_tables(client, folder, views=views, as_of=position, force=force, advance=advance)
    if as_json:
        print_json(manifest)
        return 0
    rows = [[view.name, formatting.count(view.rows), view.file] for view in manifest.views]
    answers().print(grid(f"Position {manifest.position} in {folder}", ["view", ("rows", "right"), "file"], rows))
    return 0
