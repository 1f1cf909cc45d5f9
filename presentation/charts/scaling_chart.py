"""Latency, throughput, memory and efficiency over the batch: a panel each, one line a way to run the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from presentation import formatting
from presentation.charts.axes import axis_of, may_be_log, scale_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.marks import TOOLTIP, coloured, dashed, ends_of, line_of, points, ticks
from presentation.charts.metrics import LATENCY, MEMORY, THROUGHPUT, Metric, Row
from presentation.palette import INKS, Theme

__all__ = ["PANELS", "Drawn", "scaling", "scalings"]

HEIGHT = 250
EFFICIENCY = Metric(
    "efficiency",
    "efficiency_low",
    "efficiency_high",
    "Throughput an item against batch 1",
    lambda _: formatting.Scale("%", 0.01),
    "larger is better",
)
PANELS = {"latency": LATENCY, "throughput": THROUGHPUT, "memory": MEMORY, "efficiency": EFFICIENCY}
_NEAR = 0.06
"""Ends of lines that are closer than this share of the height would write their letters over each other."""


class Drawn(NamedTuple):
    """One line: its letter, its points by rising batch, which of them are joined, and the batch at which it stops scaling."""

    letter: str
    points: Sequence[Row]
    joined: Sequence[tuple[Row, Row]]
    stops_at: int | None


def scaling(lines: Sequence[Drawn], panel: str, *, theme: Theme | None = None, picture: bool = False) -> alt.LayerChart:
    """Draw one panel; a line is dashed where an end of it was not measured, and absent across a batch that it lacks.

    Raise ValueError when the points would make more than `MAX_MARKS` marks.
    """
    return finish(_panel(lines, panel, theme, picture=picture), height=HEIGHT, theme=theme, picture=picture)


def _panel(lines: Sequence[Drawn], panel: str, theme: Theme | None, *, picture: bool) -> alt.LayerChart:
    metric = PANELS[panel]
    rows = [row for line in lines for row in line.points]
    refuse_too_many(4 * len(rows))
    scale = metric.scale([row.get(metric.key) for row in rows])
    drawn = [
        _point(line, row, metric, scale) for line in lines for row in line.points if row.get(metric.key) is not None
    ]
    joins = [_join(pair, metric, scale) for line in lines for pair in line.joined if _known(pair, metric)]
    ink, ends = INKS[theme], ends_of(drawn)
    logarithmic = panel in ("latency", "throughput") and may_be_log(ends, None)
    # Room above the lines for the words on where they stop.
    above = [100.0] if panel == "efficiency" else [1.15 * max(ends)] if panel == "throughput" and ends else []
    y_scale = scale_of([*ends, *above], logarithmic)
    y = alt.Y("value:Q", scale=y_scale, axis=_upright(metric, scale, logarithmic, ends, theme))
    x = alt.X("batch:Q", scale=_doubling([row["batch_size"] for row in rows]), axis=_batches(rows, theme))
    base = alt.Chart(Rows(values=drawn)).encode(y=y)
    layers = [
        alt.Chart(Rows(values=joins))
        .mark_rule(strokeWidth=2)
        .encode(
            x=x,
            x2=alt.X2("batch_to:Q"),
            y=y,
            y2=alt.Y2("to:Q"),
            color=coloured(rows, theme, picture=picture),
            strokeDash=dashed(),
        ),
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(
            x=x, y=alt.Y("low:Q", scale=y_scale), y2=alt.Y2("high:Q"), color=coloured(rows, theme, picture=picture)
        ),
        points(base, x, rows, theme, picture=picture),
        ticks(base, x, rows, theme, picture=picture),
        *_letters(drawn, y_scale.domain, logarithmic, x, y, ink.text),
    ]
    if panel == "efficiency":
        full = alt.Chart(Rows(values=[{"value": 100}])).mark_rule(color=ink.muted, strokeDash=[2, 3])
        layers.insert(0, full.encode(y=y))
    if panel == "throughput":
        layers += _stops(lines, min(row["batch_size"] for row in rows), x, ink.muted)
    return alt.layer(*layers)


def scalings(lines: Sequence[Drawn], panels: Sequence[str], *, theme: Theme | None = None) -> alt.ConcatChart:
    """Return the panels as one picture that stands alone."""
    ink = INKS[theme or "light"]
    drawn = [_panel(lines, panel, theme, picture=True).properties(width=400, height=HEIGHT) for panel in panels]
    return (
        alt.concat(*drawn, columns=2, background=ink.ground, padding=20)
        .configure_view(stroke=None)
        .configure_legend(labelColor=ink.text)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=18)
    )


def _stops(lines: Sequence[Drawn], least: int, x: alt.X, colour: str) -> list[alt.Chart]:
    """Write above the panel which lines stop scaling at which batch; at the least one to the right of the axis."""
    at: dict[int, list[str]] = {}
    for line in lines:
        if line.stops_at is not None:
            at.setdefault(line.stops_at, []).append(line.letter)
    document = [
        {"batch": batch, "words": f"{' '.join(letters)} stop{'s' * (len(letters) == 1)}"}
        for batch, letters in at.items()
    ]
    return [
        alt.Chart(Rows(values=values))
        .mark_text(baseline="top", align=align, fontSize=12, color=colour)
        .encode(x=x, y=alt.YValue(2), text=alt.Text("words:N"))
        for align, values in (
            ("left", [item for item in document if item["batch"] == least]),
            ("center", [item for item in document if item["batch"] != least]),
        )
        if values
    ]


def _point(line: Drawn, row: Row, metric: Metric, scale: formatting.Scale) -> dict[str, Any]:
    drawn = line_of(row, 0, metric, scale, ranked=False)
    last = max(point["batch_size"] for point in line.points if point.get(metric.key) is not None)
    return {
        **drawn,
        "batch": row["batch_size"],
        "letter": line.letter,
        "last": row["batch_size"] == last,
        "name": f"{line.letter} · {drawn['name']}",
    }


def _known(pair: tuple[Row, Row], metric: Metric) -> bool:
    return all(row.get(metric.key) is not None for row in pair)


def _join(pair: tuple[Row, Row], metric: Metric, scale: formatting.Scale) -> dict[str, Any]:
    """Return a segment; it looks like the less certain of its ends."""
    ends = [line_of(row, 0, metric, scale, ranked=False) for row in pair]
    order = ("measured", "imported", "reference", "calibrated", "predicted", "roofline")
    basis = max((end["basis"] for end in ends), key=lambda item: order.index(item) if item in order else len(order))
    return {
        "batch": pair[0]["batch_size"],
        "batch_to": pair[1]["batch_size"],
        "value": ends[0]["value"],
        "to": ends[1]["value"],
        "platform": ends[0]["platform"],
        "basis": basis,
    }


def _doubling(batches: Sequence[int]) -> alt.Scale:
    return alt.Scale(type="log", base=2, domain=[min(batches) / 1.25, max(batches) * 1.6], nice=False)


def _batches(rows: Sequence[Row], theme: Theme | None) -> alt.Axis:
    axis = axis_of("batch (log)", INKS[theme], None).to_dict()
    seen = sorted({row["batch_size"] for row in rows})
    return alt.Axis(**{**axis, "values": seen, "format": "d", "grid": False, "labelOverlap": True})


def _upright(
    metric: Metric, scale: formatting.Scale, logarithmic: bool, ends: Sequence[float], theme: Theme | None
) -> alt.Axis:
    words = f"p50 {metric.title.lower()}" if metric is LATENCY else metric.title
    title = f"{words}, {scale.unit} ({'log' if logarithmic else 'linear'}), {metric.better}"
    axis = axis_of(title, INKS[theme], ends if logarithmic and ends else None).to_dict()
    # Above the panel, as a title is read: turned by the axis it would be cut on a phone.
    return alt.Axis(
        **{**axis, "titleAngle": 0, "titleAlign": "left", "titleX": 0, "titleY": -14, "titleBaseline": "bottom"}
    )


def _letters(
    drawn: Sequence[dict[str, Any]], domain: Any, logarithmic: bool, x: alt.X, y: alt.Y, colour: str
) -> list[alt.Chart]:
    """Write the letter of each line beside its last point; letters that would meet stand side by side."""

    def height(value: float) -> float:
        low, high = (math.log(end) if logarithmic else end for end in domain)
        return ((math.log(value) if logarithmic else value) - low) / (high - low)

    placed: list[tuple[int, float]] = []
    by_place: dict[int, list[dict[str, Any]]] = {}
    for item in sorted((entry for entry in drawn if entry["last"]), key=lambda entry: str(entry["letter"])):
        at = height(item["value"])
        beside = sum(batch == item["batch"] and abs(at - other) < _NEAR for batch, other in placed)
        placed.append((item["batch"], at))
        by_place.setdefault(beside, []).append(item)
    return [
        alt.Chart(Rows(values=ones))
        .mark_text(align="left", baseline="middle", dx=10 + 12 * beside, fontSize=13, fontWeight=600, color=colour)
        .encode(x=x, y=y, text=alt.Text("letter:N"), tooltip=TOOLTIP)
        for beside, ones in by_place.items()
    ]
