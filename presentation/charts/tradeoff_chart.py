"""Latency against cost or throughput, and what nothing beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from presentation import formatting
from presentation.answer_words import short_name
from presentation.charts.axes import axis_of, scale_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.label_layout import Spot, labels, place_labels
from presentation.charts.marks import TOOLTIP, ends_of, line_of, points, rules, ticks
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
) -> alt.LayerChart:
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
    spots = [_spot(line, ends, _room(ups), drawn=not picked or line["picked"]) for line in lines]
    for line, placed in zip(lines, place_labels(_names(matching_rows), spots), strict=True):
        line |= placed
    x_axis = axis_of(f"{percentile} latency, {x_unit.unit} (log), {LATENCY.better}", ink, ends)
    y_axis = axis_of(f"{up.title}, {y_unit.unit} (log), {up.better}", ink, _room(ups))
    x = alt.X("value:Q", scale=scale_of(ends, True), axis=x_axis)
    y = alt.Y("up:Q", scale=alt.Scale(type="log", domain=_room(ups), nice=False), axis=y_axis)
    front = [line for line in lines if line["front"]]
    seen = all(line["basis"] in ("measured", "imported") for line in front)
    base = alt.Chart(Rows(values=lines)).encode(y=y)
    layers: list[alt.Chart] = [
        *_limit_layers(limit, x_unit, y_unit, ink, x, y),
        alt.Chart(Rows(values=front))
        .mark_line(
            interpolate="step-after", color=ink.muted, strokeWidth=1, opacity=0.8, strokeDash=[1, 0] if seen else [4, 3]
        )
        .encode(x=x, y=y, order=alt.Order("value:Q")),
        rules(
            alt.Chart(Rows(values=picked)).encode(y=y) if picked else base,
            scale_of(ends, True),
            x_axis,
            matching_rows,
            theme,
            picture=picture,
        ),
        points(base, x, matching_rows, theme, picture=picture),
        *(_pointed_at(others, y, scale_of(ends, True), x_axis, matching_rows, theme) if not picture else ()),
        # A layer without marks is set up by the browser all the same.
        *(
            [ticks(base, x, matching_rows, theme, picture=picture)]
            if any(line["basis"] == "roofline" for line in lines)
            else []
        ),
        *labels(lines, x, y, ink),
    ]
    return finish(alt.layer(*layers), height=320, theme=theme, picture=picture)


def can_be_drawn(row: Row, up: Metric) -> bool:
    """Say whether a row has both numbers, above zero as a logarithmic axis needs."""
    return _positive(row.get("latency_ms")) and _positive(row.get(up.key))


def _pointed_at(
    lines: Sequence[dict[str, Any]],
    y: alt.Y,
    scale: alt.Scale,
    axis: alt.Axis,
    rows: Sequence[Row],
    theme: Theme | None,
) -> list[alt.Chart]:
    """Return the intervals that are drawn while their mark is pointed at."""
    if not lines:
        return []
    pointed = alt.selection_point(name="pointed", on="pointerover", clear="pointerout", fields=["id"], empty=False)
    drawn = rules(alt.Chart(Rows(values=lines)).encode(y=y), scale, axis, rows, theme, picture=False, clip=True)
    reach = (
        alt.Chart(Rows(values=lines))
        .mark_point(size=300, opacity=0)
        .encode(x=alt.X("value:Q", scale=scale, axis=axis), y=y, tooltip=TOOLTIP)
    )
    return [
        drawn.encode(opacity=alt.condition(pointed, alt.value(1), alt.value(0))),
        reach.add_params(pointed),
    ]


def _spot(line: dict[str, Any], ends: Sequence[float], ups: Sequence[float], *, drawn: bool) -> Spot:
    """Return where the mark of a line lies, with its interval where that is `drawn`."""
    domain = scale_of(ends, True).to_dict()["domain"]
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
    limit: Limit | None, x_unit: formatting.Scale, y_unit: formatting.Scale, ink: Ink, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    if limit is None:
        return []
    layers: list[alt.Chart] = []
    if limit.latency_ms is not None:
        at = alt.Chart(Rows(values=[{"value": x_unit.of(limit.latency_ms)}])).encode(x=x)
        layers += [
            at.mark_rect(opacity=0.06, color=ink.text, clip=True).encode(x2=alt.X2Value("width")),
            at.mark_rule(color=ink.text, strokeWidth=1, clip=True),
        ]
    if limit.min_throughput_per_s is not None:
        at = alt.Chart(Rows(values=[{"up": y_unit.of(limit.min_throughput_per_s)}])).encode(y=y)
        layers += [
            at.mark_rect(opacity=0.06, color=ink.text, clip=True).encode(y2=alt.Y2Value("height")),
            at.mark_rule(color=ink.text, strokeWidth=1, clip=True),
        ]
    return layers


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
