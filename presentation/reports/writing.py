"""From a report to its files: which there are for a format, and writing them whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from assay import __version__
from assay.staging import Staged
from domain.errors import UsageError
from presentation import formatting
from presentation.markdown import code, literal
from presentation.reports.content import Chart, Report, ReportQuestion, Row, Table
from presentation.reports.evidence import EVENTS_SHOWN, short
from presentation.reports.files import as_csv, as_json
from presentation.reports.kinds import KINDS, command
from presentation.reports.page import TOP, as_html, cut, named_events

__all__ = ["FORMATS", "PICTURES", "as_markdown", "files", "format_of", "rendered", "stem", "write"]


def as_markdown(report: Report, pictures: Mapping[str, str] | None = None, *, top: int | None = None) -> str:
    """Write the report; `pictures` maps a chart's name to its file, relative to the report; tables have `top` rows."""
    return "\n".join(_lines(report, pictures or {}, top)) + "\n"


def _lines(report: Report, pictures: Mapping[str, str], top: int | None) -> Iterator[str]:
    yield from (f"# {literal(report.title)}", "", f"*{literal(report.question)}*", "")
    yield f"Position {formatting.count(report.position)} of the log, recorded {formatting.date(report.recorded_at)}.  "
    for fact in report.facts:
        yield f"{literal(fact)}.  "
    if report.empty:
        yield from ("", literal(report.empty))
    for section in report.sections:
        yield from ("", f"## {literal(section.title)}")
        for part in section.parts:
            yield ""
            if isinstance(part, str):
                yield literal(part)
            elif isinstance(part, Chart):
                yield from _markdown_picture(part, pictures)
            else:
                yield from _table(part, report.server, top)
    behind = cut(report.evidence, top, named_events(report, top))
    if behind.rows:
        yield from ("", "## Evidence", "")
        yield from _table(behind, report.server, None, heading=False)
    yield from ("", "---", "")
    yield f"Assay {__version__}. The same report again: {code(command(report.asked, report.position))}"


def _markdown_picture(chart: Chart, pictures: Mapping[str, str]) -> Iterator[str]:
    if chart.name in pictures:
        yield f"![{literal(chart.title)}]({pictures[chart.name]})"
        yield ""
    yield f"{literal(chart.title)}. {literal(chart.sentence)}"


def _table(table: Table, server: str | None, top: int | None, *, heading: bool = True) -> Iterator[str]:
    if heading:
        yield from (f"### {literal(table.title)}", "")
    shown = cut(table, top)
    yield _row([column.title or "" for column in table.shown])
    yield _row(["---:" if column.figures else "---" for column in table.shown])
    for row in shown.rows:
        yield _row(
            [_cell(words, column.key, row, server) for words, column in zip(table.words(row), table.shown, strict=True)]
        )
    if shown.note:
        yield from ("", literal(shown.note))


def _cell(words: str, key: str, row: Row, server: str | None) -> str:
    if key == "evidence" and server:
        events = list(row.get("evidence") or ())
        links = [f"[{short(event)}]({server}/v1/events/{event})" for event in events[:EVENTS_SHOWN]]
        rest = len(events) - EVENTS_SHOWN
        return ", ".join([*links, *([f"and {formatting.count(rest)} more"] if rest > 0 else [])])
    return literal(words)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


FORMATS = ("html", "md", "json", "csv", "png", "svg")
PICTURES = ("png", "svg")
Named = TypeVar("Named", Table, Chart)


def stem(request: ReportQuestion) -> str:
    """Return the name that a report's file has where only a folder was named: `model-google-bert-bert-base-uncased`."""
    subject = re.sub(r"[^A-Za-z0-9._-]+", "-", request.subject or "").strip("-.")
    return f"{request.kind}-{subject}" if subject else request.kind


def format_of(form: str | None, out: Path | None) -> str:
    """Return the format asked for, else that of the file's suffix; a page for a folder, Markdown for a terminal."""
    if form is not None:
        return form
    if out is None:
        return "md"
    suffix = out.suffix.lstrip(".").lower()
    if suffix in FORMATS:
        return suffix
    if not suffix or out.is_dir():
        return "html"
    raise UsageError(
        f"{out.name} does not say a format.", field="out", remedy=f"Add --format; one of {', '.join(FORMATS)}."
    )


def rendered(
    report: Report, form: str, *, part: str | None = None, top: int | None = TOP, pictures: bool = True
) -> bytes:
    """Return a report as one file: pictures and tables by `part`, else the first picture and the main table."""
    if form == "html":
        return as_html(report, top=top, pictures=pictures)
    if form == "md":
        return as_markdown(report, top=top).encode()
    if form == "json":
        return as_json(report)
    if form == "csv":
        return as_csv(
            report, _chosen({table.name: table for table in report.tables()}, part, KINDS[report.asked.kind].main)
        )
    return _picture(report, _chosen({chart.name: chart for chart in report.charts()}, part, None), form)


def files(
    report: Report, form: str, out: Path, *, part: str | None = None, top: int | None = TOP, pictures: bool = True
) -> dict[Path, bytes]:
    """Return every file that a report becomes. In a folder: each table, each picture, or the one report.

    Markdown has its pictures in a folder beside it, named as it is.
    """
    folder = out.is_dir() or not out.suffix
    if folder and part is None and form == "csv":
        return {out / f"{table.name}.csv": as_csv(report, table) for table in report.tables()}
    if folder and part is None and form in PICTURES:
        drawn = {out / f"{chart.name}.{form}": _picture(report, chart, form) for chart in report.charts()}
        return drawn or {out: rendered(report, form)}
    path = out / f"{part or stem(report.asked)}.{form}" if folder else out
    if form != "md" or not pictures:
        return {path: rendered(report, form, part=part, top=top, pictures=pictures)}
    beside = {chart.name: f"{path.stem}-pictures/{chart.name}.svg" for chart in report.charts()}
    result = {path.parent / beside[chart.name]: _picture(report, chart, "svg") for chart in report.charts()}
    return {
        **result,
        path: as_markdown(report, {name: _address(file) for name, file in beside.items()}, top=top).encode(),
    }


def _address(file: str) -> str:
    """Return a relative path as Markdown takes it."""
    return file.replace(" ", "%20").replace("(", "%28").replace(")", "%29")


def write(contents: Mapping[Path, bytes], *, force: bool = False) -> None:
    """Write files, together or not at all; without `force` one that exists is a UsageError."""
    with Staged(force=force) as staged:
        for path, content in contents.items():
            staged.file(path).write_bytes(content)


def _picture(report: Report, chart: Chart, form: str) -> bytes:
    from presentation.reports import charts

    footer = f"Assay {__version__} · position {formatting.count(report.position)}"
    filters = report.asked.filters()
    if filters:
        footer += " · " + ", ".join(f"{name} {value}" for name, value in filters.items())
    return charts.png(chart, footer=footer) if form == "png" else charts.svg(chart, footer=footer).encode()


def _chosen(nameds: Mapping[str, Named], part: str | None, main: str | None) -> Named:
    if not nameds:
        raise UsageError(
            "this report has no pictures.", field="format", remedy="Ask for html, md, json or csv; they need none."
        )
    if part is None:
        return nameds.get(main or "") or next(iter(nameds.values()))
    if part not in nameds:
        raise UsageError(f"the report has no part {part!r}.", field="part", remedy=f"One of {', '.join(nameds)}.")
    return nameds[part]
