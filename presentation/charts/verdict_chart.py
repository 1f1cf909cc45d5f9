"""What the rows of each run are worth: one bar a run, cut by verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from presentation.charts.axes import axis_of
from presentation.charts.frame import LEGEND, Rows, finish, refuse_too_many
from presentation.palette import INKS, VERDICT_COLOURS, VERDICT_GLYPHS, Theme

__all__ = ["verdict_mix"]

ROW_HEIGHT = 40
NARROW = 560
_FONT = alt.ExprRef(f"width < {NARROW} ? 12 : 13")
_WORDS = {"unjudged": f"{VERDICT_GLYPHS[None]} no verdict"}


def verdict_mix(
    runs: Sequence[Mapping[str, Any]], *, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw a bar a run, of shares of its rows by verdict, with its name above and its figures beside.

    A run is `{"run", "label", "counts": {verdict: rows}, "text", "brief", "detail"}`; one without rows has no bar.
    """
    ink, colours = INKS[theme], VERDICT_COLOURS[theme or "light"]
    names = {name: _WORDS.get(name) or f"{VERDICT_GLYPHS[name]} {name}" for name in colours}
    lines = [
        {"order": at, **{name: run[name] for name in ("label", "text", "brief", "detail")}}
        for at, run in enumerate(runs)
    ]
    parts = [part for at, run in enumerate(runs) for part in _parts(run, at, names)]
    refuse_too_many(2 * len(lines) + len(parts))
    present = [names[name] for name in colours if any(part["verdict"] == names[name] for part in parts)]
    y = alt.Y("order:O", axis=None, scale=alt.Scale(paddingInner=0, paddingOuter=0, domain=list(range(len(runs)))))
    tooltip = [alt.Tooltip("label:N", title="Run"), alt.Tooltip("detail:N", title="Came to")]
    bars = (
        alt.Chart(Rows(values=parts))
        .mark_bar(height=10, yOffset=9, stroke=ink.ground, strokeWidth=1)
        .encode(
            x=alt.X(
                "start:Q",
                scale=alt.Scale(domain=[0, 100], nice=False),
                axis=axis_of("share of the run's rows, %", ink, None),
            ),
            x2=alt.X2("end:Q"),
            y=y,
            tooltip=tooltip,
            color=alt.Color(
                "verdict:N",
                scale=alt.Scale(domain=list(names.values()), range=list(colours.values())),
                legend=alt.Legend(orient="bottom", title=None, values=present, labelFontSize=12, columns=4),
            ),
        )
    )
    text = alt.Chart(Rows(values=lines)).encode(y=y, tooltip=tooltip)
    look: dict[str, Any] = {"baseline": "middle", "dy": -9, "fontSize": _FONT, "color": ink.text}
    limit = alt.ExprRef(f"width < {NARROW} ? width - 92 : width - 230")
    names_of_runs = text.mark_text(align="left", limit=limit, **look).encode(x=alt.XValue(0), text=alt.Text("label:N"))
    # Where there is no room for all figures, the share of valid rows stands alone.
    figures = [
        text.mark_text(align="right", fontWeight=600, opacity=alt.ExprRef(shown), **look).encode(
            x=alt.XValue("width"), text=alt.Text(f"{field}:N")
        )
        for field, shown in (("text", f"width < {NARROW} ? 0 : 1"), ("brief", f"width < {NARROW} ? 1 : 0"))
    ]
    height = ROW_HEIGHT * max(len(lines), 1) + (0 if picture else LEGEND)
    return finish(alt.layer(bars, names_of_runs, *figures), height=height, theme=theme, picture=picture)


def _parts(run: Mapping[str, Any], order: int, names: Mapping[str, str]) -> list[dict[str, Any]]:
    total, at, parts = sum(run["counts"].values()), 0.0, []
    for name, count in run["counts"].items():
        if count:
            end = at + 100 * count / total
            parts.append(
                {
                    "order": order,
                    "verdict": names[name],
                    "start": at,
                    "end": end,
                    "label": run["label"],
                    "detail": run["detail"],
                }
            )
            at = end
    return parts
