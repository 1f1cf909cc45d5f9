"""Kernels of one device under its roofs: what was measured, and estimates of the standard kernels with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from domain.answers.kernels import DeviceKernels, KernelEstimate, KernelPoint, KernelRoof
from domain.performance.achieved_roofline import ridge
from presentation import formatting
from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.marks import DASHES, SHAPED, SHAPES, colour, platform_scale
from presentation.charts.roofline_chart import RING
from presentation.kernel_names import kernel_name, roof_words
from presentation.palette import BASIS_MARKS, INKS, Ink, Theme, basis_mark, colour_key

__all__ = ["ROOF_DASHES", "drawn_points", "kernels"]

HEIGHT = 460
APART = 18
"""Pixels between the names of two roofs."""
DEEPEST = 1e-5
"""Measured points that reach a smaller share of the highest peak lie below the picture, unless an estimate lies lower."""
ROOF_DASHES = {"specified": [1, 0], "sustained": [7, 4], "kernels": [2, 3]}
"""How a roof is drawn, by what says it."""
_TOOLTIP = [
    alt.Tooltip("name:N", title="Kernel"),
    alt.Tooltip("detail:N", title="Value"),
    alt.Tooltip("rests:N", title="Rests on"),
    alt.Tooltip("more:N", title="Measured"),
]


def kernels(document: DeviceKernels, *, theme: Theme | None = None, picture: bool = False) -> alt.LayerChart:
    """Draw the points and the estimates of one device, platform and precision under its roofs.

    Measured standard kernels are drawn as large as the estimates that they stand beside. Raise ValueError beyond `MAX_MARKS`.
    """
    seen = drawn_points(document)
    refuse_too_many(len(seen) + 4 * len(document.estimates) + 4 * len(document.roofs))
    platform = colour_key(document.platform)
    points = [_point(point, platform) for point in seen]
    pairs = [_pair(item, platform) for item in document.estimates if item.measured is not None]
    estimates = [_estimate(item, platform) for item in document.estimates]
    ends = [{"x": item["x"], "y": item[end] or item["y"]} for item in estimates for end in ("low", "high")]
    lines = [line for roof in document.roofs if (line := _line(roof, document.roofs))]
    feed = document.roofs[0].bandwidth_bytes_per_s if document.roofs else None
    across, up = _domains([*points, *pairs, *ends], lines, feed)
    ink = INKS[theme]
    x_axis = axis_of("FLOP per byte (log)", ink, across)
    y_axis = axis_of("FLOP/s (log), larger is better", ink, up)
    x_axis["format"] = y_axis["format"] = "~s"
    x = alt.X("x:Q", scale=alt.Scale(type="log", domain=list(across), nice=False), axis=x_axis)
    y = alt.Y("y:Q", scale=alt.Scale(type="log", domain=list(up), nice=False), axis=y_axis)
    worn = colour([{"platform": document.platform, "latency_ms": 1.0}], theme, picture=picture)
    layers: list[alt.Chart] = []
    if lines:
        layers += _roofs(lines, across, x, y, ink)
    if points:
        layers.append(_marks(points, x, y, worn, size=64, width=1.25, opacity=0.5))
    if any(item["over"] for item in points):
        layers.append(_rings(points, x, y, theme))
    if any(item["low"] for item in estimates):
        layers.append(_intervals(estimates, x, y, theme, picture=picture))
    shaped = [item for item in estimates if item["basis"] in SHAPED]
    if shaped:
        layers.append(_marks(shaped, x, y, worn, size=120, width=2, opacity=1))
    if len(shaped) < len(estimates):
        layers.append(_ticks([item for item in estimates if item["basis"] not in SHAPED], x, y, worn))
    if pairs:
        layers.append(_marks(pairs, x, y, worn, size=120, width=2, opacity=1))
    layers += _names(lines, ink)
    if not layers:
        layers = [alt.Chart(Rows(values=[])).mark_point().encode(x=x, y=y)]
    return finish(alt.layer(*layers), height=HEIGHT, theme=theme, picture=picture)


def drawn_points(document: DeviceKernels) -> list[KernelPoint]:
    """Return the measured points that the picture has room for: tiny kernels far below everything else are left out."""
    peak = max((roof.flops_per_s or 0.0 for roof in document.roofs), default=0.0)
    lowest = min([DEEPEST * peak, *(item.flops_per_s_low or item.flops_per_s for item in document.estimates)])
    return [point for point in document.points if point.flops_per_s >= lowest]


def _domains(
    drawn: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]], feed: float | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return both axes' ends: all that is drawn, the ridges with room beside them, and the names above the roofs."""
    peaks = [line["flops_per_s"] for line in lines]
    ridges = [ridge(peak, feed) for peak in peaks] if feed else []
    xs = [item["x"] for item in drawn] + [place * side for place in ridges for side in (0.1, 10.0)]
    ys = [item["y"] for item in drawn] + peaks
    low, high = math.log10(min(ys, default=1e9) / 1.6), math.log10(max(ys, default=1e12) * 1.3)
    high += (high - low) * APART * len(lines) / (HEIGHT - APART * len(lines))
    return (min(xs, default=0.1) / 1.6, max(xs, default=1000.0) * 1.6), (10**low, 10**high)


def _line(roof: KernelRoof, roofs: Sequence[KernelRoof]) -> dict[str, Any] | None:
    """Return a roof to draw: its own peak and bandwidth, the specified one in the place of what it does not say."""
    peak = roof.flops_per_s or roofs[0].flops_per_s
    if peak is None:
        return None
    return {
        "source": roof.source,
        "flops_per_s": peak,
        "feed": roof.bandwidth_bytes_per_s or roofs[0].bandwidth_bytes_per_s,
        "words": roof_words(roof),
    }


def _roofs(
    lines: Sequence[Mapping[str, Any]], across: tuple[float, float], x: alt.X, y: alt.Y, ink: Ink
) -> list[alt.Chart]:
    rows: list[dict[str, Any]] = []
    for line in lines:
        bend = max(across[0], ridge(line["flops_per_s"], line["feed"])) if line["feed"] else across[0]
        corners = [(bend, line["flops_per_s"]), (across[1], line["flops_per_s"])]
        if line["feed"] and bend > across[0]:
            corners.insert(0, (across[0], across[0] * line["feed"]))
        rows += [{"x": place, "y": rate, "source": line["source"], "words": line["words"]} for place, rate in corners]
    dashes = alt.Scale(domain=list(ROOF_DASHES), range=list(ROOF_DASHES.values()))
    return [
        alt.Chart(Rows(values=rows))
        .mark_line(color=ink.muted, strokeWidth=1.75, clip=True)
        .encode(
            x=x,
            y=y,
            detail=alt.Detail("source:N"),
            strokeDash=alt.StrokeDash("source:N", scale=dashes, legend=None),
            tooltip=alt.Tooltip("words:N", title="Roof"),
        )
    ]


def _marks(
    rows: Sequence[Mapping[str, Any]],
    x: alt.X,
    y: alt.Y,
    worn: dict[str, Any],
    *,
    size: int,
    width: float,
    opacity: float,
) -> alt.Chart:
    return (
        alt.Chart(Rows(values=list(rows)))
        .mark_point(size=size, strokeWidth=width, opacity=opacity)
        .encode(
            x=x,
            y=y,
            tooltip=_TOOLTIP,
            stroke=alt.Stroke(**worn),
            fill=alt.Fill(**worn),
            shape=alt.Shape(**SHAPES),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        )
    )


def _rings(points: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y, theme: Theme | None) -> alt.Chart:
    over = [point for point in points if point["over"]]
    return (
        alt.Chart(Rows(values=over))
        .mark_point(shape="circle", size=150, filled=False, strokeWidth=1.25, stroke=RING[theme], opacity=0.9)
        .encode(x=x, y=y, tooltip=_TOOLTIP)
    )


def _intervals(
    estimates: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y, theme: Theme | None, *, picture: bool
) -> alt.Chart:
    return (
        alt.Chart(Rows(values=[item for item in estimates if item["low"]]))
        .mark_rule(strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=alt.Y("low:Q", scale=y["scale"], axis=y["axis"]),
            y2=alt.Y2("high:Q"),
            color=alt.Color("platform:N", scale=platform_scale(theme, picture=picture), legend=None),
            strokeDash=alt.StrokeDash(**DASHES),
            tooltip=_TOOLTIP,
        )
    )


def _ticks(estimates: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y, worn: dict[str, Any]) -> alt.Chart:
    return (
        alt.Chart(Rows(values=list(estimates)))
        .mark_tick(orient="horizontal", size=14, thickness=2, opacity=1)
        .encode(x=x, y=y, color=alt.Color(**worn), tooltip=_TOOLTIP)
    )


def _names(lines: Sequence[Mapping[str, Any]], ink: Ink) -> list[alt.Chart]:
    """Return what each roof's dash means, in the corner above the slope, where no kernel can lie."""
    layers: list[alt.Chart] = []
    for place, line in enumerate(lines):
        base = alt.Chart(Rows(values=[{"words": line["words"]}])).encode(y=alt.value(12 + APART * place))
        sample = base.mark_rule(color=ink.muted, strokeWidth=1.75, strokeDash=ROOF_DASHES[line["source"]])
        words = base.mark_text(align="left", baseline="middle", fontSize=12, color=ink.text)
        layers += [
            sample.encode(x=alt.value(8), x2=alt.value(36)),
            words.encode(x=alt.value(44), text=alt.Text("words:N")),
        ]
    return layers


def _point(point: KernelPoint, platform: str) -> dict[str, Any]:
    simulated = " · SIMULATED" if point.origin == "simulated" else ""
    alike = "" if point.stands_for == 1 else f" · the best of {formatting.count(point.stands_for)} that lie here"
    over = f" · over the {point.over}" if point.over else ""
    rates = f"{formatting.si(point.flops_per_s, 'FLOP/s')}, {formatting.si(point.bytes_per_s, 'B/s')}"
    return {
        "x": point.flop_per_byte,
        "y": point.flops_per_s,
        "over": point.over is not None,
        "name": kernel_name(point.operator, point.name, point.phase, point.sizes) + simulated,
        "detail": f"{formatting.latency(point.latency_ms)} · {rates} · {formatting.share(point.share)} of its roof{over}",
        "rests": f"{point.basis} · {point.runtime or 'runtime not said'} · {point.verdict or 'no verdict'}",
        "more": f"event {point.event_id}, row {point.row}{alike}",
        "platform": platform,
        "basis": point.basis,
        "fill": basis_mark(point.basis).fill_opacity,
    }


def _estimate(item: KernelEstimate, platform: str) -> dict[str, Any]:
    interval = formatting.latency(item.latency_ms, item.latency_ms_low, item.latency_ms_high)
    measured = item.measured
    beside = (
        "not measured"
        if measured is None
        else f"{formatting.latency(measured.latency_ms)}, {formatting.factor(measured.ratio)} the estimate"
    )
    supported = "80 % interval" if item.latency_ms_low is not None else "no interval"
    return {
        "x": item.flop_per_byte,
        "y": item.flops_per_s,
        "low": item.flops_per_s_low,
        "high": item.flops_per_s_high,
        "over": False,
        "name": f"{item.id} · {kernel_name(item.operator, item.name, item.phase, item.sizes)}",
        "detail": f"estimate {interval} · {formatting.si(item.flops_per_s, 'FLOP/s')} · {formatting.share(item.share)} of its roof",
        "rests": f"{item.basis} · {supported} · launched {item.launch}",
        "more": beside,
        "platform": platform,
        "basis": item.basis if item.basis in BASIS_MARKS else "roofline",
        "fill": 0.0,
    }


def _pair(item: KernelEstimate, platform: str) -> dict[str, Any]:
    measured = item.measured
    assert measured is not None
    simulated = " · SIMULATED" if measured.origin == "simulated" else ""
    within = {True: "within the estimate's interval", False: "outside the estimate's interval", None: "no interval"}
    return {
        "x": item.flop_per_byte,
        "y": measured.flops_per_s,
        "over": False,
        "name": f"{item.id} · {kernel_name(item.operator, item.name, item.phase, item.sizes)}{simulated}",
        "detail": f"{formatting.latency(measured.latency_ms)} · {formatting.si(measured.flops_per_s, 'FLOP/s')} · "
        f"{formatting.share(measured.share)} of its roof",
        "rests": f"{measured.basis} · {formatting.count(measured.timings)} timings · event {measured.event_id}",
        "more": f"{formatting.factor(measured.ratio)} the estimate of {formatting.latency(item.latency_ms)}, {within[measured.within]}",
        "platform": platform,
        "basis": measured.basis,
        "fill": basis_mark(measured.basis).fill_opacity,
    }
