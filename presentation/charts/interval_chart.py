"""One line a row: its name, its value and the interval it may lie in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from presentation.charts.axes import axis, may_be_log, reach_of
from presentation.charts.frame import LEGEND, Spec, finished, refuse_too_many
from presentation.charts.marks import DASHES, DETAIL_TOOLTIP, SHAPED, SHAPES, SIZE, colour, ends_of, line_of
from presentation.charts.metrics import LATENCY, Metric, Row
from presentation.palette import INKS, Ink, Theme

__all__ = ["intervals"]

ROW_HEIGHT = 46
NARROW = 520
"""Pixels below which a row has no room for both its name and its interval in words."""
_FONT = {"expr": f"width < {NARROW} ? 12 : 13"}
_LINE: dict[str, Any] = {
    "field": "order",
    "type": "ordinal",
    "axis": None,
    "scale": {"paddingInner": 0, "paddingOuter": 0},
}
_KNOWN = {"filter": "isValid(datum.value)"}


def intervals(
    rows: Sequence[Row],
    metric: Metric,
    *,
    theme: Theme | None = None,
    log: bool | None = None,
    percentile: str = "p50",
    ranked: bool = False,
    beside: float | None = None,
    picture: bool = False,
) -> Spec:
    """Draw one line a row: name, value in words, a mark by basis and the interval it may lie in.

    A row without a value keeps its line and says why; it has no mark. `log=None` decides by the range.
    `beside` is a value that is marked across all rows, such as 1 for what a ratio is of. Raise ValueError when the rows would make more than `MAX_MARKS` marks.
    """
    scale = metric.scale([row.get(metric.key) for row in rows])
    drawn = [line_of(row, index, metric, scale, ranked=ranked) for index, row in enumerate(rows)]
    refuse_too_many(len(drawn) * 5)
    matching_drawn = [line for line in drawn if line["value"] is not None]
    ends = ends_of(matching_drawn) + ([beside] if beside is not None else [])
    logarithmic = may_be_log(ends, log)
    ink = INKS[theme]
    words = f"{percentile} {metric.title.lower()}" if metric is LATENCY else metric.title
    title = f"{words}, {scale.unit} ({'log' if logarithmic else 'linear'}), {metric.better}"
    across = {
        "type": "quantitative",
        "scale": reach_of(ends, logarithmic),
        "axis": axis(title, ink, ends if logarithmic else None),
    }
    data = {"values": drawn}
    layers = [
        {"data": data, **layer}
        for layer in (*_marks(drawn, across, colour(rows, theme, picture=picture)), *_words(ink))
    ]
    if beside is not None:
        mark = {"type": "rule", "color": ink.muted, "strokeDash": [2, 3]}
        layers.insert(
            0, {"data": {"values": [{"value": beside}]}, "mark": mark, "encoding": {"x": {**across, "field": "value"}}}
        )
    height = ROW_HEIGHT * max(len(drawn), 1) + (0 if picture else LEGEND)
    return finished(height=height, theme=theme, picture=picture, layer=layers)


def _marks(drawn: Sequence[Row], across: Row, worn: Row) -> list[dict[str, Any]]:
    """Return the layers of intervals and of values; those of a kind of mark only where a row has it."""
    here: dict[str, Any] = {"y": _LINE, "tooltip": DETAIL_TOOLTIP}
    at: dict[str, Any] = {**here, "x": {**across, "field": "value"}}
    bases = {line["basis"] for line in drawn if line["value"] is not None}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "yOffset": 9, "strokeCap": "butt"},
            "transform": [_KNOWN],
            "encoding": {
                **here,
                "x": {**across, "field": "low"},
                "x2": {"field": "high"},
                "color": worn,
                "strokeDash": DASHES,
                "strokeWidth": {"field": "line", "type": "quantitative", "scale": None},
            },
        }
    ]
    if bases.intersection(SHAPED):
        marks = {"stroke": worn, "fill": worn, "shape": SHAPES}
        fill = {"field": "fill", "type": "quantitative", "scale": None}
        layers.append(
            {
                "mark": {"type": "point", "size": SIZE, "strokeWidth": 2, "opacity": 1, "yOffset": 9},
                "transform": [_KNOWN, {"filter": {"field": "basis", "oneOf": SHAPED}}],
                "encoding": {**at, **marks, "fillOpacity": fill},
            }
        )
    if not bases.issubset(SHAPED):
        # Vega's own stroke symbol disappears in the rule it lies on; a tick across it does not.
        tick = {"type": "tick", "orient": "vertical", "size": 14, "thickness": 2, "opacity": 1, "yOffset": 9}
        unshaped = {"filter": "datum.basis === 'roofline'"}
        layers.append({"mark": tick, "transform": [_KNOWN, unshaped], "encoding": {**at, "color": worn}})
    return layers


def _words(ink: Ink) -> list[dict[str, Any]]:
    """Return the layers of a row's name and of its value in words; both are shorter where there is little room."""
    look = {"type": "text", "baseline": "middle", "dy": -10, "fontSize": _FONT, "color": ink.text}
    room = {"expr": f"width < {NARROW} ? width - 64 : width - 190"}
    name = {"expr": f"width < {NARROW} ? datum.narrow : datum.label"}
    document = {"expr": f"width < {NARROW} ? datum.brief : datum.text"}
    here: dict[str, Any] = {"y": _LINE, "tooltip": DETAIL_TOOLTIP}
    return [
        {
            "mark": {**look, "align": "left", "limit": room, "text": name},
            "encoding": {**here, "x": {"value": 0}},
        },
        {
            "mark": {**look, "align": "right", "fontWeight": 600, "text": document},
            "encoding": {**here, "x": {"value": "width"}},
        },
    ]
