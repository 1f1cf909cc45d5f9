"""Inference and training of one configuration on one line, joined: the distance between them is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from presentation import formatting
from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.charts.marks import TOOLTIP, ends_of, line_of, points, rules
from presentation.charts.metrics import LATENCY, Row
from presentation.palette import INKS, Theme

__all__ = ["modes"]

ROW_HEIGHT = 62
NARROW = 520
SHORT = {"inference": "inf.", "training": "train."}


def modes(
    pairs: Sequence[tuple[str, Row, Row, float]], *, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw one line a pair: `(name, inference, training, training over inference)`, times in ms an item.

    Raise ValueError when the pairs would make more than `MAX_MARKS` marks.
    """
    refuse_too_many(8 * len(pairs))
    rows = [row for _, inference, training, _ in pairs for row in (inference, training)]
    scale = LATENCY.scale([row.get(LATENCY.key) for row in rows])
    drawn, links = _drawn(pairs, scale)
    ends, ink = ends_of(drawn), INKS[theme]
    # Room on both sides for the words beside the marks.
    x_scale = alt.Scale(type="log", domain=[min(ends) / 2.6, max(ends) * 2.6], nice=False)
    axis = axis_of(f"p50 latency of an item, {scale.unit} (log), smaller is better", ink, ends)
    x = alt.X("value:Q", scale=x_scale, axis=axis)
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    base, linked = alt.Chart(Rows(values=drawn)).encode(y=y), alt.Chart(Rows(values=links)).encode(y=y)
    layers = [
        linked.mark_rule(color=ink.muted, strokeWidth=1, yOffset=12).encode(
            x=alt.X("low:Q", scale=x_scale, axis=axis), x2=alt.X2("high:Q")
        ),
        rules(base, x_scale, axis, rows, theme, picture=picture, yOffset=12, strokeCap="butt"),
        points(base, x, rows, theme, picture=picture, offset=12),
        linked.mark_text(align="left", baseline="middle", dy=-16, fontSize=13, color=ink.text).encode(
            x=alt.XValue(0), text=alt.Text("label:N")
        ),
        linked.mark_text(align="right", baseline="middle", dy=-16, fontSize=13, fontWeight=600, color=ink.text).encode(
            x=alt.XValue("width"), text=alt.Text("ratio:N")
        ),
        *(_words(base, x, side, wide, ink.muted) for side in ("left", "right") for wide in (True, False)),
    ]
    return finish(alt.layer(*layers), height=ROW_HEIGHT * max(len(pairs), 1), theme=theme, picture=picture)


def _drawn(
    pairs: Sequence[tuple[str, Row, Row, float]], scale: formatting.Scale
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    drawn, links = [], []
    for place, (name, *sides, ratio) in enumerate(pairs):
        marks = [
            {**line_of(row, place, LATENCY, scale, ranked=False), "mode": mode}
            for row, mode in zip(sides, ("inference", "training"), strict=True)
        ]
        first, last = sorted(marks, key=lambda mark: mark["value"])
        for mark, side in ((first, "left"), (last, "right")):
            drawn.append(
                {
                    **mark,
                    "side": side,
                    "words": f"{mark['mode']} {mark['brief']}",
                    "short": f"{SHORT[mark['mode']]} {mark['brief']}",
                }
            )
        links.append(
            {
                "order": place,
                "low": first["value"],
                "high": last["value"],
                "label": name,
                "ratio": f"training {formatting.factor(ratio)}",
            }
        )
    return drawn, links


def _words(base: alt.Chart, x: alt.X, side: str, wide: bool, colour: str) -> alt.Chart:
    """Write beside each mark which mode it is, shorter where the page is narrow."""
    away: Mapping[str, Any] = {"align": "right", "dx": -11} if side == "left" else {"align": "left", "dx": 11}
    sizes = (12, 0) if wide else (0, 12)
    # What has no size takes no room: what is only invisible would still widen the picture.
    size = alt.ExprRef(f"width < {NARROW} ? {sizes[1]} : {sizes[0]}")
    chart = base.transform_filter(alt.datum.side == side)
    return chart.mark_text(baseline="middle", dy=12, fontSize=size, color=colour, **away).encode(
        x=x, text=alt.Text("words:N" if wide else "short:N"), tooltip=TOOLTIP
    )
