"""What a row spent its time with, one stage after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from presentation import formatting
from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish
from presentation.charts.samples_chart import platform_colour
from presentation.palette import INKS, Theme, colour_key

__all__ = ["stages"]

ROW_HEIGHT = 26
_ROOM = 0.7
"""Of the width: a bar that ends behind it has its words before it."""


def stages(
    rows: Sequence[Mapping[str, Any]], platform: str, *, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw `{"stage", "start", "end", "took"}` in ms on one axis of time; a stage without times has its words and no bar."""
    ink = INKS[theme]
    last = max([item["end"] or 0.0 for item in rows]) or 1.0
    scale = formatting.latency_scale([last])
    values = [_line(item, scale, last, colour_key(platform)) for item in rows]
    y = alt.Y(
        "stage:N",
        sort=None,
        title=None,
        scale=alt.Scale(domain=[value["stage"] for value in values]),
        axis=alt.Axis(domain=False, ticks=False, labelFontSize=12, labelColor=ink.text, labelPadding=8, minExtent=64),
    )
    x: dict[str, Any] = {
        "scale": alt.Scale(domain=[0, 1.02 * last / scale.divisor], nice=False),
        "axis": axis_of(f"time since the row began, {scale.unit} (linear)", ink, None),
    }
    base = alt.Chart(Rows(values=values)).encode(y=y)
    tooltip = [alt.Tooltip("stage:N", title="Stage"), alt.Tooltip("took:N", title="Took")]
    bars = base.transform_filter("isValid(datum.end)").mark_bar(height=12)
    colour = platform_colour(theme, picture=picture)
    layers = [bars.encode(x=alt.X("start:Q", **x), x2=alt.X2("end:Q"), color=colour, tooltip=tooltip)]
    for before, align, dx in (("true", "right", -6), ("false", "left", 6)):
        words = base.transform_filter(f"datum.before === {before}").mark_text(
            align=align, dx=dx, fontSize=12, color=ink.text
        )
        layers.append(words.encode(x=alt.X("at:Q", **x), text=alt.Text("took:N"), tooltip=tooltip))
    return finish(alt.layer(*layers), height=ROW_HEIGHT * len(values), theme=theme, picture=picture)


def _line(row: Mapping[str, Any], scale: formatting.Scale, last: float, platform: str) -> dict[str, Any]:
    existing = row["end"] is not None
    # Words stand behind a bar, or before one that leaves no room.
    before = existing and row["end"] > _ROOM * last and row["start"] > (1 - _ROOM) * last
    at = (row["start"] if before else row["end"]) if existing else 0.0
    times = {name: scale.of(row[name]) for name in ("start", "end")}
    return {**row, **times, "at": at / scale.divisor, "before": before, "platform": platform}
