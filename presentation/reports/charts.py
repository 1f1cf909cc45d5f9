"""Charts of reports as Altair specifications: the dashboard's marks, colours and axes, for pictures that stand alone.

`draw` gives a chart in one theme and width. Wide pictures are for pages and files, narrow ones for phones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import altair as alt
import msgspec

from domain.answers.variants import VariantRow
from presentation import charts, formatting
from presentation.charts import chart_files
from presentation.charts.axes import axis_of, needs_log, scale_of
from presentation.charts.frame import finish, refuse_too_many
from presentation.charts.marks import ends_of, line_of, points, rules
from presentation.charts.metrics import Metric
from presentation.palette import DIVERGING, INKS, PLATFORM_COLOURS, PLATFORM_DOMAIN, Ink, Theme, colour_key
from presentation.reports.content import Chart, Row
from presentation.reports.matrix import STATES

__all__ = ["NARROW", "WIDE", "draw", "png", "svg"]

WIDE = 940
NARROW = 320
"""Widths of the area that holds the marks, in pixels; axes and legend come on top."""
_TURN = 520
"""Below this width a line has no room for both its name and its interval in words; as in the dashboard's charts."""
_FONT = alt.ExprRef(f"width < {_TURN} ? 12 : 13")
_ROW = 46
_BESIDE = 140
_PLOT = 320
_CELL = 112
"""Width of a cell that has room for words, in pixels."""
_NAME_HEIGHT = 16
_LOG_FROM = 3.0
"""Items over batch size are logarithmic beyond this range: below it such an axis would have no ticks."""


def draw(chart: Chart, *, theme: Theme = "light", width: int = WIDE) -> alt.LayerChart:
    """Return a chart as a picture in a theme, `width` pixels wide. Raise ValueError beyond the marks that one may have."""
    drawn = _KINDS[chart.kind](chart, theme, width)
    # Names of models stand beside the marks of a matrix, and above those of the others.
    inner = width - _BESIDE if chart.kind == "matrix" else width
    return drawn.properties(width=inner, padding=8)


def svg(chart: Chart, *, theme: Theme = "light", footer: str | None = None, width: int = WIDE) -> str:
    """Render a chart as SVG; with a footer it stands alone, with its title, what it shows and where that is from."""
    return chart_files.svg(_titled(chart, draw(chart, theme=theme, width=width), footer)).decode()


def png(chart: Chart, *, footer: str, theme: Theme = "light") -> bytes:
    """Render a chart that stands alone as PNG, at twice the size on screen."""
    return chart_files.png(_titled(chart, draw(chart, theme=theme), footer))


def _titled(chart: Chart, drawn: alt.LayerChart, footer: str | None) -> alt.LayerChart:
    if footer is None:
        return drawn
    return chart_files.titled(drawn.properties(padding=20), chart.title, answer=chart.sentence, footer=footer)


def _intervals(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:  # noqa: ARG001 - all take it
    return charts.intervals(chart.rows, charts.LATENCY, theme=theme, picture=True, percentile="median")


def _variants(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:  # noqa: ARG001 - all take it
    rows = msgspec.convert(chart.rows, list[VariantRow])
    return charts.variants(rows, theme=theme, picture=True)


def _factors(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:
    """Draw one line a ratio on a logarithmic axis, with a rule at 1: left of it is slower."""
    metric = Metric("factor", "factor_low", "factor_high", chart.options["what"], _times, "")
    scale = formatting.Scale("×", 1.0)
    drawn = [
        line_of(row, index, metric, scale, ranked=False) | _named(row, str(row["label"]))
        for index, row in enumerate(chart.rows)
    ]
    refuse_too_many(len(drawn) * 4)
    # The legend names the platforms of rows that have a latency; a ratio of many models has none.
    rows = [{**row, "latency_ms": row["factor"]} for row in chart.rows]
    ink = INKS[theme]
    ends = [*ends_of(drawn), 1.0]
    x_scale = scale_of(ends, True)
    axis = axis_of(f"{chart.options['what']}, × (log)" if width >= _TURN else "× (log)", ink, ends)
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    base = alt.Chart(alt.Data(values=drawn)).encode(y=y)
    item = alt.Chart(alt.Data(values=[{"value": 1.0}]))
    layers = [
        item.mark_rule(color=ink.muted, strokeWidth=1, opacity=0.6).encode(
            x=alt.X("value:Q", scale=x_scale, axis=axis)
        ),
        rules(base, x_scale, axis, rows, theme, picture=True, yOffset=9, strokeCap="butt"),
        points(base, alt.X("value:Q", scale=x_scale, axis=axis), rows, theme, picture=True, offset=9),
        base.mark_text(
            align="left",
            baseline="middle",
            dy=-10,
            fontSize=_FONT,
            color=ink.text,
            limit=alt.ExprRef(f"width < {_TURN} ? width - 64 : width - 150"),
        ).encode(x=alt.value(0), text="label:N"),
        base.mark_text(align="right", baseline="middle", dy=-10, fontSize=_FONT, fontWeight=600, color=ink.text).encode(
            x=alt.value("width"), text="brief:N"
        ),
    ]
    return finish(alt.layer(*layers), height=_ROW * max(len(drawn), 1), theme=theme, picture=True)


def _times(values: Sequence[float | None]) -> formatting.Scale:  # noqa: ARG001 - a ratio has one unit
    return formatting.Scale("×", 1.0)


def _named(row: Row, label: str) -> dict[str, Any]:
    return {"label": label, "name": label, "brief": formatting.factor(row["factor"])}


def _scaling(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:
    """Draw items a second, or peak memory, over batch size: the batch logarithmic, the figure too where it ranges far."""
    metric = chart.options.get("metric", "throughput_per_s")
    of_memory = metric == "peak_memory_bytes"
    scale = (formatting.memory_scale if of_memory else formatting.throughput_scale)([row[metric] for row in chart.rows])
    figure = "Peak memory" if of_memory else "Items a second"
    drawn = [
        {
            "series": row["series"],
            "label": row["label"],
            "batch": row["batch_size"],
            "value": scale.of(row[metric]),
            "platform": colour_key(row.get("platform")),
        }
        for row in chart.rows
    ]
    refuse_too_many(len(drawn) * 2)
    ink = INKS[theme]
    sizes, values = [row["batch"] for row in drawn], [row["value"] for row in drawn]
    x_axis = axis_of("Batch size (log)", ink, sizes)
    x_axis.values = sorted(set(sizes))
    logarithmic = max(values) / min(values) > _LOG_FROM
    shape = "log" if logarithmic else "linear"
    y_axis = axis_of(f"{figure}, {scale.unit} ({shape})", ink, values if logarithmic else None)
    x = alt.X("batch:Q", scale=alt.Scale(type="log", domain=[min(sizes), max(sizes)], nice=False), axis=x_axis)
    y = alt.Y("value:Q", scale=scale_of(values, logarithmic), axis=y_axis)
    layers = _lines(drawn, x, y, theme, "batch", _halves(sizes), ink, width)
    return finish(alt.layer(*layers), height=_PLOT, theme=theme, picture=True)


def _trend(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:
    """Draw a metric over time, one line a configuration; imported points are hollow."""
    scale = _scale_of(str(chart.options["metric"]), [row["value"] for row in chart.rows])
    drawn = [
        {
            "series": row["series"],
            "label": row["label"],
            "when": row["when"],
            "value": scale.of(row["value"]),
            "platform": colour_key(row.get("platform")),
            "fill": 1.0 if row["basis"] == "measured" else 0.0,
        }
        for row in chart.rows
    ]
    refuse_too_many(len(drawn) * 2)
    ink = INKS[theme]
    values = [row["value"] for row in drawn]
    logarithmic = needs_log(values) and min(values) > 0
    title = f"{chart.options['metric']}, {scale.unit} ({'log' if logarithmic else 'linear'}), {chart.options['better']} is better"
    x_axis = axis_of("Time (UTC)", ink, None)
    x_axis.format = "%d %b %Y" if _days(chart.rows) > 2 else "%d %b %H:%M"
    x = alt.X("when:T", scale=alt.Scale(type="utc", nice=False, padding=10), axis=x_axis)
    y = alt.Y("value:Q", scale=scale_of(values, logarithmic), axis=axis_of(title, ink, values if logarithmic else None))
    layers = _lines(drawn, x, y, theme, "when", _halves([row["when"] for row in drawn]), ink, width)
    return finish(alt.layer(*layers), height=_PLOT, theme=theme, picture=True)


def _days(rows: Sequence[Row]) -> float:
    moments = [datetime.fromisoformat(str(row["when"])) for row in rows]
    return (max(moments) - min(moments)).total_seconds() / 86400


def _scale_of(metric: str, values: Sequence[float]) -> formatting.Scale:
    by_unit: Mapping[str, Callable[[Sequence[float]], formatting.Scale]] = {
        "_ms": formatting.latency_scale,
        "_bytes": formatting.memory_scale,
        "_per_s": formatting.throughput_scale,
    }
    result = next((make(values) for end, make in by_unit.items() if metric.endswith(end)), None)
    return result or formatting.Scale(metric.rpartition("_")[2].upper(), 1.0)


_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])


def _lines(
    drawn: list[dict[str, Any]], x: alt.X, y: alt.Y, theme: Theme, along: str, middle: Any, ink: Ink, width: int
) -> list[alt.Chart]:
    """Return lines with points; each is named where it ends."""
    present = [name for name in PLATFORM_DOMAIN if any(row["platform"] == name for row in drawn)]
    legend = alt.Legend(
        orient="bottom", direction="horizontal", title=None, labelFontSize=12, columns=5, values=present
    )
    worn = alt.Scale(domain=list(PLATFORM_DOMAIN), range=list(PLATFORM_COLOURS[theme]))
    series = list(dict.fromkeys(row["series"] for row in drawn))
    dashes = alt.Scale(domain=series, range=[list(_DASHES[place % len(_DASHES)]) for place in range(len(series))])
    order = alt.Order(f"{along}:{'T' if along == 'when' else 'Q'}")
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=x, y=y, color=alt.Color("platform:N", scale=worn, legend=legend), detail="series:N"
    )
    last = {row["series"]: row for row in drawn}
    ends = _spread(list(last.values()), [row["value"] for row in drawn])
    # A name turns inwards where the picture ends.
    turned = {
        "left": [row for row in ends if row[along] < middle],
        "right": [row for row in ends if row[along] >= middle],
    }
    return [
        base.mark_line(strokeWidth=2, interpolate="linear").encode(
            order=order, strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None)
        ),
        base.mark_point(size=64, strokeWidth=2, opacity=1, filled=False).encode(
            fill=alt.Fill("platform:N", scale=worn, legend=legend),
            fillOpacity=alt.FillOpacity("fill:Q", scale=None) if "fill" in drawn[0] else alt.value(1.0),
        ),
        *(_names(names, x, y, side, ink, width) for side, names in turned.items() if names),
    ]


def _names(names: list[dict[str, Any]], x: alt.X, y: alt.Y, side: str, ink: Ink, width: int) -> alt.Chart:
    away = 8 if side == "left" else -8
    named = alt.Chart(alt.Data(values=names)).encode(x=x, y=y, text="label:N")
    return named.mark_text(align=side, dx=away, dy=-11, fontSize=12, color=ink.text, limit=width - 20)


def _halves(values: Sequence[Any]) -> Any:
    """Return what lies in the middle between the ends: of moments as text, of sizes on a logarithmic axis."""
    if isinstance(values[0], str):
        first, last = (datetime.fromisoformat(item) for item in (min(values), max(values)))
        return (first + (last - first) / 2).isoformat()
    return math.sqrt(min(values) * max(values))


def _spread(names: list[dict[str, Any]], values: Sequence[float]) -> list[dict[str, Any]]:
    """Leave out names that would lie on another: the higher line of two keeps its name."""
    gap = max(1.05, (max(values) / min(values)) ** (_NAME_HEIGHT / _PLOT)) if min(values) > 0 else 1.05
    kept: list[dict[str, Any]] = []
    for row in sorted(names, key=lambda row: -row["value"]):
        if not kept or kept[-1]["value"] > row["value"] * gap:
            kept.append(row)
    return kept


def _matrix(chart: Chart, theme: Theme, width: int) -> alt.LayerChart:
    """Draw model × platform: colour and glyph say how far a case got, and words its level where there is room.

    What is claimed and was never tried has a dotted line around nothing; what nobody knows of stays empty.
    """
    refuse_too_many(len(chart.rows) * 2)
    ink = INKS[theme]
    ramp = DIVERGING[theme]
    colours = {
        "right": ramp[8],
        "ran": ramp[6],
        "wrong": ramp[2],
        "fell": ramp[3],
        "built": ramp[3],
        "failed": ramp[1],
        "claimed": ink.ground,
    }
    drawn = [{**row, "detail": _DETAIL[row["state"]]} for row in chart.rows]
    models = list(dict.fromkeys(row["model"] for row in drawn))
    platforms = {str(row["platform"]) for row in drawn}
    columns = [name for name in PLATFORM_DOMAIN if name in platforms] + sorted(platforms - set(PLATFORM_DOMAIN))
    label = alt.Axis(
        title=None,
        labelColor=ink.text,
        labelFontSize=12,
        ticks=False,
        domain=False,
        labelLimit=260 if width >= _TURN else _BESIDE,
        labelPadding=6,
    )
    roomy = len(columns) * _CELL < width - _BESIDE
    for row in drawn:
        glyph = STATES[row["state"]][0]
        row["glyph"] = glyph if not roomy or not row.get("words") else _worded(glyph, str(row["words"]))
    top = alt.Axis(
        title=None,
        orient="top",
        labelAngle=0 if len(columns) * 70 < width - _BESIDE else -40,
        labelColor=ink.text,
        labelFontSize=12,
        ticks=False,
        domain=False,
    )
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=alt.X("platform:N", sort=columns, axis=top), y=alt.Y("model:N", sort=models, axis=label)
    )
    present = [state for state in STATES if any(row["state"] == state for row in drawn)]
    scale = alt.Scale(domain=[_DETAIL[state] for state in present], range=[colours[state] for state in present])
    legend = alt.Legend(
        orient="bottom",
        direction="vertical",
        title=None,
        labelFontSize=12,
        labelLimit=320 if width >= _TURN else 200,
        symbolType="square",
    )
    dark = [_DETAIL[state] for state in ("right", "failed")]
    glyphs = alt.condition(
        alt.FieldOneOfPredicate(field="detail", oneOf=dark), alt.value(ink.ground), alt.value(ink.text)
    )
    claimed = alt.FieldEqualPredicate(field="state", equal="claimed")
    layers = [
        base.mark_rect(stroke=ink.ground, strokeWidth=2).encode(
            color=alt.Color("detail:N", scale=scale, legend=legend)
        ),
        base.transform_filter(claimed).mark_rect(fillOpacity=0, stroke=ink.muted, strokeWidth=1, strokeDash=[2, 3]),
        base.transform_filter(alt.LogicalNotPredicate(**{"not": claimed}))
        .mark_text(fontSize=13, fontWeight=600)
        .encode(text="glyph:N", color=glyphs),
        base.transform_filter(claimed).mark_text(fontSize=11, color=ink.muted).encode(text="glyph:N"),
    ]
    return finish(alt.layer(*layers), height=24 * max(len(models), 1), theme=theme, picture=True)


def _worded(glyph: str, words: str) -> str:
    """Write a glyph with the level, where there is one; what is claimed is words alone."""
    if words.startswith("claimed"):
        return words
    return glyph if words == "none" else f"{glyph} {words}"


_DETAIL = {state: f"{glyph} {meaning}" for state, (glyph, meaning) in STATES.items()}
_KINDS: dict[str, Callable[[Chart, Theme, int], alt.LayerChart]] = {
    "intervals": _intervals,
    "factors": _factors,
    "scaling": _scaling,
    "trend": _trend,
    "matrix": _matrix,
    "variants": _variants,
}
