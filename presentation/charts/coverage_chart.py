"""Where there are measurements: families by platforms, a cell as dark as its count; an empty cell is an outline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from presentation import formatting
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.palette import INKS, SEQUENTIAL, Theme

__all__ = ["coverage"]

ROW_HEIGHT = 28
STEPS = 5


def coverage(
    cells: Sequence[Mapping[str, Any]],
    families: Sequence[str],
    platforms: Sequence[str],
    *,
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw the counts of measurements, in five steps on a logarithmic scale.

    Raise ValueError when the cells would make more than `MAX_MARKS` marks.
    """
    refuse_too_many(2 * len(families) * len(platforms))
    existing = {(cell["family"], cell["platform"]): cell for cell in cells}
    most = max(int(cell["measurements"]) for cell in cells)
    ink, ramp = INKS[theme], SEQUENTIAL[theme or "light"][::2]
    drawn = [
        _cell(family, platform, existing.get((family, platform)), most, ramp, theme)
        for family in families
        for platform in platforms
    ]
    # The families of a catalogue are distinguished by their beginning; what is cut is whole in the tooltip and the table.
    names = alt.Axis(
        title=None, labelColor=ink.text, labelFontSize=12, labelLimit=130, domain=False, ticks=False, labelPadding=8
    )
    heads = alt.Axis(
        title=None,
        orient="top",
        labelColor=ink.muted,
        labelFontSize=12,
        labelAngle=alt.ExprRef(f"width < {60 * len(platforms)} ? -50 : 0"),
        labelAlign=alt.ExprRef(f"width < {60 * len(platforms)} ? 'left' : 'center'"),
        labelOverlap=False,
        domain=False,
        ticks=False,
    )
    x = alt.X("platform:N", sort=None, axis=heads, scale=alt.Scale(domain=list(platforms), paddingInner=0.06))
    y = alt.Y("family:N", sort=None, axis=names, scale=alt.Scale(domain=list(families), paddingInner=0.12))
    tooltip = [alt.Tooltip("name:N", title="Cell"), alt.Tooltip("detail:N", title="Measured")]
    base = alt.Chart(Rows(values=drawn)).encode(x=x, y=y, tooltip=tooltip)
    layers = [
        base.mark_rect(cornerRadius=3).encode(
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("edge:N", scale=None),
            fillOpacity=alt.FillOpacity("filled:Q", scale=None),
        ),
        base.mark_text(fontSize=12).encode(text=alt.Text("words:N"), color=alt.Color("ink:N", scale=None)),
    ]
    return finish(alt.layer(*layers), height=ROW_HEIGHT * len(families), theme=theme, picture=picture)


def _cell(
    family: str, platform: str, cell: Mapping[str, Any] | None, most: int, ramp: Sequence[str], theme: Theme | None
) -> dict[str, Any]:
    ink = INKS[theme]
    place = {"family": family, "platform": platform, "name": f"{family} · {platform}"}
    if cell is None:
        return place | {
            "detail": "nothing",
            "words": "",
            "fill": ink.ground,
            "filled": 0,
            "edge": ink.grid,
            "ink": ink.muted,
        }
    count = int(cell["measurements"])
    step = min(STEPS - 1, int(STEPS * math.log(count + 1) / math.log(most + 2)))
    text = (
        f"{formatting.count(count)} measurements of {formatting.count(cell['configurations'])} configurations: "
        f"{formatting.count(cell['models'])} models on {formatting.count(cell['hardware'])} hardware"
    )
    on_dark = step >= STEPS - 2
    light, dark = INKS["light"].text, INKS["dark"].text
    words = (dark if on_dark else light) if theme != "dark" else (light if on_dark else dark)
    return place | {
        "detail": text,
        "words": _short(count),
        "fill": ramp[step],
        "filled": 1,
        "edge": ramp[step],
        "ink": words,
    }


def _short(count: int) -> str:
    """Write a count in the width of a cell."""
    return str(count) if count < 1000 else f"{formatting.significant(count / 1000)}k"
