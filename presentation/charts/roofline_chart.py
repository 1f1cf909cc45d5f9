"""A roofline: FLOP/s over FLOP per byte, one roof a precision, and what was measured under it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from domain.performance.achieved_roofline import ridge
from presentation import formatting
from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.marks import points
from presentation.charts.metrics import Row
from presentation.palette import BASIS_MARKS, INKS, Ink, Theme, basis_mark, colour_key

__all__ = ["roofline"]

HEIGHT = 400
LETTERS = 0.6
"""Half the room of words on the slope, in factors of ten of the axis."""
WIDE = 690
"""Pixels of the plot in the page at 1,280: there a slope of one is a line at 45°."""
RING: dict[Theme | None, str] = {"light": "#8A7B00", "dark": "#F0E000", None: "#8A7B00"}
"""The colour of a suspect verdict: what is over its roof is to be checked."""
_FIELDS = ["x", "y", "over", "name", "detail", "rests", "runtime", "marks", "platform", "basis", "fill"]
TOOLTIP = [
    alt.Tooltip("name:N", title="Configuration"),
    alt.Tooltip("detail:N", title="Value"),
    alt.Tooltip("rests:N", title="Rests on"),
    alt.Tooltip("runtime:N", title="Runtime"),
    alt.Tooltip("marks:N", title="Mark"),
]


def roofline(
    measured: Sequence[Row],
    roofs: Sequence[Mapping[str, Any]],
    bandwidth: tuple[float, str] | None,
    *,
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw measured points of `GET /v1/hardware/{id}/roofline` under the roofs of `dashboard.screens.hardware.roofline`.

    `bandwidth` is bytes a second and their words; without it there is no slope, without roofs nothing is above the points.
    A point over its roof has a ring. Raise ValueError beyond `MAX_MARKS`.
    """
    refuse_too_many(2 * len(measured) + 4 * len(roofs))
    drawn = [_point(row) for row in measured]
    across, up = _domains(drawn, roofs, bandwidth)
    ink = INKS[theme]
    x_axis = axis_of("FLOP per byte (log)", ink, across)
    y_axis = axis_of("FLOP/s (log), larger is better", ink, up)
    y_axis["format"] = x_axis["format"] = "~s"
    x_scale = alt.Scale(type="log", domain=list(across), nice=False)
    y_scale = alt.Scale(type="log", domain=list(up), nice=False)
    x = alt.X("x:Q", scale=x_scale, axis=x_axis)
    y = alt.Y("y:Q", scale=y_scale, axis=y_axis)
    # A frame crosses once for both layers, and is not checked value by value as inline data are.
    base = alt.Chart(pd.DataFrame(drawn, columns=_FIELDS)).encode(y=y)
    rows = [{**row, "platform": item["platform"]} for row, item in zip(measured, drawn, strict=True)]
    lines, names = _roofs(roofs, bandwidth, (across, up), drawn, ink, x, y)
    layers: list[alt.Chart] = [
        *lines,
        points(base, x, rows, theme, picture=picture).encode(tooltip=TOOLTIP, size=alt.SizeValue(64)),
        base.transform_filter("datum.over")
        .mark_point(shape="circle", size=190, filled=False, strokeWidth=1.25, stroke=RING[theme], opacity=1)
        .encode(x=x, tooltip=TOOLTIP),
        *names,
    ]
    return finish(alt.layer(*layers), height=HEIGHT, theme=theme, picture=picture)


def _point(row: Row) -> dict[str, Any]:
    basis = str(row.get("basis") or "unknown")
    mode = " · training" if row["mode"] == "training" else ""
    simulated = " · SIMULATED" if row.get("origin") == "simulated" else ""
    latency = formatting.latency(row["latency_ms"], mean=bool(row.get("latency_is_mean")))
    share, roof = formatting.share(row["share"]), formatting.si(row["roof_flops_per_s"], "FLOP/s")
    stands = row.get("stands_for") or 1
    return {
        "x": row["flop_per_byte"],
        "y": row["flops_per_s"],
        "over": bool(row.get("over")),
        "name": f"{row['model']} · {row['platform']} · {row['precision']} · batch {row['batch_size']}{mode}{simulated}",
        "detail": f"{formatting.si(row['flops_per_s'], 'FLOP/s')}, {share} of its roof of {roof} · {latency}",
        "rests": f"{basis} · {formatting.samples(row.get('n'))} · {row.get('verdict') or 'no verdict'}",
        "runtime": str(row.get("runtime") or "not said"),
        "marks": "this configuration" if stands == 1 else f"the best of {formatting.count(stands)} that lie here",
        "platform": colour_key(row.get("platform")),
        "basis": basis if basis in BASIS_MARKS else "roofline",
        "fill": basis_mark(basis).fill_opacity,
    }


def _domains(
    drawn: Sequence[Mapping[str, Any]], roofs: Sequence[Mapping[str, Any]], bandwidth: tuple[float, str] | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return both axes' ends: all points, the ridges with room beside them, and a slope of one at 45°."""
    peaks = [roof["flops_per_s"] for roof in roofs]
    ridges = [ridge(peak, bandwidth[0]) for peak in peaks] if bandwidth else []
    xs = [point["x"] for point in drawn] + [ridge * side for ridge in ridges for side in (0.5, 3.0)]
    ys = [point["y"] for point in drawn] + peaks
    if not drawn and peaks:
        ys.append(min(peaks) / 100)
    low_x, high_x = math.log10(min(xs, default=0.1)) - 0.1, math.log10(max(xs, default=1000.0)) + 0.1
    low_y, high_y = math.log10(min(ys, default=1e9)) - 0.15, math.log10(max(ys, default=1e12)) + 0.3
    wide = (high_y - low_y) * WIDE / HEIGHT - (high_x - low_x)
    if wide > 0:
        low_x, high_x = low_x - wide / 2, high_x + wide / 2
    else:
        low_y += wide * HEIGHT / WIDE
    return (10**low_x, 10**high_x), (10**low_y, 10**high_y)


def _roofs(
    roofs: Sequence[Mapping[str, Any]],
    bandwidth: tuple[float, str] | None,
    ends: tuple[tuple[float, float], tuple[float, float]],
    drawn: Sequence[Mapping[str, Any]],
    ink: Ink,
    x: alt.X,
    y: alt.Y,
) -> tuple[list[alt.Chart], list[alt.Chart]]:
    """Return the flat lines and the slope under the highest of them, and the names of all."""
    (low, high), (bottom, _) = ends
    feed = bandwidth[0] if bandwidth else math.inf
    flats: list[dict[str, Any]] = []
    for roof in roofs:
        begin = max(low, ridge(roof["flops_per_s"], feed))
        dash = [5, 4] if roof["reached"] else [1, 0]
        flats.append({"x": begin, "x2": high, "y": roof["flops_per_s"], **roof, "dash": dash})
    flat = alt.Chart(Rows(values=flats))
    lines = [
        flat.mark_rule(color=ink.muted, strokeWidth=1.75).encode(
            x=x,
            x2=alt.X2("x2:Q"),
            y=y,
            strokeDash=alt.StrokeDash("dash:N", scale=None),
            tooltip=alt.Tooltip("words:N", title="Roof"),
        )
    ]
    end = alt.X("x2:Q", scale=x["scale"], axis=x["axis"])
    names = _words(flat.encode(x=end, y=y), ink, dx=-4, baseline="bottom", dy=-4)
    if bandwidth is not None and flats:
        top = max(roof["y"] for roof in flats)
        slope = alt.Chart(Rows(values=[{"x": low, "y": low * feed}, {"x": ridge(top, feed), "y": top}]))
        lines.append(slope.mark_line(color=ink.muted, strokeWidth=1.75, clip=True).encode(x=x, y=y))
        place = _free(max(low * 10 ** (2 * LETTERS), bottom / feed), ridge(top, feed), feed, drawn)
        named = alt.Chart(Rows(values=[{"x": place, "y": place * feed, "words": bandwidth[1]}])).encode(x=x, y=y)
        names += _words(named, ink, dx=-10, dy=-4, clip=True)
    return lines, names


def _words(base: alt.Chart, ink: Ink, **look: Any) -> list[alt.Chart]:
    """Return words that end at a place, on a rim of the ground's colour so that marks under them do not break them."""
    rim = base.mark_text(align="right", fontSize=12, color=ink.ground, stroke=ink.ground, strokeWidth=4, **look)
    return [
        item.encode(text=alt.Text("words:N"))
        for item in (rim, base.mark_text(align="right", fontSize=12, color=ink.text, **look))
    ]


def _free(low: float, high: float, feed: float, drawn: Sequence[Mapping[str, Any]]) -> float:
    """Return the place on the slope, as FLOP per byte, at which words are farthest from every point."""
    places: list[float] = [low * (high / low) ** part for part in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)]
    return max(places, key=lambda item: min((_apart(item, item * feed, point) for point in drawn), default=0.0))


def _apart(x: float, y: float, point: Mapping[str, Any]) -> float:
    """Return how far a point is from words that end at a place, in factors of ten."""
    aside = abs(math.log10(point["x"] / x) + LETTERS) - LETTERS
    return math.hypot(max(aside, 0.0), math.log10(point["y"] / y))
