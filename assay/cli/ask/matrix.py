"""`assay matrix`: what builds, runs, is verified and measured where, and why not."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import rich_click as click
from rich.table import Table

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.vocabulary import CATEGORIES, PLATFORMS, platforms_named
from presentation import formatting
from presentation.markdown import code, literal

__all__ = ["markdown", "matrix", "matrix_table"]

Row = Mapping[str, Any]
FACTS = {"built": "builds", "ran": "runs", "verified": "verified", "measured": "measured"}
"""The facts of a row, and the heads of their columns."""
_COUNTED = {"built": "build", "ran": "run", "verified": "were verified", "measured": "were measured"}
NOT_TRIED = "not tried"
FORMS = ("table", "csv", "json", "markdown", "html")
LEVELLED = ("model", "family", "category")
EVERY = "*"
"""What `--family` means without a name."""
_SHOWN = 120
"""Characters of a reason that a terminal shows."""


@click.command(
    epilog="""\b
Examples:
  assay matrix --model bert-base-uncased
  assay matrix --family --claims
  assay matrix --failures
  assay matrix --models-set key --platform cpu,openvino
  assay matrix --models-set all --markdown
  assay matrix --format html > matrix.html"""
)
@click.option("--model", help="One model only: what is known of it on each platform, and what to try.")
@click.option("--models-set", type=click.Choice(["small", "key", "all"]), help="A set of the catalogue, tried or not.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Models of one category only.")
@click.option("--platform", "platforms", type=WORDS, help="These platforms only; `web` is wasm,webgpu,webnn.")
@click.option("--by-precision", is_flag=True, help="One row a precision; else the best of all precisions.")
@click.option("--level", type=click.Choice(LEVELLED), help="One row a model, family or category, with levels.")
@click.option(
    "--family", is_flag=False, flag_value=EVERY, metavar="[NAME]", help="One row a family; with a NAME that one only."
)
@click.option("--claims", is_flag=True, help="What documents claim as well, and where evidence disagrees.")
@click.option("--no-evidence", is_flag=True, help="Cells of the catalogue that nobody tried as well.")
@click.option("--failures", is_flag=True, help="What failed most, and what to try.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Else a table; csv, json and html have everything.")
@click.option("--markdown", "as_markdown", is_flag=True, help="A Markdown table on stdout, with whole ids and reasons.")
@served
@as_json
def matrix(
    model: str | None,
    models_set: str | None,
    category: str | None,
    platforms: list[str] | None,
    by_precision: bool,
    level: str | None,
    family: str | None,
    claims: bool,
    no_evidence: bool,
    failures: bool,
    form: str | None,
    as_markdown: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Show model × platform: does it build, run, give right outputs, was it measured, and why not.

    Made from the events of tests and measurements on all hardware; simulated ones do not count. A dash: not tried. Levels
    (docs/compatibility.md) say how good it is; what documents claim and nobody saw here is dim and begins with `claimed:`.
    """
    from assay.cli.ask import matrix_views
    from assay.cli.connection import reading

    if model and models_set:
        raise click.UsageError("Name one model with --model or a set with --models-set, not both.")
    chosen = _form(form, as_markdown, as_json)
    platforms = platforms_named(platforms) if platforms else platforms
    request = matrix_views.MatrixQuestion(
        model=model,
        category=category,
        platforms=platforms,
        by_precision=by_precision,
        level=level or ("family" if family else "model"),
        family=None if family in (None, EVERY) else family,
        claims=claims,
        no_evidence=no_evidence,
        form=chosen,
    )
    plain = not (level or family or claims or no_evidence or failures)
    if models_set and not plain:
        raise click.UsageError("--models-set lists models by themselves: leave out levels, claims and failures.")
    with reading(server, token) as client:
        if chosen == "html":
            return matrix_views.page(client, request, server=client.server if server else None)
        if failures:
            return matrix_views.failed(client, request)
        if not plain:
            return matrix_views.levels(client, request)
        compatibility = client.compatibility(model=model, category=category, by_precision=by_precision)
        rows: list[Row] = [row for row in compatibility if platforms is None or row["platform"] in platforms]
        if models_set:
            rows = _of_set(rows, models_set, category, platforms, by_precision=by_precision)
        rows.sort(key=_place)
        if not rows and chosen != "json":
            say("no test and no benchmark is known; `assay verify MODEL` makes one")
        _write(rows, chosen)
        if model and chosen == "table" and not by_precision:
            matrix_views.check_up(client, request)
    return 0 if any(row["why_not"] != NOT_TRIED for row in rows) else 1


def _form(form: str | None, as_markdown: bool, as_json: bool) -> str:
    named = [*([form] if form else []), *(["markdown"] if as_markdown else []), *(["json"] if as_json else [])]
    if len(set(named)) > 1:
        raise click.UsageError(f"--{named[-2]} and --{named[-1]} are two forms of the answer: choose one.")
    return named[0] if named else "table"


def _write(rows: Sequence[Row], form: str) -> None:
    if form == "json":
        print_json(rows)
    elif form == "csv":
        from assay.cli.ask.matrix_cells import as_csv

        click.echo(as_csv(rows), nl=False)
    elif rows and form == "markdown":
        click.echo(markdown(rows))
    elif rows:
        answers().print(_counted(rows), markup=False)
        answers().print(matrix_table(rows))


def _of_set(
    rows: list[Row], name: str, category: str | None, platforms: list[str] | None, *, by_precision: bool
) -> list[Row]:
    """Return the rows of a set's models, and one for each of its models and the platforms shown where there is none."""
    from domain.catalogues.models import models_set

    models = [item for item in models_set(name) if category in (None, item.category)]
    ids = {model.id for model in models}
    kept = [row for row in rows if row["model_id"] in ids]
    there = {(row["model_id"], row["platform"]) for row in kept}
    shown: list[str | None] = list(platforms or dict.fromkeys(row["platform"] for row in kept)) or [None]
    empty: dict[str, Any] = {**dict.fromkeys(FACTS), "why_not": NOT_TRIED}
    empty["precision" if by_precision else "precisions"] = None if by_precision else []
    return kept + [
        {"model_id": model.id, "category": model.category, "family": model.family, "platform": platform, **empty}
        for model in models
        for platform in shown
        if (model.id, platform) not in there
    ]


def _place(row: Row) -> tuple[Any, ...]:
    """Order by category, model and platform as the vocabulary lists them; what it does not list comes last."""
    category, platform = row.get("category"), row["platform"]
    return (
        CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES),
        row["model_id"],
        PLATFORMS.index(platform) if platform in PLATFORMS else len(PLATFORMS),
        str(platform),
        str(row.get("precision")),
    )


def matrix_table(rows: Sequence[Row]) -> Table:
    """Return the rows for a terminal: models without owner where that is clear, reasons cut to a few lines."""
    owners = Counter(name.rpartition("/")[2] for name in {row["model_id"] for row in rows})
    columns: list[str | tuple[str, str]] = ["model", ("platform", "fixed")]
    columns += [("precision", "fixed")] if "precision" in rows[0] else []
    columns += [*((head, "fixed") for head in FACTS.values()), "why not"]

    def model(row: Row) -> str:
        short = str(row["model_id"]).rpartition("/")[2]
        return short if owners[short] == 1 else str(row["model_id"])

    def reason(row: Row) -> str:
        return textwrap.shorten(row["why_not"] or "", _SHOWN, placeholder=" …")

    return grid(None, columns, [[model(row), *_facts(row), reason(row)] for row in rows])


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table with whole ids and reasons, and the counts in a line above it."""
    beside = "precision" if "precision" in rows[0] else "precisions"
    lines = [literal(_counted(rows)) + ".", ""]
    heads = ["model", "platform", *(["precision"] if beside == "precision" else []), *FACTS.values()]
    heads += ["precisions that ran"] if beside == "precisions" else []
    lines += [_line([*heads, "why not"]), _line(["---"] * (len(heads) + 1))]
    for row in rows:
        cells = [code(str(row["model_id"])).replace("|", "\\|"), *map(literal, _facts(row))]
        cells += [literal(", ".join(row["precisions"])) or formatting.MISSING] if beside == "precisions" else []
        lines.append(_line([*cells, literal(row["why_not"] or "")]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _facts(row: Row) -> list[str]:
    precision = [str(row["precision"] or formatting.MISSING)] if "precision" in row else []
    return [
        str(row["platform"] or formatting.MISSING),
        *precision,
        *(formatting.MISSING if row[fact] is None else "yes" if row[fact] else "no" for fact in FACTS),
    ]


def _counted(rows: Sequence[Row]) -> str:
    models = len({row["model_id"] for row in rows})
    platforms = list(dict.fromkeys(str(row["platform"]) for row in rows if row["platform"]))
    where = f" on {', '.join(platforms)}" if platforms else ""
    said = ", ".join(f"{sum(bool(row[fact]) for row in rows)} {word}" for fact, word in _COUNTED.items())
    return f"{models} model{'s' * (models != 1)}{where}: of {len(rows)} rows {said}"
