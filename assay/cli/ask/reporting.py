"""`assay report`: what is known, as a page, a text, data or pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import say
from assay.cli.output_files import OutputFile, overwritable
from domain.vocabulary import CATEGORIES

__all__ = ["report"]

_KINDS = ("performance", "hardware", "compatibility", "modes", "precision", "model", "run")
_FORMATS = ("html", "md", "json", "csv", "png", "svg")


@click.command(
    epilog="""\b
Examples:
  assay report performance --out performance.html
  assay report model bert-base-uncased --out bert.md
  assay report run --out summary.md --no-pictures
  assay report hardware nvidia-l4 --format csv --out tables/"""
)
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("subject", required=False, metavar="[MODEL|HARDWARE|RUN]")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), help="Else that of --out's suffix; Markdown on a terminal."
)
@click.option(
    "--out", type=OutputFile(folder=True, parents=True), help="A file, or a folder for every table or picture."
)
@click.option("--part", metavar="NAME", help="One table of a CSV or one picture by its name.")
@click.option("--as-of", metavar="POSITION|SNAPSHOT", help="As of a position of the log, or of a named snapshot.")
@click.option("--model", help="Only this model.")
@click.option("--hardware", help="Only this hardware.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Only models of one category.")
@click.option("--platform", type=WORDS, help="Only these platforms.")
@click.option("--precision", type=WORDS, help="Only these precisions.")
@click.option(
    "--top", type=click.IntRange(min=0), default=40, show_default=True, help="Rows of a page's table; 0 shows all."
)
@click.option("--pictures/--no-pictures", default=True, help="Leave the pictures out of a page or text.")
@overwritable
@served
@as_json
def report(
    kind: str,
    subject: str | None,
    form: str | None,
    out: Path | None,
    part: str | None,
    as_of: str | None,
    model: str | None,
    hardware: str | None,
    category: str | None,
    platform: list[str] | None,
    precision: list[str] | None,
    top: int,
    pictures: bool,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Put what was measured and imported into a report that stands alone: comparisons, charts, evidence.

    \b
    performance    best hardware by family, speed-up over the CPU, batch scaling
    hardware       hardware against hardware; with a name, all about one
    compatibility  what builds, runs and is right where, and why not
    modes          training against inference
    precision      narrower types against fp32
    model          all about one model
    run            one run (else the newest): what changed, tests, failures
    """
    from assay.cli.connection import connected
    from presentation.reports.content import ReportQuestion
    from presentation.reports.kinds import build
    from presentation.reports.writing import PICTURES, files, format_of, rendered, write

    if as_json and (out is not None or form not in (None, "json")):
        raise click.UsageError("--json is the answer on stdout: leave out --out and --format.")
    form = "json" if as_json else format_of(form, out)
    if part is not None and form not in ("csv", *PICTURES):
        raise click.UsageError("--part names one table of a CSV or one picture.")
    if out is None and form == "png" and sys.stdout.isatty():
        raise click.UsageError("png is no text: name a file with --out.")
    request = ReportQuestion(
        kind=kind,
        subject=subject,
        as_of=as_of,
        model=model,
        hardware=hardware,
        category=category,
        platform=tuple(platform or ()),
        precision=tuple(precision or ()),
    )
    with connected(server, token) as client:
        made = build(client, request, server=client.server if server else None)
    if made.empty and not as_json:
        say(made.empty)
        return 1
    if out is None:
        sys.stdout.buffer.write(rendered(made, form, part=part, top=top or None, pictures=pictures))
        sys.stdout.buffer.flush()
    else:
        result = files(made, form, out, part=part, top=top or None, pictures=pictures)
        write(result, force=force)
        first = list(result)[-1]
        say(f"wrote {first}" if len(result) == 1 else f"wrote {len(result)} files: {first} and what is beside it")
    return 1 if made.empty else 0
