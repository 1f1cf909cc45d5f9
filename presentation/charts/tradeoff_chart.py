"""Latency against cost or throughput, and what nothing beats in both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from presentation import formatting
from presentation.answer_words import short_name
from presentation.charts.axes import axis, reach_of
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.charts.label_layout import Spot, labels, place_labels
from presentation.charts.marks import DASHES, DETAIL_TOOLTIP, SHAPED, SHAPES, SIZE, colour, ends_of, line_of
from presentation.charts.metrics import LATENCY, THROUGHPUT, Metric, Row, name_of
from presentation.palette import INKS, Ink, Theme

__all__ = ["Limit", "can_be_drawn", "tradeoff"]

LABELLED = 3
"""Rows that carry their names where none is picked and nothing is on the front; the others tell them when pointed at."""
NEAR = 2.0
"""A limit further than that from all rows is off the picture: it would push them together."""


class Limit(NamedTuple):
    """A limit that was asked for, drawn as a rule with the refused side shaded."""

    latency_ms: float | None = None
    min_throughput_per_s: float | None = None


def tradeoff(
    rows: Sequence[Row],
    *,
    up: Metric = THROUGHPUT,
    theme: Theme | None = None,
    limit: Limit | None = None,
    percentile: str = "p50",
    picture: bool = False,
) -> Spec:
    """Draw latency against `up`, throughput or cost, with the rows that are `on_front` joined by a step line.

    Rows that are `picked` or `added`, and those on the front, carry their names. Where some are picked these alone show their
    intervals, which the others tell when pointed at.
    The line is dashed where one of them was not measured. Rows that lack either number are left out: the caller counts
    them with `can_be_drawn`. Raise ValueError beyond `MAX_MARKS`.
    """
    matching_rows = [row for row in rows if can_be_drawn(row, up)]
    refuse_too_many(len(matching_rows) * 3)
    x_unit = formatting.latency_scale([row["latency_ms"] for row in matching_rows])
    y_unit = up.scale([row[up.key] for row in matching_rows])
    lines = [
        line_of(row, index, LATENCY, x_unit, ranked=True)
        | {"up": y_unit.of(row[up.key])}
        | {"risen": y_unit.show(row[up.key], row.get(up.low), row.get(up.high)), "front": bool(row.get("on_front"))}
        | {"picked": bool(row.get("picked"))}
        for index, row in enumerate(matching_rows)
    ]
    ink = INKS[theme]
    picked = [line for line in lines if line["picked"]]
    others = [line for line in lines if picked and not line["picked"] and None not in (line["low"], line["high"])]
    ends = _with_limit(
        [*ends_of(picked), *(line["value"] for line in lines)] if picked else ends_of(lines), limit, x_unit
    )
    for line in lines:
        line["detail"] += f" · {line['risen']}"
    ups = [line["up"] for line in lines]
    across, up_room = reach_of(ends, True), _room(ups)
    spots = [_spot(line, across["domain"], up_room, drawn=not picked or line["picked"]) for line in lines]
    for line, placed in zip(lines, place_labels(_names(matching_rows), spots), strict=True):
        line |= placed
    x_title = f"{percentile} latency, {x_unit.unit} (log), {LATENCY.better}"
    y_title = f"{up.title}, {y_unit.unit} (log), {up.better}"
    x = {"type": "quantitative", "scale": across, "axis": axis(x_title, ink, ends)}
    y = {
        "field": "up",
        "type": "quantitative",
        "scale": {"type": "log", "domain": up_room, "nice": False},
        "axis": axis(y_title, ink, up_room),
    }
    worn = colour(matching_rows, theme, picture=picture)
    layers = [
        *_limit_layers(limit, x_unit, y_unit, ink, x, y),
        _front(lines, x, y, ink),
        _rules(picked or lines, x, y, worn),
        *_points(lines, x, y, worn),
        *([] if picture or not others else _pointed_at(others, x, y, worn)),
        *labels(lines, x, y, ink),
    ]
    return finished(height=320, theme=theme, picture=picture, layer=layers)


def can_be_drawn(row: Row, up: Metric) -> bool:
    """Say whether a row has both numbers, above zero as a logarithmic axis needs."""
    return _positive(row.get("latency_ms")) and _positive(row.get(up.key))


def _front(lines: Sequence[Row], x: Row, y: Row, ink: Ink) -> dict[str, Any]:
    """Return the step line through what nothing beats."""
    front = [line for line in lines if line["front"]]
    seen = all(line["basis"] in ("measured", "imported") for line in front)
    look = {"color": ink.muted, "strokeWidth": 1, "opacity": 0.8, "strokeDash": [1, 0] if seen else [4, 3]}
    at = {**x, "field": "value"}
    return {
        "data": {"values": front},
        "mark": {"type": "line", "interpolate": "step-after", **look},
        "encoding": {"x": at, "y": y, "order": {"field": "value", "type": "quantitative"}},
    }


def _rules(lines: Sequence[Row], x: Row, y: Row, worn: Row, **look: Any) -> dict[str, Any]:
    """Return the intervals as lines from low to high, dashed by basis."""
    return {
        "data": {"values": lines},
        "mark": {"type": "rule", **look},
        "encoding": {
            "x": {**x, "field": "low"},
            "x2": {"field": "high"},
            "y": y,
            "color": worn,
            "strokeDash": DASHES,
            "strokeWidth": {"field": "line", "type": "quantitative", "scale": None},
            "tooltip": DETAIL_TOOLTIP,
        },
    }


def _points(lines: Sequence[Row], x: Row, y: Row, worn: Row) -> Iterator[dict[str, Any]]:
    """Yield the marks of the rows, shaped and filled by their basis; ticks only where a row rests on the roofline alone."""
    at = {"x": {**x, "field": "value"}, "y": y, "tooltip": DETAIL_TOOLTIP}
    fill = {"field": "fill", "type": "quantitative", "scale": None}
    yield {
        "data": {"values": lines},
        "transform": [{"filter": {"field": "basis", "oneOf": SHAPED}}],
        "mark": {"type": "point", "size": SIZE, "strokeWidth": 2, "opacity": 1},
        "encoding": {**at, "stroke": worn, "fill": worn, "shape": SHAPES, "fillOpacity": fill},
    }
    if any(line["basis"] == "roofline" for line in lines):
        yield {
            "data": {"values": lines},
            "transform": [{"filter": "datum.basis === 'roofline'"}],
            "mark": {"type": "tick", "orient": "vertical", "size": 14, "thickness": 2, "opacity": 1},
            "encoding": {**at, "color": worn},
        }


def _pointed_at(lines: Sequence[Row], x: Row, y: Row, worn: Row) -> list[dict[str, Any]]:
    """Return the intervals that are drawn while their mark is pointed at."""
    drawn = _rules(lines, x, y, worn, clip=True)
    drawn["encoding"]["opacity"] = {"condition": {"param": "pointed", "empty": False, "value": 1}, "value": 0}
    select = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["id"]}
    reach = {
        "data": {"values": lines},
        "params": [{"name": "pointed", "select": select}],
        "mark": {"type": "point", "size": 300, "opacity": 0},
        "encoding": {"x": {**x, "field": "value"}, "y": y, "tooltip": DETAIL_TOOLTIP},
    }
    return [drawn, reach]


def _spot(line: dict[str, Any], domain: Sequence[float], ups: Sequence[float], *, drawn: bool) -> Spot:
    """Return where the mark of a line lies, with its interval where that is `drawn`."""
    low, high = ((line[end] if drawn else None) or line["value"] for end in ("low", "high"))
    return Spot(_place(line["value"], domain), 1 - _place(line["up"], ups), _place(low, domain), _place(high, domain))


def _place(value: float, ends: Sequence[float]) -> float:
    """Where a value lies on a logarithmic axis, from 0 to 1."""
    low, high = math.log(min(ends)), math.log(max(ends))
    return 0.5 if high == low else (math.log(value) - low) / (high - low)


def _room(values: Sequence[float]) -> list[float]:
    """Return the ends of a logarithmic axis that leaves room for marks and names."""
    if not values:
        return [0.1, 1.0]
    beyond = max(1.25, (max(values) / min(values)) ** 0.12)
    return [min(values) / beyond, max(values) * beyond]


def _with_limit(ends: list[float], limit: Limit | None, unit: formatting.Scale) -> list[float]:
    """Return the ends of the axis with a limit that is near enough to be shown."""
    at = None if limit is None else unit.of(limit.latency_ms)
    return [*ends, at] if at is not None and ends and min(ends) / NEAR < at < max(ends) * NEAR else ends


def _limit_layers(
    limit: Limit | None, x_unit: formatting.Scale, y_unit: formatting.Scale, ink: Ink, x: Row, y: Row
) -> Iterator[dict[str, Any]]:
    """Yield each limit as a rule, with the refused side shaded."""
    ways = (
        (limit.latency_ms, x_unit, "x", {**x, "field": "value"}, "width"),
        (limit.min_throughput_per_s, y_unit, "y", {**y, "field": "value"}, "height"),
    ) if limit is not None else ()  # fmt: skip
    for value, unit, way, at, end in ways:
        if value is not None:
            data = {"values": [{"value": unit.of(value)}]}
            shade = {"type": "rect", "opacity": 0.06, "color": ink.text, "clip": True}
            yield {"data": data, "mark": shade, "encoding": {way: at, f"{way}2": {"value": end}}}
            rule = {"type": "rule", "color": ink.text, "strokeWidth": 1, "clip": True}
            yield {"data": data, "mark": rule, "encoding": {way: at}}


def _names(rows: Sequence[Row]) -> dict[int, str]:
    """Return the names of the rows that carry one, by index: picks, the front, what was added; the first few where there is none."""
    ways = ("picked", "on_front", "added")
    order = list(dict.fromkeys(index for way in ways for index, row in enumerate(rows) if row.get(way)))
    order = order or list(range(min(LABELLED, len(rows))))
    devices = [short_name(str(rows[index].get("hardware")), rows[index].get("hardware_count")) for index in order]
    named = {}
    for device, index in zip(devices, order, strict=True):
        alike = [rows[other] for other, name in zip(order, devices, strict=True) if name == device]
        named[index] = f"{device} {_apart(rows[index], alike)}".rstrip()
    return named


def _apart(row: Row, alike: Sequence[Row]) -> str:
    """Return what tells a row from the others on its device: the precision or the batch where one of them does, else both."""
    ways = ((2, 3), (3, 4), (2, 4))
    parts = [name_of(one).split(" · ") for one in alike]
    for first, last in ways:
        if len(alike) > 1 and len({tuple(part[first:last]) for part in parts}) == len(alike):
            return " · ".join(name_of(row).split(" · ")[first:last])
    return " · ".join(name_of(row).split(" · ")[2:4]) if len(alike) > 1 else ""


def _positive(value: float | None) -> bool:
    return value is not None and value > 0
