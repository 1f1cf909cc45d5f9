"""A result of anybody's query as bars, a line or points: one mark a row, nothing summed and nothing made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from dashboard.screens.query.words import Drawing
from presentation import formatting
from presentation.charts.axes import axis_of, may_be_log, scale_of
from presentation.charts.frame import MAX_MARKS, Rows, finish
from presentation.palette import INKS, PLATFORM_COLOURS, PLATFORM_DOMAIN, SEQUENTIAL, Theme, colour_key

__all__ = ["BARS", "COLOURS", "drawable", "key", "result"]

Row = Mapping[str, Any]
BARS = 40
COLOURS = 6
"""Values that tints of one hue still tell apart; the hues belong to the platforms."""
HEADS_PX = 24
"""Of a page's chart, whose height holds the head of its bars too."""
BAR_PX = 24
HEIGHT = 340


def drawable(rows: Sequence[Row], what: Drawing) -> list[Row]:
    """Return the rows that are drawn: those with both values, the first `BARS` as bars."""
    matching_rows = [row for row in rows if row.get(what.x) is not None and row.get(what.y) is not None]
    return matching_rows[: BARS if what.kind == "bar" else MAX_MARKS // 2]


def result(
    rows: Sequence[Row],
    what: Drawing,
    *,
    horizontal: str,
    logarithmic: bool | None = None,
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw the rows; `horizontal` is `number`, `time` or `label`, what the values of `x` are. Bars begin at zero."""
    drawn = drawable(rows, what)
    colour, keys = _colour(drawn, what.colour, theme, picture)
    values = [
        {
            "x": row[what.x] if horizontal == "number" else str(row[what.x]),
            "y": row[what.y],
            "label": label,
            "key": key,
            "detail": " · ".join(f"{name} {_said(value)}" for name, value in list(row.items())[:8]),
        }
        for row, label, key in zip(drawn, _labels(drawn, what), keys, strict=True)
    ]
    tooltip = alt.Tooltip("detail:N", title="Row")
    base = alt.Chart(Rows(values=values)).encode(color=colour, tooltip=tooltip)
    ink = INKS[theme]
    ends = [float(value["y"]) for value in values]
    if what.kind == "bar":
        axis = alt.Axis(
            title=what.x,
            labelLimit=260,
            labelColor=ink.text,
            titleColor=ink.muted,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            domain=False,
            ticks=False,
            titleAnchor="start",
            titleAngle=0,
            titleAlign="left",
            titleY=-10,
            titleX=0,
            labelOverlap=False,
        )
        bars = base.mark_bar(height={"band": 0.7}).encode(
            x=alt.X("y:Q", axis=axis_of(what.y, ink, None), scale=_from_zero(ends)),
            y=alt.Y("label:N", sort=None, axis=axis),
        )
        heads = 0 if picture else HEADS_PX
        return finish(alt.layer(bars), height=max(80, BAR_PX * len(values)) + heads, theme=theme, picture=picture)
    log = may_be_log(ends, logarithmic)
    words = f"{what.y} (log)" if log else what.y
    y = alt.Y("y:Q", axis=axis_of(words, ink, ends if log else None), scale=scale_of(ends, log))
    encoded = base.encode(x=_across(values, what.x, horizontal, theme), y=y)
    points = encoded.mark_point(filled=True, size=64, opacity=0.9)
    layers = [encoded.mark_line(strokeWidth=2), points] if what.kind == "line" else [points]
    return finish(alt.layer(*layers), height=HEIGHT, theme=theme, picture=picture)


def key(rows: Sequence[Row], what: Drawing, theme: Theme | None) -> list[tuple[str, str]]:
    """Return the values that colours stand for, each with its colour: a page's chart has its key beside it, where there is room."""
    drawn = drawable(rows, what)
    if what.colour == "platform":
        worn = {colour_key(row.get("platform")) for row in drawn}
        colours = zip(PLATFORM_DOMAIN, PLATFORM_COLOURS[theme or "light"], strict=True)
        return [(name, colour) for name, colour in colours if name in worn]
    domain = _values(drawn, what.colour)
    return list(zip(domain, _tints(len(domain), theme), strict=True)) if 0 < len(domain) <= COLOURS else []


def _values(rows: Sequence[Row], name: str | None) -> list[str]:
    return list(dict.fromkeys(_said(row.get(name)) for row in rows)) if name else []


def _tints(count: int, theme: Theme | None) -> list[str]:
    ramp = SEQUENTIAL[theme or "light"]
    return [ramp[round(2 + 7 * place / max(1, count - 1))] for place in range(count)]


def _across(values: Sequence[Row], title: str, horizontal: str, theme: Theme | None) -> alt.X:
    ink = INKS[theme]
    if horizontal == "number":
        ends = [float(value["x"]) for value in values]
        log = may_be_log(ends, None)
        return alt.X(
            "x:Q",
            axis=axis_of(f"{title} (log)" if log else title, ink, ends if log else None),
            scale=scale_of(ends, log),
        )
    axis = alt.Axis(
        title=title,
        labelColor=ink.muted,
        titleColor=ink.muted,
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
        titleAnchor="start",
        grid=False,
        domain=False,
        ticks=False,
        labelLimit=160,
        labelOverlap=True,
        **({"labelAngle": -30} if horizontal == "label" else {}),
    )
    return alt.X("x:T", axis=axis) if horizontal == "time" else alt.X("x:N", axis=axis, sort=None)


def _colour(rows: Sequence[Row], name: str | None, theme: Theme | None, picture: bool) -> tuple[Any, list[str | None]]:
    """Return the colours and the key of each row: platforms wear theirs, other values tints, too many of them one colour."""
    ink = INKS[theme]
    legend = alt.Legend(title=name, orient="bottom", labelColor=ink.text, titleColor=ink.muted, labelFontSize=12)
    if name == "platform":
        keys = [colour_key(row.get(name)) for row in rows]
        worn = {"range": list(PLATFORM_COLOURS[theme or "light"])} if picture else {}
        shown = _only(legend, [key for key in PLATFORM_DOMAIN if key in keys]) if picture else None
        return alt.Color("key:N", scale=alt.Scale(domain=list(PLATFORM_DOMAIN), **worn), legend=shown), [*keys]
    domain = _values(rows, name)
    if not 0 < len(domain) <= COLOURS:
        return alt.ColorValue(SEQUENTIAL[theme or "light"][6]), [None] * len(rows)
    scale = alt.Scale(domain=domain, range=_tints(len(domain), theme))
    return alt.Color("key:N", scale=scale, legend=legend if picture else None), [
        _said(row.get(str(name))) for row in rows
    ]


def _only(legend: alt.Legend, shown: list[str]) -> alt.Legend:
    legend.values = shown
    return legend


def _labels(rows: Sequence[Row], what: Drawing) -> list[str]:
    """Name every row apart: by x, where that repeats by the colour too, and at last by a number."""
    plain = [str(row[what.x]) for row in rows]
    often = Counter(plain)
    longer = [
        f"{name} · {_said(row.get(what.colour))}" if often[name] > 1 and what.colour and what.colour != what.x else name
        for name, row in zip(plain, rows, strict=True)
    ]
    often, seen = Counter(longer), Counter[str]()
    texts = []
    for name in longer:
        seen[name] += 1
        texts.append(f"{name} ({seen[name]})" if often[name] > 1 else name)
    return texts


def _from_zero(ends: Sequence[float]) -> alt.Scale:
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return alt.Scale(domain=[low, high * 1.05 if high > low else 1], nice=False)


def _said(value: Any) -> str:
    if value is None:
        return formatting.MISSING
    return f"{value:,.6g}" if isinstance(value, float) else str(value)[:120]
