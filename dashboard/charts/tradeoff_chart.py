"""Latency against throughput, and what nothing beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from assay import numbers
from dashboard.charts.axes import axis_of, scale_of
from dashboard.charts.frame import finish, refuse_too_many
from dashboard.charts.marks import ends_of, line_of, points, rules, ticks
from dashboard.charts.metrics import LATENCY, Row
from dashboard.palette import INKS, Ink, Theme

__all__ = ["Limit", "tradeoff", "undominated"]


class Limit(NamedTuple):
    """A limit that was asked for, drawn as a rule with the refused side shaded."""

    latency_ms: float | None = None
    min_throughput_per_s: float | None = None


def tradeoff(
    rows: Sequence[Row],
    *,
    theme: Theme | None = None,
    limit: Limit | None = None,
    percentile: str = "p50",
    picture: bool = False,
) -> alt.LayerChart:
    """Draw latency against throughput with the set that nothing beats joined by a step line.

    Rows that lack either number are left out: the caller counts them. Raise ValueError beyond `MAX_MARKS`.
    """
    known = [row for row in rows if _positive(row.get("latency_ms")) and _positive(row.get("throughput_per_s"))]
    refuse_too_many(len(known) * 3)
    x_unit = numbers.latency_scale([row["latency_ms"] for row in known])
    y_unit = numbers.throughput_scale([row["throughput_per_s"] for row in known])
    drawn = [
        line_of(row, index, LATENCY, x_unit, ranked=True)
        | {"up": y_unit.of(row["throughput_per_s"]), "short": _short(row) if index < 3 else ""}
        for index, row in enumerate(known)
    ]
    ink = INKS[theme]
    ends = ends_of(drawn)
    for line in drawn:
        # A name turns inwards where the picture ends.
        line["side"] = "right" if line["value"] > math.sqrt(min(ends) * max(ends)) else "left"
    ups = [line["up"] for line in drawn]
    x_axis = axis_of(f"{percentile} latency, {x_unit.unit} (log), smaller is better", ink, ends)
    y_axis = axis_of(f"Throughput, {y_unit.unit} (log), larger is better", ink, ups)
    x = alt.X("value:Q", scale=scale_of(ends, True), axis=x_axis)
    y = alt.Y("up:Q", scale=alt.Scale(type="log", nice=False, padding=24), axis=y_axis)
    best = {id(row) for row in undominated(known)}
    front = [line for row, line in zip(known, drawn, strict=True) if id(row) in best]
    base = alt.Chart(alt.Data(values=drawn)).encode(y=y)
    layers: list[alt.Chart] = [
        *_limit_layers(limit, x_unit, y_unit, ink, x, y),
        alt.Chart(alt.Data(values=front))
        .mark_line(interpolate="step-after", color=ink.muted, strokeWidth=1, opacity=0.7)
        .encode(x=x, y=y, order=alt.Order("value:Q")),
        rules(base, scale_of(ends, True), x_axis, known, theme, picture=picture),
        points(base, x, known, theme, picture=picture),
        ticks(base, x, known, theme, picture=picture),
        _named(base, x, ink, "left", 9),
        _named(base, x, ink, "right", -9),
    ]  # fmt: skip
    return finish(alt.layer(*layers), height=320, theme=theme, picture=picture)


def undominated(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other row beats in latency and in throughput at once, by rising latency."""
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["latency_ms"], -row["throughput_per_s"])):
        if not found or row["throughput_per_s"] > found[-1]["throughput_per_s"]:
            found.append(row)
    return found


def _named(base: alt.Chart, x: alt.X, ink: Ink, side: str, away: int) -> alt.Chart:
    near = base.transform_filter(alt.datum.side == side)
    return near.mark_text(align=side, dx=away, dy=-10, fontSize=12, color=ink.text).encode(x=x, text="short:N")


def _limit_layers(
    limit: Limit | None, x_unit: numbers.Scale, y_unit: numbers.Scale, ink: Ink, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    if limit is None:
        return []
    layers: list[alt.Chart] = []
    if limit.latency_ms is not None:
        at = alt.Chart(alt.Data(values=[{"value": x_unit.of(limit.latency_ms)}])).encode(x=x)
        layers += [
            at.mark_rect(opacity=0.06, color=ink.text, clip=True).encode(x2=alt.value("width")),
            at.mark_rule(color=ink.text, strokeWidth=1, clip=True),
        ]
    if limit.min_throughput_per_s is not None:
        at = alt.Chart(alt.Data(values=[{"up": y_unit.of(limit.min_throughput_per_s)}])).encode(y=y)
        layers += [
            at.mark_rect(opacity=0.06, color=ink.text, clip=True).encode(y2=alt.value("height")),
            at.mark_rule(color=ink.text, strokeWidth=1, clip=True),
        ]
    return layers


def _short(row: Row) -> str:
    return f"{row.get('hardware')} · {row.get('precision')} · b{row.get('batch_size')}"


def _positive(value: float | None) -> bool:
    return value is not None and value > 0
