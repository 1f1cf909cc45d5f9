"""Names beside the marks of a chart: where each stands so that none covers a mark, an interval or another name.

A page's size is not known where a chart is made: places are found for a narrow and for a wide one, and the browser takes those
of the width that it has. Marks of a wider picture lie further apart, so that what fits a width fits every larger one. The height
is what a legend leaves, and names lead up and down: they are kept apart at all heights that the picture may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from presentation.palette import Ink

__all__ = ["Spot", "labels", "looks", "place_labels"]

WIDTHS = {"": 620, "_narrow": 250}
"""Pixels of the narrowest picture of each layout, by the suffix of its members."""
HEIGHTS = (256, 270, 284, 302, 320)
"""Pixels that the picture may be high."""
PER_LETTER, LINE, MARK = 6.6, 15, 8
"""Pixels of a letter, of a line and of half a mark."""
_NEAR = (-11, 13)
_RISES = (-27, 29, -43, 45, -59, 61, -75, 77, -91, 93)
_FAR = (36, 64, 92, 120)
"""Pixels below and beside a mark at which its name may stand; beyond the near ones a thin line leads to it."""


class Spot(NamedTuple):
    """Where a mark lies, from 0 (left) to 1 and from 0 (top) to 1, with the ends of the interval that is drawn of it."""

    across: float
    down: float
    low: float
    high: float


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, width: float, height: float) -> bool:
        return self.left >= 0 and self.right <= width and self.top >= 0 and self.bottom <= height


class _Offsets(NamedTuple):
    align: str
    dx: int
    dy: int


_OFFSETS = [
    *(_Offsets(align, dx, dy) for dy in _NEAR for align, dx in (("left", 9), ("right", -9))),
    *(_Offsets(align, dx, dy) for dy in _RISES for align, dx in (("left", 9), ("right", -9), ("center", 0))),
    *(
        _Offsets(align, dx * way, dy)
        for dx in _FAR
        for dy in (0, *_RISES)
        for align, way in (("left", 1), ("right", -1))
    ),
]
"""Where a name may stand beside its mark, the nearest first."""


def place_labels(names: Mapping[int, str], spots: Sequence[Spot]) -> list[dict[str, Any]]:
    """Return for each spot the members from which `labels` draws its name: text, side and offsets in both layouts.

    `names` are by index, most important first. A name that has no room is empty.
    """
    placed: list[dict[str, Any]] = [
        {f"{key}{suffix}": value for suffix in WIDTHS for key, value in _nothing().items()} for _ in spots
    ]
    for suffix, width in WIDTHS.items():
        marks = [[_mark(spot, width, height) for spot in spots] for height in HEIGHTS]
        written: list[list[_Box]] = [[] for _ in HEIGHTS]
        for index, name in names.items():
            for offsets in _OFFSETS:
                boxes = [_box(name, spots[index], offsets, width, height) for height in HEIGHTS]
                if all(
                    box.within(width, height)
                    and not any(box.meets(other) for at, other in enumerate(around) if at != index)
                    and not any(box.meets(other) for other in before)
                    for box, height, around, before in zip(boxes, HEIGHTS, marks, written, strict=True)
                ):
                    members = {"short": name, **offsets._asdict(), "led": offsets.dy not in _NEAR}
                    placed[index] |= {f"{key}{suffix}": value for key, value in members.items()}
                    for before, box in zip(written, boxes, strict=True):
                        before.append(box)
                    break
    return placed


def _nothing() -> dict[str, Any]:
    return {"short": "", "align": "left", "dx": 0, "dy": 0, "led": False}


def _mark(spot: Spot, width: float, height: float) -> _Box:
    down = spot.down * height
    return _Box(spot.low * width - MARK, spot.high * width + MARK, down - MARK, down + MARK)


def _box(name: str, spot: Spot, offsets: _Offsets, width: float, height: float) -> _Box:
    at, long = spot.across * width + offsets.dx, PER_LETTER * len(name)
    left = {"left": at, "right": at - long, "center": at - long / 2}[offsets.align]
    middle = spot.down * height + offsets.dy
    return _Box(left, left + long, middle - LINE / 2, middle + LINE / 2)


def labels(
    rows: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any], ink: Ink
) -> list[dict[str, Any]]:
    """Return the layers that write the names of rows beside their marks at `value` and `up`, with a line to those further away."""
    named = [row for row in rows if row["short"] or row["short_narrow"]]
    if not named:
        return []
    line, text = looks(ink)
    base = {"data": {"values": named}}
    at = {"x": {**x, "field": "value"}, "y": y}
    written = {**base, "mark": {"type": "text", **text}, "encoding": at}
    if not any(row["led"] or row["led_narrow"] for row in named):
        return [written]
    led = {**at, "x2": {"field": "value"}, "y2": {"field": "up"}}
    return [{**base, "mark": {"type": "rule", **line}, "encoding": led}, written]


def looks(ink: Ink) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how the lines that lead to names are drawn, and how the names are written, as they are sent."""
    dy, led = _taken("dy"), _taken("led")
    line = {
        "color": ink.muted,
        "strokeWidth": 0.75,
        "strokeOpacity": {"expr": f"{led} ? 0.7 : 0"},
        "x2Offset": {"expr": _taken("dx")},
        "y2Offset": {"expr": f"{dy} < 0 ? {dy} + 7 : max({dy} - 7, 0)"},
    }
    members = {"align": "align", "dx": "dx", "dy": "dy", "text": "short"}
    text = {name: {"expr": _taken(member)} for name, member in members.items()}
    return line, {"fontSize": 12, "color": ink.text, "baseline": "middle", **text}


def _taken(member: str) -> str:
    """Return the member of the layout that the picture's width has room for, as an expression of Vega."""
    return f"(width < {WIDTHS['']} ? datum.{member}_narrow : datum.{member})"
