"""How far predictions were from what was measured, and how often their intervals held it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from assay import numbers
from dashboard.charts.axes import axis_of, may_be_log, scale_of
from dashboard.charts.frame import finish, refuse_too_many
from dashboard.palette import DIVERGING, INKS, SEQUENTIAL, Ink, Theme
from domain.parity import FIELDS_A_DECADE

__all__ = ["calibration", "errors", "parity"]

ROW_HEIGHT = 30
LINE_HEIGHT = 44
"""Pixels of a line of three intervals."""
KEY_OF_INTERVALS = ": ticks promised, dots held"
KEY_OF_ERRORS = ": dots mean, ticks median; smaller is better"
"""What a picture that stands alone says in its axis, and a page, which may be narrow, under it."""
SIDE = 400
"""Pixels of either side of a parity chart."""


def parity(
    found: Sequence[Mapping[str, Any]], what: str, *, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw what was predicted over what was measured, both logarithmic, from the fields of `domain.parity`, in the unit that `what` names.

    The line is where both are the same, the dotted ones where they are 20 % apart.
    """
    drawn = [_field(field) for field in found]
    refuse_too_many(len(drawn))
    ink = INKS[theme]
    ends = [end for field in drawn for end in (field["x"], field["x2"], field["y"], field["y2"])] or [0.1, 10.0]
    reach = [min(ends), max(ends)]
    scale = alt.Scale(type="log", domain=reach, nice=False)
    x_axis, y_axis = (axis_of(f"{word}, {what} (log)", ink, reach) for word in ("measured", "predicted"))
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=alt.X("x:Q", scale=scale, axis=x_axis), x2="x2:Q", y=alt.Y("y:Q", scale=scale, axis=y_axis), y2="y2:Q",
        tooltip=[alt.Tooltip("told:N", title="Field"), alt.Tooltip("rows:Q", title="Rows")],
    )  # fmt: skip
    most = max((field["rows"] for field in drawn), default=1)
    counted = alt.Color(
        "rows:Q", scale=alt.Scale(type="log", domain=[1, max(most, 2)], range=list(SEQUENTIAL[theme or "light"][2:])),
        legend=alt.Legend(orient="bottom", direction="horizontal", title="rows in a field (log)", labelFontSize=12,
                          titleFontSize=12, titleFontWeight="normal", tickCount=4, format="~s", gradientLength=160),
    )  # fmt: skip
    chart = alt.layer(
        base.mark_rect(stroke=None).encode(color=counted),
        *_diagonal(reach, 1.0, ink, [1, 0]), *_diagonal(reach, 1.2, ink, [2, 3]), *_diagonal(reach, 1 / 1.2, ink, [2, 3]),
    )  # fmt: skip
    return finish(chart, height=SIDE, theme=theme, picture=picture).properties(**({"width": SIDE} if picture else {}))


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    x, y = float(field["x"]), float(field["y"])
    x2, y2 = (float(f"{end * 10 ** (1 / FIELDS_A_DECADE):.6g}") for end in (x, y))
    told = f"measured {x:.3g}–{x2:.3g}, predicted {y:.3g}–{y2:.3g}"
    return {"x": x, "x2": x2, "y": y, "y2": y2, "rows": field["rows"], "told": told}


def _diagonal(reach: Sequence[float], factor: float, ink: Ink, dash: list[int]) -> tuple[alt.Chart, alt.Chart]:
    """The line on which the prediction is a factor of the measurement, cut at the ends of the axes."""
    low, high = max(reach[0], reach[0] / factor), min(reach[1], reach[1] / factor)
    ends = [{"x": low, "y": low * factor}, {"x": high, "y": high * factor}]
    base = alt.Chart(alt.Data(values=ends)).encode(x="x:Q", y="y:Q")
    # The ground shows on both sides of a line, so that it is seen on fields as bright or as dark as itself.
    halo = base.mark_line(color=ink.ground, strokeWidth=3.4, strokeDash=dash)
    return halo, base.mark_line(color=ink.text, strokeWidth=1.3, strokeDash=dash)


def calibration(
    lines: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw one line a split: a tick where each interval promises to be, a dot where it was, and the way between them.

    A line is `{"name", "calibration": [{"nominal", "covered"}]}` with shares; `covered` None is an interval that was not
    given, and a line of those alone says "not calibrated".
    """
    drawn = [
        {
            "name": line["name"], "order": index, "nominal": 100 * one["nominal"], "covered": 100 * one["covered"],
            "told": f"{numbers.share(one['covered'])} held, {numbers.share(one['nominal'])} promised",
        }
        for index, line in enumerate(lines) for one in line["calibration"] if one["covered"] is not None
    ]  # fmt: skip
    refuse_too_many(len(drawn) * 3 + len(lines))
    silent = [
        {"order": index, "told": "not calibrated: no interval is given"}
        for index, line in enumerate(lines)
        if not any(one["covered"] is not None for one in line["calibration"])
    ]
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    low = min([80.0, *(row["covered"] for row in drawn), *(row["nominal"] for row in drawn)])
    axis = axis_of(f"held by the interval, %{KEY_OF_INTERVALS if picture else ''}", ink, None)
    x_scale = alt.Scale(domain=[max(0.0, math.floor(low / 10) * 10 - 5), 100], nice=False)
    levels = sorted({row["nominal"] for row in drawn})
    within = alt.YOffset("nominal:O", scale=alt.Scale(domain=levels, paddingOuter=0.6))
    base = alt.Chart(alt.Data(values=drawn)).encode(y=_lanes(lines, ink, picture), yOffset=within, tooltip="told:N")
    held = alt.X("covered:Q", scale=x_scale, axis=axis)
    promised = alt.X("nominal:Q", scale=x_scale, axis=axis)
    layers = [
        base.mark_rule(color=ink.muted, strokeWidth=1.5).encode(x=promised, x2="covered:Q"),
        base.mark_tick(orient="vertical", size=10, thickness=2, opacity=1, color=ink.text).encode(x=promised),
        base.mark_point(size=64, filled=True, opacity=1, color=ramp[8]).encode(x=held),
        alt.Chart(alt.Data(values=silent)).mark_text(align="right", fontSize=12, color=ink.muted).encode(
            y=_lanes(lines, ink, picture), x=alt.value("width"), text="told:N"
        ),
    ]  # fmt: skip
    return finish(alt.layer(*layers), height=LINE_HEIGHT * max(len(lines), 1), theme=theme, picture=picture)


def errors(
    rows: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, log: bool | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw one line a group: a dot at the mean error, a tick at the median, the number of rows at the end.

    A row is `{"name", "mape", "median_ape", "rows"}` with shares, the median where it is known, in the order to be shown. Groups of fewer than 10 rows are
    paler. `log=None` decides by the range.
    """
    drawn = [_error(row, index) for index, row in enumerate(rows)]
    refuse_too_many(len(drawn) * 4)
    ink, ramp = INKS[theme], DIVERGING[theme or "light"]
    ends = [row[key] for row in drawn for key in ("mape", "median") if row[key] is not None]
    logarithmic = may_be_log(ends, log)
    title = f"error, % ({'log' if logarithmic else 'linear'}){KEY_OF_ERRORS if picture else ''}"
    axis = axis_of(title, ink, ends if logarithmic else None)
    scale = scale_of(ends, logarithmic)
    opacity = alt.Opacity("ink:Q", scale=None)
    base = alt.Chart(alt.Data(values=drawn)).encode(y=_lanes(rows, ink, picture), tooltip="told:N")
    mean, median = (alt.X(f"{key}:Q", scale=scale, axis=axis) for key in ("mape", "median"))
    known = base.transform_filter("isValid(datum.median)")
    layers = [
        known.mark_rule(color=ink.muted, strokeWidth=1.5).encode(x=median, x2="mape:Q", opacity=opacity),
        known.mark_tick(orient="vertical", size=16, thickness=2, color=ink.text).encode(x=median, opacity=opacity),
        base.mark_point(size=80, filled=True, color=ramp[8]).encode(x=mean, opacity=opacity),
        base.mark_text(align="left", fontSize=12, color=ink.muted, dx=6).encode(x=alt.value("width"), text="counted:N"),
    ]
    height = ROW_HEIGHT * max(len(drawn), 1)
    return finish(alt.layer(*layers), height=height, theme=theme, picture=picture).properties(
        padding={"left": 20, "top": 20, "bottom": 20, "right": 70} if picture else {"right": 64}
    )


def _error(row: Mapping[str, Any], index: int) -> dict[str, Any]:
    median, rows = row.get("median_ape"), numbers.count(row["rows"])
    half = "" if median is None else f", median {numbers.share(median)}"
    return {
        "name": row["name"], "order": index, "mape": 100 * row["mape"], "median": None if median is None else 100 * median,
        "counted": f"n {rows}", "ink": 1.0 if row["rows"] >= 10 else 0.4,
        "told": f"mean {numbers.share(row['mape'])}{half} of {rows} rows",
    }  # fmt: skip


def _lanes(rows: Sequence[Mapping[str, Any]], ink: Ink, picture: bool) -> alt.Y:
    """Return the lines of a chart with their names at the left."""
    names = [str(row["name"]) for row in rows]
    expression = f"{names}[datum.value]" if names else "''"
    axis = alt.Axis(
        title=None, labelExpr=expression, labelColor=ink.text, labelFontSize=12, labelPadding=8, grid=False,
        labelLimit=360 if picture else 220, domain=False, ticks=False, values=list(range(len(names))),
    )  # fmt: skip
    return alt.Y("order:O", axis=axis, scale=alt.Scale(domain=list(range(len(names)))))
