"""Latency against cost or throughput, and what nothing beats in both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import altair as alt

from presentation import formatting
from presentation.answer_words import short_name
from presentation.charts.axes import axis_of, scale_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.marks import ends_of, line_of, points, rules, ticks
from presentation.charts.metrics import LATENCY, THROUGHPUT, Metric, Row, name_of
from presentation.palette import INKS, Ink, Theme

__all__ = ["Limit", "can_be_drawn", "tradeoff"]

LABELLED = 3
"""Rows that carry their names where none is picked and nothing is on the front; the others tell them when pointed at."""
WIDTH, HEIGHT, PER_LETTER, LINE, MARK = 640, 250, 7, 13, 8
"""Pixels of a page, of the picture on it, of a letter, of a line and of half a mark, by which names are kept apart."""
NEAR = 2.0
"""A limit further than that from all rows is off the picture: it would push them together."""
SIDES: dict[str, tuple[Literal["left", "right"], int, int]] = {
    "right above": ("left", 9, -11),
    "left above": ("right", -9, -11),
    "right below": ("left", 9, 13),
    "left below": ("right", -9, 13),
}


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

    Rows that are `picked`, and those on the front, carry their names. Where some are picked these alone show their
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
        | {"up": y_unit.of(row[up.key]), "short": "", "side": ""}
        | {"risen": y_unit.show(row[up.key], row.get(up.low), row.get(up.high)), "front": bool(row.get("on_front"))}
        | {"picked": bool(row.get("picked"))}
        for index, row in enumerate(matching_rows)
    ]
    ink = INKS[theme]
    picked = [line for line in lines if line["picked"]]
    ends = _with_limit(
        [*ends_of(picked), *(line["value"] for line in lines)] if picked else ends_of(lines), limit, x_unit
    )
    for line in lines:
        line["detail"] += f" · {line['risen']}"
    ups = [line["up"] for line in lines]
    _name(lines, _names(matching_rows), ends, _room(ups), shown=picked or lines)
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
        # A layer without marks is set up by the browser all the same.
        *(
            [ticks(base, x, matching_rows, theme, picture=picture)]
            if any(line["basis"] == "roofline" for line in lines)
            else []
        ),
        *(_named(base, x, ink, side) for side in SIDES if any(line["side"] == side for line in lines)),
    ]
    return finish(alt.layer(*layers), height=320, theme=theme, picture=picture)


def can_be_drawn(row: Row, up: Metric) -> bool:
    """Say whether a row has both numbers, above zero as a logarithmic axis needs."""
    return _positive(row.get("latency_ms")) and _positive(row.get(up.key))


def _named(base: alt.Chart, x: alt.X, ink: Ink, side: str) -> alt.Chart:
    align, dx, dy = SIDES[side]
    near = base.transform_filter(alt.datum.side == side)
    return near.mark_text(align=align, dx=dx, dy=dy, fontSize=12, color=ink.text).encode(x=x, text=alt.Text("short:N"))


def _name(
    lines: Sequence[dict[str, Any]],
    named: Mapping[int, str],
    ends: Sequence[float],
    ups: Sequence[float],
    *,
    shown: Sequence[dict[str, Any]],
) -> None:
    """Give rows their names where there is room, best first: over no mark, interval that is `shown`, or other name."""
    spread = {id(line) for line in shown}
    marks = [
        (
            _place((line["low"] if id(line) in spread else None) or line["value"], ends),
            _place((line["high"] if id(line) in spread else None) or line["value"], ends),
            _place(line["up"], ups),
        )
        for line in lines
    ]
    taken = [(left * WIDTH - MARK, right * WIDTH + MARK, at * HEIGHT) for left, right, at in marks]
    names: list[tuple[float, float, float]] = []
    for index, name in named.items():
        across, at = _place(lines[index]["value"], ends) * WIDTH, taken[index][2]
        long = PER_LETTER * len(name) + MARK
        for side, (align, _, down) in SIDES.items():
            left = across - long if align == "right" else across
            box = (left, left + long, at - down)
            others = [*taken[:index], *taken[index + 1 :], *names]
            if left >= 0 and left + long <= WIDTH and not any(_meet(box, other) for other in others):
                lines[index] |= {"short": name, "side": side}
                names.append(box)
                break


def _meet(values: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    return values[0] < other[1] and other[0] < values[1] and abs(values[2] - other[2]) < LINE


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
    """Return the names of the rows that carry one, by index: picks, then the front; the first few where there is neither."""
    order = [index for index, row in enumerate(rows) if row.get("picked")]
    order += [index for index, row in enumerate(rows) if row.get("on_front") and not row.get("picked")]
    order = order or list(range(min(LABELLED, len(rows))))
    devices = [short_name(str(rows[index].get("hardware")), rows[index].get("hardware_count")) for index in order]
    if len(set(devices)) < len(devices):
        parts = [" · ".join(name_of(rows[index]).split(" · ")[2:4]) for index in order]
        devices = [
            f"{device} {part}" if devices.count(device) > 1 else device
            for device, part in zip(devices, parts, strict=True)
        ]
    return dict(zip(order, devices, strict=True))


def _positive(value: float | None) -> bool:
    return value is not None and value > 0
