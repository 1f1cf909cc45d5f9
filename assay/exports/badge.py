"""A badge that says how fast a model is somewhere, and whether that was measured: as SVG, or for shields.io to draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from domain.errors import NotFound
from domain.figures import FIGURES, described, figure_of
from presentation import formatting

__all__ = ["Badge", "badge_of", "endpoint", "svg"]

Row = Mapping[str, Any]
COLOURS = {"measured": "#1a7f37", "imported": "#0969da", "simulated": "#6e7781", "doubted": "#9a6700"}
LABEL_COLOUR = "#424a53"
HEIGHT = 20
PADDING = 6
_NARROW, _WIDE = frozenset("fijlrtI.,:;'|!()[] -\u202f"), frozenset("mwMW@%—")


class Badge(msgspec.Struct, frozen=True, kw_only=True):
    """What a badge says: left, right, the colour of the right side, the configuration in words, and its evidence."""

    label: str
    message: str
    colour: str
    title: str
    evidence: str


def badge_of(rows: Iterable[Row], column: str = "latency_p50_ms", label: str | None = None) -> Badge:
    """Return the badge of the best of some rows, in the better direction of a figure; NotFound where none has it.

    Rows are not alike: which one it is of stands in the title, so narrow them down by filters.
    """
    best, figure = None, None
    for row in rows:
        result = figure_of(row, column)
        if result is None or row.get("origin") == "simulated":
            continue
        if figure is None or (result.value < figure.value) == (FIGURES[column].better == "lower"):
            best, figure = row, result
    if best is None or figure is None:
        raise NotFound(
            f"no measurement with {column} is left by these filters.",
            field="metric",
            remedy="`assay bench` measures; `assay compare hardware MODEL` shows what is there.",
        )
    word = str(best["origin"]) + (f", {best['verdict']}" if best.get("verdict") in ("suspect", "invalid") else "")
    return Badge(
        label=label or f"{str(best['model_id']).rpartition('/')[2]} on {best['hardware_id']}",
        message=f"{formatting.plain(_shown(column, figure.value))} {word}",
        colour=COLOURS["doubted" if word != best["origin"] else str(best["origin"])],
        title=f"{described(best)}: {column} {figure.value:g} {FIGURES[column].unit} {word}",
        evidence=str(best.get("event_id")),
    )


def _shown(column: str, value: float) -> str:
    shape = FIGURES[column]
    if shape.unit == "ms":
        return formatting.latency(value)
    if shape.unit == "B":
        return formatting.memory(value)
    if shape.unit == "1/s":
        return formatting.throughput(value)
    return f"{formatting.significant(value)} {shape.unit}"


def endpoint(badge: Badge) -> dict[str, Any]:
    """Return the badge as shields.io's endpoint schema, version 1."""
    return {
        "schemaVersion": 1, "label": badge.label, "message": badge.message, "color": badge.colour.lstrip("#"),
        "labelColor": LABEL_COLOUR.lstrip("#"),
    }  # fmt: skip


def svg(badge: Badge) -> str:
    """Return the badge as a picture that needs nothing else; what it is of is its title, also for who cannot see it."""
    left, right = (_width(text) + 2 * PADDING for text in (badge.label, badge.message))
    whole = left + right
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{width - 2 * PADDING}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        for x, width, text in ((left / 2, left, badge.label), (left + right / 2, right, badge.message))
    )
    document = f"{badge.label}: {badge.message}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT}" role="img" aria-label={quoteattr(document)}>'
        f"<title>{escape(badge.title)}</title>"
        f'<clipPath id="r"><rect width="{whole}" height="{HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{HEIGHT}" fill="{LABEL_COLOUR}"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{badge.colour}"/></g>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">{texts}</g></svg>\n'
    )


def _width(text: str) -> int:
    """Return about how wide a text of 11 px is; the picture stretches it to exactly that."""
    return round(sum(4.0 if letter in _NARROW else 10.0 if letter in _WIDE else 7.0 for letter in text))
