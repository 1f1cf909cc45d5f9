"""How far predictions were from what was measured, and how often their intervals held it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from domain.comparison.parity import FIELDS_A_DECADE
from presentation import formatting
from presentation.charts.axes import axis, may_be_log, reach_of
from presentation.charts.frame import Spec, finished, refuse_too_many
from presentation.palette import DIVERGING, INKS, SEQUENTIAL, Ink, Theme

__all__ = ["calibration", "errors", "parity"]

ROW_HEIGHT = 30
LINE_HEIGHT = 44
"""Pixels of a line of three intervals."""
KEY_OF_INTERVALS = ": ticks promised, dots held"
KEY_OF_ERRORS = ": dots mean, ticks median; smaller is better"
"""What a picture that stands alone says in its axis, and a page, which may be narrow, under it."""
SIDE = 400
"""Pixels of either side of a parity chart."""


def parity(rows: Sequence[Mapping[str, Any]], what: str, *, theme: Theme | None = None, picture: bool = False) -> Spec:
    """Draw what was predicted over what was measured, both logarithmic, from the fields of `domain.comparison.parity`, in the unit that `what` names.

    The line is where both are the same, the dotted ones where they are 20 % apart.
    """
    drawn = [_field(field) for field in rows]
    refuse_too_many(len(drawn))
    ink = INKS[theme]
    ends = [end for field in drawn for end in (field["x"], field["x2"], field["y"], field["y2"])] or [0.1, 10.0]
    reach = [min(ends), max(ends)]
    sides = {
        side: {
            "field": side,
            "type": "quantitative",
            "axis": axis(f"{word}, {what} (log)", ink, reach),
            "scale": {"type": "log", "domain": reach, "nice": False},
        }
        for side, word in (("x", "measured"), ("y", "predicted"))
    }
    most = max((field["rows"] for field in drawn), default=1)
    tooltip = [
        {"field": "detail", "type": "nominal", "title": "Field"},
        {"field": "rows", "type": "quantitative", "title": "Rows"},
    ]
    fields = {
        "data": {"values": drawn},
        "mark": {"type": "rect", "stroke": None},
        "encoding": {
            **sides,
            "x2": {"field": "x2"},
            "y2": {"field": "y2"},
            "color": _counted(most, theme),
            "tooltip": tooltip,
        },
    }
    lines = (_diagonal(reach, factor, ink, dash) for factor, dash in ((1.0, [1, 0]), (1.2, [2, 3]), (1 / 1.2, [2, 3])))
    layers = [fields, *(layer for pair in lines for layer in pair)]
    chart = finished(layer=layers, height=SIDE, theme=theme, picture=picture)
    return chart.properties(width=SIDE) if picture else chart


def _counted(most: int, theme: Theme | None) -> dict[str, Any]:
    """Return the colour of a count, with its legend."""
    legend = {
        "orient": "bottom",
        "direction": "horizontal",
        "title": "rows in a field (log)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "tickCount": 4,
        "format": "~s",
        "gradientLength": 160,
    }
    scale = {"type": "log", "domain": [1, max(most, 2)], "range": list(SEQUENTIAL[theme or "light"][2:])}
    return {"field": "rows", "type": "quantitative", "scale": scale, "legend": legend}


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    x, y = float(field["x"]), float(field["y"])
    x2, y2 = (float(f"{end * 10 ** (1 / FIELDS_A_DECADE):.6g}") for end in (x, y))
    text = f"measured {x:.3g}–{x2:.3g}, predicted {y:.3g}–{y2:.3g}"
    return {"x": x, "x2": x2, "y": y, "y2": y2, "rows": field["rows"], "detail": text}


def _diagonal(reach: Sequence[float], factor: float, ink: Ink, dash: list[int]) -> list[dict[str, Any]]:
    """The line on which the prediction is a factor of the measurement, cut at the ends of the axes."""
    low, high = max(reach[0], reach[0] / factor), min(reach[1], reach[1] / factor)
    ends = [{"x": low, "y": low * factor}, {"x": high, "y": high * factor}]
    places = {side: {"field": side, "type": "quantitative"} for side in ("x", "y")}
    # The ground shows on both sides of a line, so that it is seen on fields as bright or as dark as itself.
    return [
        {"data": {"values": ends}, "mark": {"type": "line", "strokeDash": dash, **look}, "encoding": places}
        for look in ({"color": ink.ground, "strokeWidth": 3.4}, {"color": ink.text, "strokeWidth": 1.3})
    ]


def calibration(lines: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, picture: bool = False) -> Spec:
    """Draw one line a split: a tick where each interval promises to be, a dot where it was, and the way between them.

    A line is `{"name", "calibration": [{"nominal", "covered"}]}` with shares; `covered` None is an interval that was not
    given, and a line of those alone says "not calibrated".
    """
    drawn = [
        {
            "name": line["name"],
            "order": index,
            "nominal": 100 * item["nominal"],
            "covered": 100 * item["covered"],
            "detail": f"{formatting.share(item['covered'])} held, {formatting.share(item['nominal'])} promised",
        }
        for index, line in enumerate(lines)
        for item in line["calibration"]
        if item["covered"] is not None
    ]
    refuse_too_many(len(drawn) * 3 + len(lines))
    silent = [
        {"order": index, "detail": "not calibrated: no interval is given"}
        for index, line in enumerate(lines)
        if not any(item["covered"] is not None for item in line["calibration"])
    ]
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    low = min([80.0, *(row["covered"] for row in drawn), *(row["nominal"] for row in drawn)])
    across = {
        "type": "quantitative",
        "axis": axis(f"held by the interval, %{KEY_OF_INTERVALS if picture else ''}", ink),
        "scale": {"domain": [max(0.0, math.floor(low / 10) * 10 - 5), 100], "nice": False},
    }
    levels = sorted({row["nominal"] for row in drawn})
    lane, document = _lanes(lines, ink, picture), {"field": "detail", "type": "nominal"}
    within = {"field": "nominal", "type": "ordinal", "scale": {"domain": levels, "paddingOuter": 0.6}}
    held, promised = {"field": "covered", **across}, {"field": "nominal", **across}
    marks: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"type": "rule", "color": ink.muted, "strokeWidth": 1.5}, {"x": promised, "x2": {"field": "covered"}}),
        (
            {"type": "tick", "orient": "vertical", "size": 10, "thickness": 2, "opacity": 1, "color": ink.text},
            {"x": promised},
        ),
        ({"type": "point", "size": 64, "filled": True, "opacity": 1, "color": ramp[8]}, {"x": held}),
    )
    spans = {
        "data": {"values": drawn},
        "encoding": {"y": lane, "yOffset": within, "tooltip": document},
        "layer": [{"mark": mark, "encoding": places} for mark, places in marks],
    }
    words = {
        "data": {"values": silent},
        "mark": {"type": "text", "align": "right", "fontSize": 12, "color": ink.muted},
        "encoding": {"y": lane, "x": {"value": "width"}, "text": document},
    }
    return finished(layer=[spans, words], height=LINE_HEIGHT * max(len(lines), 1), theme=theme, picture=picture)


def errors(
    rows: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, log: bool | None = None, picture: bool = False
) -> Spec:
    """Draw one line a group: a dot at the mean error, a tick at the median, the number of rows at the end.

    No line joins them: lines are intervals.

    A row is `{"name", "mape", "median_ape", "rows"}` with shares, the median where it is known, in the order to be shown. Groups of fewer than 10 rows are
    paler. `log=None` decides by the range.
    """
    drawn = [_error(row, index) for index, row in enumerate(rows)]
    refuse_too_many(len(drawn) * 4)
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    ends = [row[key] for row in drawn for key in ("mape", "median") if row[key] is not None]
    logarithmic = may_be_log(ends, log)
    title = f"error, % ({'log' if logarithmic else 'linear'}){KEY_OF_ERRORS if picture else ''}"
    across = {
        "type": "quantitative",
        "axis": axis(title, ink, ends if logarithmic else None),
        "scale": reach_of(ends, logarithmic),
    }
    mean, median = ({"field": key, **across} for key in ("mape", "median"))
    paler, existing = {"field": "ink", "type": "quantitative", "scale": None}, [{"filter": "isValid(datum.median)"}]
    layers: list[dict[str, Any]] = [
        {
            "transform": existing,
            "mark": {"type": "tick", "orient": "vertical", "size": 16, "thickness": 2, "color": ink.text},
            "encoding": {"x": median, "opacity": paler},
        },
        {
            "mark": {"type": "point", "size": 80, "filled": True, "color": ramp[8]},
            "encoding": {"x": mean, "opacity": paler},
        },
        {
            "mark": {"type": "text", "align": "left", "fontSize": 12, "color": ink.muted, "dx": 6},
            "encoding": {"x": {"value": "width"}, "text": {"field": "counted", "type": "nominal"}},
        },
    ]
    padding = {"left": 20, "top": 20, "bottom": 20, "right": 70} if picture else {"right": 64}
    return finished(
        data={"values": drawn},
        layer=layers,
        height=ROW_HEIGHT * max(len(drawn), 1),
        theme=theme,
        picture=picture,
        padding=padding,
        encoding={"y": _lanes(rows, ink, picture), "tooltip": {"field": "detail", "type": "nominal"}},
    )


def _error(row: Mapping[str, Any], index: int) -> dict[str, Any]:
    median, rows = row.get("median_ape"), formatting.count(row["rows"])
    half = "" if median is None else f", median {formatting.share(median)}"
    return {
        "name": row["name"],
        "order": index,
        "mape": 100 * row["mape"],
        "median": None if median is None else 100 * median,
        "counted": f"n {rows}",
        "ink": 1.0 if row["rows"] >= 10 else 0.4,
        "detail": f"mean {formatting.share(row['mape'])}{half} of {rows} rows",
    }


def _lanes(rows: Sequence[Mapping[str, Any]], ink: Ink, picture: bool) -> dict[str, Any]:
    """Return the lines of a chart with their names at the left."""
    names = [str(row["name"]) for row in rows]
    places = list(range(len(names)))
    look = {
        "title": None,
        "labelExpr": f"{names}[datum.value]" if names else "''",
        "labelColor": ink.text,
        "labelFontSize": 12,
        "labelPadding": 8,
        "grid": False,
        "labelLimit": 360 if picture else 220,
        "domain": False,
        "ticks": False,
        "values": places,
    }
    return {"field": "order", "type": "ordinal", "axis": look, "scale": {"domain": places}}
