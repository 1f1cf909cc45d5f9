"""Charts as pure functions of answers: rows in, a Vega-Lite specification out.

A row is one ranked option or one compared configuration, with the keys of the API's answer. In the page a
chart names only the domain of its colours, so that the browser swaps light for dark by itself; a saved picture
names the range too. No chart has more than `MAX_MARKS` marks, and a value that is missing has no mark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from assay import numbers
from dashboard.palette import (
    BASIS_MARKS,
    INKS,
    PLATFORM_COLOURS,
    PLATFORM_DOMAIN,
    Ink,
    Theme,
    basis_mark,
    colour_key,
)

__all__ = [
    "LATENCY",
    "MAX_MARKS",
    "MEMORY",
    "METRICS",
    "THROUGHPUT",
    "Limit",
    "Metric",
    "Row",
    "intervals",
    "name_of",
    "needs_log",
    "tradeoff",
    "undominated",
]

MAX_MARKS = 2000
LOG_FROM_RANGE = 20.0
ROW_HEIGHT = 46
NARROW = 520
"""Pixels below which a row has no room for both its name and its interval in words."""
AROUND = 74
"""Pixels that axis, title and legend need."""
SIZE = 110
"""Area of a mark in square pixels; 64 is the smallest that can still be told apart."""

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """One thing that a chart shows: its key in a row, the keys of its interval, its words and its direction."""

    key: str
    low: str
    high: str
    title: str
    scale: Callable[[Sequence[float | None]], numbers.Scale]
    better: str


LATENCY = Metric(
    "latency_ms", "latency_ms_low", "latency_ms_high", "Latency", numbers.latency_scale, "smaller is better"
)
THROUGHPUT = Metric(
    "throughput_per_s", "throughput_per_s_low", "throughput_per_s_high",
    "Throughput", numbers.throughput_scale, "larger is better",
)  # fmt: skip
MEMORY = Metric(
    "peak_memory_bytes", "peak_memory_bytes_low", "peak_memory_bytes_high",
    "Peak memory", numbers.memory_scale, "smaller is better",
)  # fmt: skip
METRICS = {"latency": LATENCY, "throughput": THROUGHPUT, "memory": MEMORY}


class Limit(NamedTuple):
    """A limit that was asked for, drawn as a rule with the refused side shaded."""

    latency_ms: float | None = None
    min_throughput_per_s: float | None = None


def name_of(row: Row) -> str:
    """Name one option in the order in which all pages do: hardware, platform, precision, batch.

    What else tells it from a row of the same name follows, where a row carries it as `distinct`.
    """
    parts = [str(row.get("hardware") or "unknown hardware"), str(row.get("platform") or "unknown platform")]
    parts.append(str(row["precision"]) if row.get("precision") else "precision unknown")
    batch = row.get("batch_size")
    parts.append(f"batch {batch}" if batch is not None else "batch unknown")
    if row.get("distinct"):
        parts.append(str(row["distinct"]))
    return " · ".join(parts)


def needs_log(values: Sequence[float]) -> bool:
    """Say whether values range so far (over 20 times) that a linear axis would hide the small ones."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) / min(positive) > LOG_FROM_RANGE


def intervals(
    rows: Sequence[Row],
    metric: Metric,
    *,
    theme: Theme | None = None,
    log: bool | None = None,
    percentile: str = "p50",
    ranked: bool = False,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw one line a row: name, value in words, a mark by basis and the interval it may lie in.

    A row without a value keeps its line and says why; it has no mark. `log=None` decides by the range.
    Raise ValueError when the rows would make more than `MAX_MARKS` marks.
    """
    scale = metric.scale([row.get(metric.key) for row in rows])
    drawn = [_line(row, index, metric, scale, ranked=ranked) for index, row in enumerate(rows)]
    _refuse_too_many(len(drawn) * 5)
    known = [line for line in drawn if line["value"] is not None]
    ends = [end for line in known for end in (line["value"], line["low"], line["high"]) if end is not None]
    logarithmic = _may_be_log(ends, log)
    ink = INKS[theme]
    x_scale = _x_scale(ends, logarithmic)
    words = f"{percentile} {metric.title.lower()}" if metric is LATENCY else metric.title
    title = f"{words}, {scale.unit} ({'log' if logarithmic else 'linear'}), {metric.better}"
    axis = _axis(title, ink, ends if logarithmic else None)
    x = alt.X("value:Q", scale=x_scale, axis=axis)
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    base = alt.Chart(alt.Data(values=drawn)).encode(y=y)
    marked = base.transform_filter("isValid(datum.value)")
    layers = [
        marked.mark_rule(yOffset=9, strokeCap="butt").encode(
            x=alt.X("low:Q", scale=x_scale, axis=axis), x2="high:Q", color=_colour(rows, theme, picture=picture),
            strokeDash=_dash(), strokeWidth=alt.StrokeWidth("line:Q", scale=None), tooltip=_TOOLTIP,
        ),
        _points(marked, x, rows, theme, picture=picture, offset=9),
        _ticks(marked, x, rows, theme, picture=picture, offset=9),
        base.mark_text(
            align="left", baseline="middle", dy=-10, fontSize=_FONT, color=ink.text,
            limit=alt.ExprRef(f"width < {NARROW} ? width - 64 : width - 190"),
        ).encode(x=alt.value(0), text="label:N", tooltip=_TOOLTIP),
        _told(base, ink, "text", f"width < {NARROW} ? 0 : 1"),
        _told(base, ink, "brief", f"width < {NARROW} ? 1 : 0"),
    ]  # fmt: skip
    height = ROW_HEIGHT * max(len(drawn), 1)
    return _finish(alt.layer(*layers), height=height, theme=theme, picture=picture)


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
    _refuse_too_many(len(known) * 3)
    x_unit = numbers.latency_scale([row["latency_ms"] for row in known])
    y_unit = numbers.throughput_scale([row["throughput_per_s"] for row in known])
    drawn = [
        _line(row, index, LATENCY, x_unit, ranked=True)
        | {"up": y_unit.of(row["throughput_per_s"]), "short": _short(row) if index < 3 else ""}
        for index, row in enumerate(known)
    ]
    ink = INKS[theme]
    ends = [end for line in drawn for end in (line["value"], line["low"], line["high"]) if end is not None]
    for line in drawn:
        # A name turns inwards where the picture ends.
        line["side"] = "right" if line["value"] > math.sqrt(min(ends) * max(ends)) else "left"
    ups = [line["up"] for line in drawn]
    x_axis = _axis(f"{percentile} latency, {x_unit.unit} (log), smaller is better", ink, ends)
    y_axis = _axis(f"Throughput, {y_unit.unit} (log), larger is better", ink, ups)
    x = alt.X("value:Q", scale=_x_scale(ends, True), axis=x_axis)
    y = alt.Y("up:Q", scale=alt.Scale(type="log", nice=False, padding=24), axis=y_axis)
    best = {id(row) for row in undominated(known)}
    front = [line for row, line in zip(known, drawn, strict=True) if id(row) in best]
    base = alt.Chart(alt.Data(values=drawn)).encode(y=y)
    layers: list[alt.Chart] = [
        *_limit_layers(limit, x_unit, y_unit, ink, x, y),
        alt.Chart(alt.Data(values=front))
        .mark_line(interpolate="step-after", color=ink.muted, strokeWidth=1, opacity=0.7)
        .encode(x=x, y=y, order=alt.Order("value:Q")),
        base.mark_rule().encode(
            x=alt.X("low:Q", scale=_x_scale(ends, True), axis=x_axis), x2="high:Q",
            color=_colour(known, theme, picture=picture), strokeDash=_dash(),
            strokeWidth=alt.StrokeWidth("line:Q", scale=None), tooltip=_TOOLTIP,
        ),
        _points(base, x, known, theme, picture=picture),
        _ticks(base, x, known, theme, picture=picture),
        _named(base, x, ink, "left", 9),
        _named(base, x, ink, "right", -9),
    ]  # fmt: skip
    return _finish(alt.layer(*layers), height=320, theme=theme, picture=picture)


def undominated(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other row beats in latency and in throughput at once, by rising latency."""
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["latency_ms"], -row["throughput_per_s"])):
        if not found or row["throughput_per_s"] > found[-1]["throughput_per_s"]:
            found.append(row)
    return found


_FONT = alt.ExprRef(f"width < {NARROW} ? 12 : 13")


def _told(base: alt.Chart, ink: Ink, field: str, opacity: str) -> alt.Chart:
    mark = base.mark_text(
        align="right", baseline="middle", dy=-10, fontSize=_FONT, fontWeight=600, color=ink.text,
        opacity=alt.ExprRef(opacity),
    )  # fmt: skip
    return mark.encode(x=alt.value("width"), text=f"{field}:N", tooltip=_TOOLTIP)


def _named(base: alt.Chart, x: alt.X, ink: Ink, side: str, away: int) -> alt.Chart:
    near = base.transform_filter(alt.datum.side == side)
    return near.mark_text(align=side, dx=away, dy=-10, fontSize=12, color=ink.text).encode(x=x, text="short:N")


_TOOLTIP = [
    alt.Tooltip("name:N", title="Configuration"),
    alt.Tooltip("told:N", title="Value"),
    alt.Tooltip("rests:N", title="Rests on"),
    alt.Tooltip("asked:N", title="Asked → actual"),
    alt.Tooltip("runtime:N", title="Runtime"),
]


def _line(row: Row, index: int, metric: Metric, scale: numbers.Scale, *, ranked: bool) -> dict[str, Any]:
    value, low, high = (row.get(key) for key in (metric.key, metric.low, metric.high))
    told = scale.show(value, low, high)
    if row.get("latency_is_mean") and metric is LATENCY and value is not None:
        told += " (mean)"
    rank = f"{row.get('rank_band') or row.get('rank')}\u2002" if ranked and row.get("rank") is not None else ""
    simulated = " · SIMULATED" if row.get("origin") == "simulated" else ""
    basis = str(row.get("basis") or "unknown")
    return {
        "id": str(row.get("configuration") or index),
        "order": index,
        "label": f"{rank}{name_of(row)}{simulated}",
        "name": name_of(row) + simulated,
        "value": scale.of(value),
        "low": scale.of(low),
        "high": scale.of(high),
        "text": told if value is not None else f"{numbers.MISSING} {_reason(row, metric)}",
        "brief": told.partition(" (")[0],
        "told": told if value is not None else "not measured",
        "rests": f"{basis} · {numbers.samples(row.get('n'), row.get('runs'))} · {row.get('verdict') or 'no verdict'}",
        "asked": str(row.get("asked") or "as asked"),
        "runtime": str(row.get("runtime") or "not said"),
        "platform": colour_key(row.get("platform")),
        "basis": basis if basis in BASIS_MARKS else "roofline",
        "fill": basis_mark(basis).fill_opacity,
        "line": basis_mark(basis).stroke_width,
    }


def _reason(row: Row, metric: Metric) -> str:
    if metric is MEMORY and row.get("memory_floor_bytes") is not None:
        return f"at least {numbers.memory(row['memory_floor_bytes'])}"
    return str(row.get("reason") or "not measured")


def _points(
    base: alt.Chart, x: alt.X, rows: Sequence[Row], theme: Theme | None, *, picture: bool, offset: float = 0
) -> alt.Chart:
    shaped = [basis for basis, mark in BASIS_MARKS.items() if mark.shape]
    # Scales of shape and dash are merged by Vega-Lite: both name every basis, in one order.
    shapes = [mark.shape or "circle" for mark in BASIS_MARKS.values()]
    legend = _legend(_present(rows))
    worn = _platforms(theme, picture=picture)
    return (
        base.transform_filter(alt.FieldOneOfPredicate(field="basis", oneOf=shaped))
        .mark_point(size=SIZE, strokeWidth=2, opacity=1, yOffset=offset)
        .encode(
            x=x, tooltip=_TOOLTIP, stroke=alt.Stroke("platform:N", scale=worn, legend=legend),
            fill=alt.Fill("platform:N", scale=worn, legend=legend),
            shape=alt.Shape("basis:N", scale=alt.Scale(domain=list(BASIS_MARKS), range=shapes), legend=None),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None),
        )
    )  # fmt: skip


def _ticks(
    base: alt.Chart, x: alt.X, rows: Sequence[Row], theme: Theme | None, *, picture: bool, offset: float = 0
) -> alt.Chart:
    # Vega's own stroke symbol disappears in the rule it lies on; a tick across it does not.
    return (
        base.transform_filter(alt.datum.basis == "roofline")
        .mark_tick(orient="vertical", size=14, thickness=2, opacity=1, yOffset=offset)
        .encode(x=x, color=_colour(rows, theme, picture=picture), tooltip=_TOOLTIP)
    )


def _colour(rows: Sequence[Row], theme: Theme | None, *, picture: bool) -> alt.Color:
    legend = _legend(_present(rows))
    return alt.Color("platform:N", scale=_platforms(theme, picture=picture), legend=legend)


def _present(rows: Sequence[Row]) -> set[str]:
    valued = [row for row in rows if any(row.get(metric.key) is not None for metric in METRICS.values())]
    return {colour_key(row.get("platform")) for row in valued}


def _legend(present: set[str]) -> alt.Legend:
    return alt.Legend(
        orient="bottom", direction="horizontal", title=None, labelFontSize=12, symbolType="circle",
        symbolOpacity=1, columns=5, values=[name for name in PLATFORM_DOMAIN if name in present],
    )  # fmt: skip


def _platforms(theme: Theme | None, *, picture: bool) -> alt.Scale:
    if not picture:
        return alt.Scale(domain=list(PLATFORM_DOMAIN))
    return alt.Scale(domain=list(PLATFORM_DOMAIN), range=list(PLATFORM_COLOURS[theme or "light"]))


def _dash() -> alt.StrokeDash:
    dashes = [list(mark.dash) for mark in BASIS_MARKS.values()]
    return alt.StrokeDash("basis:N", scale=alt.Scale(domain=list(BASIS_MARKS), range=dashes), legend=None)


def _x_scale(ends: Sequence[float], logarithmic: bool) -> alt.Scale:
    if not ends:
        return alt.Scale(domain=[0, 1])
    if logarithmic:
        return alt.Scale(type="log", domain=[min(ends) / 1.2, max(ends) * 1.2], nice=False)
    return alt.Scale(domain=[min(0.0, *ends), max(ends) * 1.05], nice=False)


def _may_be_log(ends: Sequence[float], asked: bool | None) -> bool:
    if not ends or min(ends) <= 0:
        return False
    return needs_log(ends) if asked is None else asked


def _axis(title: str, ink: Ink, log_ends: Sequence[float] | None) -> alt.Axis:
    places = {"values": _log_ticks(min(log_ends), max(log_ends))} if log_ends else {"tickCount": 5}
    return alt.Axis(
        title=title, format=",~r", grid=True, gridColor=ink.grid, domain=False, ticks=False, labelPadding=6,
        labelColor=ink.muted, titleColor=ink.muted, titleAnchor="start", labelFontSize=12, titleFontSize=12,
        titleFontWeight="normal", labelFlush=True, **places,
    )  # fmt: skip


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1-2-5 steps over the range, or whole decades where that would be crowded."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [tick for tick in ticks if low / 1.2 <= tick <= high * 1.2]


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


def _finish(chart: alt.LayerChart, *, height: int, theme: Theme | None, picture: bool) -> alt.LayerChart:
    if not picture:
        # Streamlit fits axis and legend into the height that is named.
        return chart.properties(height=height + AROUND, width="container")
    ink = INKS[theme or "light"]
    return (
        chart.properties(height=height, width=860, background=ink.ground, padding=20)
        .configure_view(stroke=None)
        .configure_legend(labelColor=ink.text)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=18)
    )


def _short(row: Row) -> str:
    return f"{row.get('hardware')} · {row.get('precision')} · b{row.get('batch_size')}"


def _positive(value: float | None) -> bool:
    return value is not None and value > 0


def _refuse_too_many(marks: int) -> None:
    if marks > MAX_MARKS:
        raise ValueError(f"{marks} marks are more than the {MAX_MARKS} that a chart may have; show fewer rows")
