"""Reports as one HTML file that needs nothing else: no script, no network; light and dark, for screens, phones, paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from assay import __version__
from presentation import formatting
from presentation.palette import DIVERGING, INKS, PLATFORM_COLOURS, VERDICT_COLOURS, VERDICT_GLYPHS
from presentation.reports.content import Chart, Report, Section, Table
from presentation.reports.evidence import EVENTS_SHOWN, short
from presentation.reports.kinds import command

__all__ = ["TOP", "as_html", "colours", "cut", "named_events", "themed"]

TOP = 40
"""Rows of a table that a page shows unless another number is asked for; files hold all of them."""

FOLDED_FROM = 12
"""A longer table that is not the first of its section opens when it is asked for: phones show few rows at once."""


def as_html(report: Report, *, top: int | None = TOP, pictures: bool = True) -> bytes:
    """Render the report; tables have `top` rows, all with None, and say how many there are."""
    behind = cut(report.evidence, None, named_events(report, top))
    linked = frozenset(str(row["event_id"]) for row in behind.rows)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            behind=behind,
            linked=linked,
            parts=lambda section: _parts(section, top, pictures),
            origins=[f"{glyph} {word}" for word, glyph in VERDICT_GLYPHS.items() if word in ("suspect", "invalid")],
            themes=colours(),
            numbers=formatting,
            short=short,
            events_shown=EVENTS_SHOWN,
            again=command(report.asked, report.position),
            version=__version__,
        )
    )
    return str(page).encode()


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["anchor"] = lambda text: re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")
    environment.filters["broken"] = _broken
    return environment


def _broken(text: str) -> Any:
    """Return text in which long names may be broken after a slash, and lines after the first are small."""
    from markupsafe import Markup, escape

    first, *more = (str(escape(line)).replace("/", "/<wbr>") for line in text.split("\n"))
    return Markup(first + "".join(f"<small>{line}</small>" for line in more))


def _parts(section: Section, top: int | None, pictures: bool) -> Iterator[dict[str, Any]]:
    """Yield what the template needs of each part; of a section's long tables, those after the first are folded."""
    tables = 0
    for part in section.parts:
        if isinstance(part, str):
            yield {"kind": "sentence", "sentence": part}
        elif isinstance(part, Table):
            shown = cut(part, top)
            yield {"kind": "table", "table": shown, "folded": tables > 0 and len(shown.rows) > FOLDED_FROM}
            tables += 1
        else:
            yield {"kind": "chart", "chart": part, "pictures": _pictures(part) if pictures else {}}


def _pictures(chart: Chart) -> dict[str, Any]:
    """Return the wide and the narrow picture of a chart as markup in both themes' colours."""
    from markupsafe import Markup

    from presentation.reports import charts

    widths = {"wide": charts.WIDE, "narrow": charts.NARROW}
    return {
        name: Markup(themed(charts.svg(chart, width=width), f"{chart.name}-{name}")) for name, width in widths.items()
    }


def cut(table: Table, top: int | None, events: frozenset[str] | None = None) -> Table:
    """Return a table with its first rows, or those of some events, and a note of how many there are."""
    rows = list(table.rows) if events is None else [row for row in table.rows if str(row["event_id"]) in events]
    if events is None and top is not None and len(rows) > top:
        note = f"The first {formatting.count(top)} of {formatting.count(len(rows))} rows; CSV and JSON have all."
        return table._replace(rows=rows[:top], note=" ".join(filter(None, (note, table.note))))
    return table._replace(rows=rows)


def named_events(report: Report, top: int | None) -> frozenset[str]:
    """Return the events that the shown rows of a report name."""
    return frozenset(str(event) for event in _named(report, top))


def _named(report: Report, top: int | None) -> Iterator[Any]:
    for section in report.sections:
        for part in section.parts:
            if isinstance(part, Table):
                for row in cut(part, top).rows:
                    yield from list(row.get("evidence") or ())[:EVENTS_SHOWN]


@cache
def colours() -> Mapping[str, tuple[str, str]]:
    """Return each colour of a light picture, in upper case, with what stands for it on a dark ground."""
    light, dark = INKS["light"], INKS["dark"]
    pairs = [*zip(light, dark, strict=True)]
    for ramps in (PLATFORM_COLOURS, DIVERGING):
        pairs += zip(ramps["light"], ramps["dark"], strict=True)
    pairs += zip(VERDICT_COLOURS["light"].values(), VERDICT_COLOURS["dark"].values(), strict=True)
    return {value.upper(): (value, other) for value, other in pairs}


_COLOUR = re.compile(r'"(#[0-9A-Fa-f]{6}(?:[0-9A-Fa-f]{2})?)"')
_NAME = re.compile(r'(\bid="|url\(#|href="#)')


def themed(svg: str, name: str) -> str:
    """Return a light picture for use in a page: colours follow the page's theme, and ids are its own.

    Two pictures of one page may both have a `clip0`; the first would then clip the second.
    """
    existing = colours()

    def worn(match: re.Match[str]) -> str:
        colour = match[1].upper()
        return f'"var(--c{colour[1:]},{match[1]})"' if colour in existing else match[0]

    return _NAME.sub(rf"\g<1>{name}-", _COLOUR.sub(worn, svg))
