"""The compatibility matrix: a filled cell where something was seen, a dashed hollow one where a document only claims it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import altair as alt

from dashboard.screens.compatibility.words import CLASSES, cell_text, class_of, name_of_cell
from domain.answers.compatibility import MatrixCell, MatrixRow, PlatformTotal
from domain.compatibility.states import place
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.palette import INKS, Theme

__all__ = ["CELL", "CELL_COLOURS", "heat_map"]

CELL = "cell"
"""The selection that holds the cell clicked on, by its `id`."""
ROW_HEIGHT = 28
NARROW = 62
"""Pixels of a cell below which it has room for a glyph alone, and its head for slanted words."""
_ALL = "all"
CELL_COLOURS: dict[Theme, dict[str, str]] = {
    "light": {
        "right": "#00695C",
        "ran": "#00695C",
        "part": "#8A7B00",
        "failed": "#6E0F24",
        "unsupported": "#9CA3AF",
        "claimed": "#6B7280",
    },
    "dark": {
        "right": "#3FBFA5",
        "ran": "#3FBFA5",
        "part": "#F0E000",
        "failed": "#C62839",
        "unsupported": "#6B7280",
        "claimed": "#8A93A0",
    },
}
_FILLED = {"right": 1.0, "ran": 0.22, "part": 1.0, "failed": 1.0, "unsupported": 0.35, "claimed": 0.0}
"""How far a class is filled: outputs that nobody compared are a lighter shade of those found right; a claim is hollow."""
_ON_FILL: dict[Theme, dict[str, str]] = {
    "light": {"right": "#FFFFFF", "part": "#FFFFFF", "failed": "#FFFFFF"},
    "dark": {"right": "#0E1117", "part": "#0E1117", "failed": "#FFFFFF"},
}
_TOOLTIP = [
    alt.Tooltip("name:N", title="Cell"),
    alt.Tooltip("seen:N", title="Seen"),
    alt.Tooltip("level:N", title="Level"),
    alt.Tooltip("rests:N", title="Rests on"),
    alt.Tooltip("stopped:N", title="What stopped it"),
    alt.Tooltip("claimed:N", title="Documents claim"),
    alt.Tooltip("click:N", title="Click"),
]


class _Mark(TypedDict):
    """A cell as the chart draws it: where it stands, its look, and what its tooltip says."""

    id: str
    row: str
    column: str
    text: str
    glyph: str
    colour: str
    filled: float
    edge: str
    width: int
    dashed: bool
    ink: str
    name: str
    seen: str
    level: str
    rests: str
    stopped: str
    claimed: str
    click: str


class _Total(TypedDict):
    """The sum beside a row, in full and for a narrow column."""

    row: str
    column: str
    text: str
    short: str


def heat_map(
    rows: Sequence[MatrixRow],
    platforms: Sequence[PlatformTotal],
    *,
    selected: str = "",
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw one row a family or model and one column a platform; the platforms' heads count models that ran and were tried.

    Raise ValueError when the cells would make more than `MAX_MARKS` marks.
    """
    shade: Theme = theme or "light"
    columns = {platform.platform: platform for platform in sorted(platforms, key=lambda item: place(item.platform))}
    heads = {name: f"{name}|{_share(column)}" for name, column in columns.items()}
    drawn = [_mark(row, cell, heads, selected, shade) for row in rows for cell in row.cells]
    totals = [_total(row) for row in rows]
    refuse_too_many(3 * len(drawn) + 2 * len(totals))
    ink = INKS[theme]
    narrow = f"width / {len(columns) + 1} < {NARROW}"
    axis = alt.Axis(
        orient="top",
        title=None,
        labelAngle=alt.ExprRef(f"{narrow} ? -60 : 0"),
        labelAlign=alt.ExprRef(f"{narrow} ? 'left' : 'center'"),
        labelExpr=f"{narrow} ? split(datum.label, '|')[0] : split(datum.label, '|')",
        labelColor=ink.muted,
        labelFontSize=12,
        labelPadding=alt.ExprRef(f"{narrow} ? 4 : 22"),
        labelFlush=False,
        labelLineHeight=14,
        domain=False,
        ticks=False,
        labelOverlap=False,
        labelLimit=90,
    )
    x = alt.X(
        "column:N",
        sort=None,
        axis=axis,
        scale=alt.Scale(domain=[*heads.values(), _ALL], paddingInner=0.06, paddingOuter=0),
    )
    names = [str(row.name) for row in rows]
    labels = alt.Axis(
        title=None,
        labelColor=ink.text,
        labelFontSize=12,
        labelLimit=150,
        domain=False,
        ticks=False,
        labelPadding=8,
        labelExpr="length(split(datum.label, '/')) > 1 ? slice(split(datum.label, '/'), -1)[0] : datum.label",
    )
    y = alt.Y("row:N", sort=None, axis=labels, scale=alt.Scale(domain=names, paddingInner=0.1, paddingOuter=0.02))
    base = alt.Chart(Rows(values=drawn)).encode(x=x, y=y, tooltip=_TOOLTIP)
    look = {
        "fill": alt.Fill("colour:N", scale=None),
        "fillOpacity": alt.FillOpacity("filled:Q", scale=None),
        "stroke": alt.Stroke("edge:N", scale=None),
        "strokeWidth": alt.StrokeWidth("width:Q", scale=None),
    }
    seen = base.transform_filter("!datum.dashed").mark_rect(cornerRadius=3, cursor="pointer").encode(**look)
    if not picture:
        # A click on any mark of the layers counts, on words as well.
        seen = seen.properties(name="cells").add_params(
            alt.selection_point(name=CELL, fields=["id"], on="click", clear=False)
        )
    claimed = (
        base.transform_filter("datum.dashed")
        .mark_rect(cornerRadius=3, cursor="pointer", strokeDash=[4, 3])
        .encode(**look)
    )
    words = [
        base.mark_text(fontSize=12, baseline="middle", cursor="pointer", limit=92, opacity=alt.ExprRef(shown)).encode(
            text=alt.Text(f"{field}:N"), color=alt.Color("ink:N", scale=None)
        )
        for field, shown in (("text", f"{narrow} ? 0 : 1"), ("glyph", f"{narrow} ? 1 : 0"))
    ]
    sums = [
        alt.Chart(Rows(values=totals))
        .mark_text(fontSize=12, color=ink.muted, baseline="middle", opacity=alt.ExprRef(shown))
        .encode(x=x, y=y, text=alt.Text(f"{field}:N"))
        for field, shown in (("text", f"{narrow} ? 0 : 1"), ("short", f"{narrow} ? 1 : 0"))
    ]
    return finish(
        alt.layer(seen, claimed, *words, *sums), height=ROW_HEIGHT * max(len(rows), 1), theme=theme, picture=picture
    )


def _share(row: PlatformTotal) -> str:
    return f"{row.working}/{row.models}" if row.models else "claimed"


def _total(row: MatrixRow) -> _Total:
    text = f"{row.working}/{row.models}" if row.models else ""
    # A narrow column has no room for the same number twice.
    short = str(row.models) if text and row.working == row.models else text
    return {"row": row.name, "column": _ALL, "text": text, "short": short}


def _mark(row: MatrixRow, cell: MatrixCell, heads: Mapping[str, str], selected: str, shade: Theme) -> _Mark:
    kind = class_of(cell)
    mark, colour = CLASSES[kind], CELL_COLOURS[shade][kind]
    name = name_of_cell(row.name, cell.platform)
    claimed = cell.claimed
    states = ", ".join(f"{count} {state}" for state, count in (cell.states or {}).items()) or cell.state
    return {
        "id": name,
        "row": row.name,
        "column": heads[cell.platform],
        "text": cell_text(cell),
        "glyph": cell_text(cell).partition(" ")[0] if kind != "claimed" else "",
        "colour": colour,
        "filled": _FILLED[kind],
        "edge": INKS[shade].text if name == selected else colour,
        "width": 3 if name == selected else 1,
        "dashed": kind == "claimed",
        "ink": _ON_FILL[shade].get(kind, INKS[shade].muted if kind == "claimed" else INKS[shade].text),
        "name": f"{row.name} · {cell.platform}",
        "seen": f"{mark.glyph} {states}" if kind != "claimed" else "nobody tried it",
        "level": str(cell.level or "—"),
        "rests": _rests(cell),
        "stopped": str(cell.stopped or "—"),
        "claimed": (f"{claimed}: contradicted here" if cell.contradicted else str(claimed)) if claimed else "—",
        "click": "outcomes, errors and events",
    }


def _rests(cell: MatrixCell) -> str:
    if not cell.models:
        return "nothing seen"
    parts = [f"{cell.models} model{'s' * (cell.models != 1)}"]
    if cell.tries:
        parts.append(f"{cell.tries} run{'s' * (cell.tries != 1)}")
    if cell.age_days is not None:
        parts.append(f"newest {cell.age_days} d old" + (", stale" if cell.stale else ""))
    return " · ".join(parts)
