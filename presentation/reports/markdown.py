"""Reports as Markdown: headings, sentences, tables, and pictures as files beside it or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay import __version__
from presentation import formatting
from presentation.markdown import code, literal
from presentation.reports.content import Chart, Report, Row, Table
from presentation.reports.evidence import EVENTS_SHOWN, short
from presentation.reports.kinds import command
from presentation.reports.page import cut, named_events

__all__ = ["as_markdown"]


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
                yield from _picture(part, pictures)
            else:
                yield from _table(part, report.server, top)
    behind = cut(report.evidence, top, named_events(report, top))
    if behind.rows:
        yield from ("", "## Evidence", "")
        yield from _table(behind, report.server, None, heading=False)
    yield from ("", "---", "")
    yield f"Assay {__version__}. The same report again: {code(command(report.asked, report.position))}"


def _picture(chart: Chart, pictures: Mapping[str, str]) -> Iterator[str]:
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
