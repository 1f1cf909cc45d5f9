"""What time or work goes into: one horizontal bar a part, its words beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.palette import INKS, SEQUENTIAL, Theme

__all__ = ["breakdown"]

ROW_HEIGHT = 42
NARROW = 520


def breakdown(
    parts: Sequence[Mapping[str, Any]],
    title: str,
    *,
    covered: bool = False,
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw the parts of `dashboard.model.parts`; `title` says what the shares are of.

    The edge is dotted unless the shares are `covered` by measurement. Raise ValueError beyond `MAX_MARKS`.
    """
    refuse_too_many(2 * len(parts))
    drawn = [{**part, "order": index, "percent": 100 * part["share"]} for index, part in enumerate(parts)]
    ink, shade = INKS[theme], SEQUENTIAL[theme or "light"][6]
    most = max((part["percent"] for part in drawn), default=1.0)
    x = alt.X(
        "percent:Q", axis=axis_of(title, ink, None), scale=alt.Scale(domain=[0, max(most * 1.02, 1.0)], nice=False)
    )
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0))
    tooltip = [alt.Tooltip(f"{key}:N", title=words) for key, words in _DETAIL.items()]
    base = alt.Chart(Rows(values=drawn)).encode(y=y, tooltip=tooltip)
    size = alt.ExprRef(f"width < {NARROW} ? 12 : 13")
    text = {"baseline": "middle", "dy": -9, "fontSize": size, "color": ink.text}
    layers = [
        base.mark_bar(
            height=12,
            yOffset=11,
            color=shade,
            fillOpacity=1.0 if covered else 0.22,
            stroke=shade,
            strokeWidth=1.5,
            strokeDash=[1, 0] if covered else [1, 3],
        ).encode(x=x),
        base.mark_text(align="left", limit=alt.ExprRef(f"width < {NARROW} ? width - 60 : width - 230"), **text).encode(
            x=alt.XValue(0), text=alt.Text("name:N")
        ),
        *(
            base.mark_text(align="right", fontWeight=600, opacity=alt.ExprRef(shown), **text).encode(
                x=alt.XValue("width"), text=alt.Text(f"{field}:N")
            )
            for field, shown in (("words", f"width < {NARROW} ? 0 : 1"), ("brief", f"width < {NARROW} ? 1 : 0"))
        ),
    ]
    return finish(alt.layer(*layers), height=ROW_HEIGHT * max(len(drawn), 1), theme=theme, picture=picture)


_DETAIL = {"name": "Operator", "words": "Share", "detail": "Work"}
