"""One line a row: its name, its value and the interval it may lie in."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from dashboard.charts.axes import axis_of, may_be_log, scale_of
from dashboard.charts.frame import Rows, finish, refuse_too_many
from dashboard.charts.marks import TOOLTIP, ends_of, line_of, points, rules, ticks
from dashboard.charts.metrics import LATENCY, Metric, Row
from dashboard.palette import INKS, Ink, Theme

__all__ = ["intervals"]

ROW_HEIGHT = 46
NARROW = 520
"""Pixels below which a row has no room for both its name and its interval in words."""
_FONT = alt.ExprRef(f"width < {NARROW} ? 12 : 13")


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
) -> alt.LayerChart:
    """Draw one line a row: name, value in words, a mark by basis and the interval it may lie in.

    A row without a value keeps its line and says why; it has no mark. `log=None` decides by the range.
    `beside` is a value that is marked across all rows, such as 1 for what a ratio is of. Raise ValueError when the rows would make more than `MAX_MARKS` marks.
    """
    scale = metric.scale([row.get(metric.key) for row in rows])
    drawn = [line_of(row, index, metric, scale, ranked=ranked) for index, row in enumerate(rows)]
    refuse_too_many(len(drawn) * 5)
    known = [line for line in drawn if line["value"] is not None]
    ends = ends_of(known) + ([beside] if beside is not None else [])
    logarithmic = may_be_log(ends, log)
    ink = INKS[theme]
    x_scale = scale_of(ends, logarithmic)
    words = f"{percentile} {metric.title.lower()}" if metric is LATENCY else metric.title
    title = f"{words}, {scale.unit} ({'log' if logarithmic else 'linear'}), {metric.better}"
    axis = axis_of(title, ink, ends if logarithmic else None)
    x = alt.X("value:Q", scale=x_scale, axis=axis)
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    base = alt.Chart(Rows(values=drawn)).encode(y=y)
    marked = base.transform_filter("isValid(datum.value)")
    layers = [
        rules(marked, x_scale, axis, rows, theme, picture=picture, yOffset=9, strokeCap="butt"),
        points(marked, x, rows, theme, picture=picture, offset=9),
        ticks(marked, x, rows, theme, picture=picture, offset=9),
        base.mark_text(
            align="left", baseline="middle", dy=-10, fontSize=_FONT, color=ink.text,
            limit=alt.ExprRef(f"width < {NARROW} ? width - 64 : width - 190"),
        ).encode(x=alt.XValue(0), text=alt.Text("label:N"), tooltip=TOOLTIP),
        _told(base, ink, "text", f"width < {NARROW} ? 0 : 1"),
        _told(base, ink, "brief", f"width < {NARROW} ? 1 : 0"),
    ]  # fmt: skip
    if beside is not None:
        mark = alt.Chart(Rows(values=[{"value": beside}])).mark_rule(color=ink.muted, strokeDash=[2, 3])
        layers.insert(0, mark.encode(x=x))
    height = ROW_HEIGHT * max(len(drawn), 1)
    return finish(alt.layer(*layers), height=height, theme=theme, picture=picture)


def _told(base: alt.Chart, ink: Ink, field: str, opacity: str) -> alt.Chart:
    mark = base.mark_text(
        align="right", baseline="middle", dy=-10, fontSize=_FONT, fontWeight=600, color=ink.text,
        opacity=alt.ExprRef(opacity),
    )  # fmt: skip
    return mark.encode(x=alt.XValue("width"), text=alt.Text(f"{field}:N"), tooltip=TOOLTIP)
