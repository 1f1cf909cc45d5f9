"""The marks that all charts share: colour says the platform; shape, fill and dash say the basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from presentation import formatting
from presentation.charts.metrics import LATENCY, MEMORY, METRICS, Metric, Row, name_of
from presentation.palette import BASIS_MARKS, PLATFORM_COLOURS, PLATFORM_DOMAIN, Theme, basis_mark, colour_key

__all__ = [
    "DASHES",
    "DETAIL_TOOLTIP",
    "SHAPED",
    "SHAPES",
    "SIZE",
    "TOOLTIP",
    "colour",
    "coloured",
    "dashed",
    "ends_of",
    "line_of",
    "platform_scale",
    "points",
    "rules",
    "ticks",
]

SIZE = 110
"""Area of a mark in square pixels; 64 is the smallest that can still be distinguished."""

DETAIL_TOOLTIP = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (
        ("name", "Configuration"),
        ("detail", "Value"),
        ("rests", "Rests on"),
        ("asked", "Asked → actual"),
        ("runtime", "Runtime"),
    )
]
"""What a mark says of its row, as it is sent."""
TOOLTIP = [alt.Tooltip(**item) for item in DETAIL_TOOLTIP]
SHAPED = [basis for basis, mark in BASIS_MARKS.items() if mark.shape]
"""Bases that have a mark of their own; the others are ticks."""


def line_of(row: Row, index: int, metric: Metric, scale: formatting.Scale, *, ranked: bool) -> dict[str, Any]:
    """Return what the marks of one row are drawn from: its names, words and numbers in the unit of `scale`."""
    value, low, high = (row.get(key) for key in (metric.key, metric.low, metric.high))
    show = scale.show(value, low, high)
    if row.get("latency_is_mean") and metric is LATENCY and value is not None:
        show += " (mean)"
    rank = f"{row.get('rank_band') or row.get('rank')}\u2002" if ranked and row.get("rank") is not None else ""
    simulated = " · SIMULATED" if row.get("origin") == "simulated" else ""
    basis = str(row.get("basis") or "unknown")
    return {
        "id": str(row.get("configuration") or index),
        "order": index,
        "label": f"{rank}{name_of(row)}{simulated}",
        "narrow": f"{rank}{row.get('narrow') or name_of(row)}{simulated}",
        "name": name_of(row) + simulated,
        "value": scale.of(value),
        "low": scale.of(low),
        "high": scale.of(high),
        "text": show if value is not None else f"{formatting.MISSING} {_reason(row, metric)}",
        "brief": show.partition(" (")[0],
        "detail": show if value is not None else "not measured",
        "rests": f"{basis} · {formatting.samples(row.get('n'), row.get('runs'))} · {row.get('verdict') or 'no verdict'}",
        "asked": str(row.get("asked") or "as asked"),
        "runtime": str(row.get("runtime") or "not said"),
        "platform": colour_key(row.get("platform")),
        "basis": basis if basis in BASIS_MARKS else "roofline",
        "fill": basis_mark(basis).fill_opacity,
        "line": basis_mark(basis).stroke_width,
    }


def _reason(row: Row, metric: Metric) -> str:
    if metric is MEMORY and row.get("memory_floor_bytes") is not None:
        return f"at least {formatting.memory(row['memory_floor_bytes'])}"
    return str(row.get("reason") or "not measured")


def ends_of(lines: Sequence[dict[str, Any]]) -> list[float]:
    """Return every number that an axis has to reach: values and the ends of their intervals."""
    return [end for line in lines for end in (line["value"], line["low"], line["high"]) if end is not None]


def rules(
    base: alt.Chart,
    scale: alt.Scale,
    axis: alt.Axis,
    rows: Sequence[Row],
    theme: Theme | None,
    *,
    picture: bool,
    **look: Any,
) -> alt.Chart:
    """Return the intervals as lines from low to high, dashed by basis."""
    return base.mark_rule(**look).encode(
        x=alt.X("low:Q", scale=scale, axis=axis),
        x2=alt.X2("high:Q"),
        color=coloured(rows, theme, picture=picture),
        strokeDash=dashed(),
        strokeWidth=alt.StrokeWidth("line:Q", scale=None),
        tooltip=TOOLTIP,
    )


def points(
    base: alt.Chart, x: alt.X, rows: Sequence[Row], theme: Theme | None, *, picture: bool, offset: float = 0
) -> alt.Chart:
    """Return one mark a row, shaped and filled by its basis."""
    worn = colour(rows, theme, picture=picture)
    return (
        base.transform_filter(alt.FieldOneOfPredicate(field="basis", oneOf=SHAPED))
        .mark_point(size=SIZE, strokeWidth=2, opacity=1, yOffset=offset)
        .encode(
            x=x,
            tooltip=TOOLTIP,
            stroke=alt.Stroke(**worn),
            fill=alt.Fill(**worn),
            shape=alt.Shape(**SHAPES),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        )
    )


def ticks(
    base: alt.Chart, x: alt.X, rows: Sequence[Row], theme: Theme | None, *, picture: bool, offset: float = 0
) -> alt.Chart:
    """Return the marks of rows that rest on the roofline alone."""
    # Vega's own stroke symbol disappears in the rule it lies on; a tick across it does not.
    return (
        base.transform_filter(alt.datum.basis == "roofline")
        .mark_tick(orient="vertical", size=14, thickness=2, opacity=1, yOffset=offset)
        .encode(x=x, color=coloured(rows, theme, picture=picture), tooltip=TOOLTIP)
    )


def coloured(rows: Sequence[Row], theme: Theme | None, *, picture: bool) -> alt.Color:
    """Return the platform's colour, with a legend of the platforms that rows have."""
    return alt.Color(**colour(rows, theme, picture=picture))


def colour(rows: Sequence[Row], theme: Theme | None, *, picture: bool) -> dict[str, Any]:
    """Return the same as it is sent."""
    worn = _worn(theme, picture=picture)
    return {"field": "platform", "type": "nominal", "scale": worn, "legend": _legend(_present(rows))}


def _present(rows: Sequence[Row]) -> set[str]:
    valued = [row for row in rows if any(row.get(metric.key) is not None for metric in METRICS.values())]
    return {colour_key(row.get("platform")) for row in valued}


def _legend(present: set[str]) -> dict[str, Any]:
    return {
        "orient": "bottom",
        "direction": "horizontal",
        "title": None,
        "labelFontSize": 12,
        "symbolType": "circle",
        "symbolOpacity": 1,
        "columns": 5,
        "values": [name for name in PLATFORM_DOMAIN if name in present],
    }


def platform_scale(theme: Theme | None, *, picture: bool) -> alt.Scale:
    """Return the colours of platforms: their order alone in a page, which the browser colours by its theme."""
    return alt.Scale(**_worn(theme, picture=picture))


def _worn(theme: Theme | None, *, picture: bool) -> dict[str, Any]:
    colours = {"range": list(PLATFORM_COLOURS[theme or "light"])} if picture else {}
    return {"domain": list(PLATFORM_DOMAIN), **colours}


# Scales of shape and dash are merged by Vega-Lite: both name every basis, in one order.
SHAPES: dict[str, Any] = {
    "field": "basis",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": list(BASIS_MARKS), "range": [mark.shape or "circle" for mark in BASIS_MARKS.values()]},
}
DASHES: dict[str, Any] = {
    "field": "basis",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": list(BASIS_MARKS), "range": [list(mark.dash) for mark in BASIS_MARKS.values()]},
}


def dashed() -> alt.StrokeDash:
    """Return the dash of the basis."""
    return alt.StrokeDash(**DASHES)
