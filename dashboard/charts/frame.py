"""What is around the marks of every chart: its size, its ground, and how many marks it may have."""

from __future__ import annotations

from functools import partial
from typing import Any

import altair as alt

from dashboard.palette import INKS, Ink, Theme

__all__ = ["MAX_MARKS", "Spec", "finish", "finished", "refuse_too_many"]

MAX_MARKS = 2000
AROUND = 74
"""Pixels that axis, title and legend need."""


class Spec:
    """A chart as the members of its Vega-Lite specification, with what files and reports ask of Altair's charts.

    Altair copies all data for each layer and channel: three charts of a dozen layers took half a second of processor, and take
    none where they are written as they are sent. Tests hold them against Vega-Lite's schema.
    """

    def __init__(self, **members: Any) -> None:
        self._members = members

    def properties(self, **more: Any) -> Spec:
        """Return the chart with these members in place of its own."""
        return Spec(**{**self._members, **more})

    def to_dict(self, validate: bool = False) -> dict[str, Any]:  # noqa: ARG002 - as Altair's charts have it
        """Return the specification, without members that are None."""
        return {name: value for name, value in self._members.items() if value is not None}


def finished(*, height: int, theme: Theme | None, picture: bool, **members: Any) -> Spec:
    """Return the chart of these members at its height in pixels: as wide as its page, or as a picture that stands alone."""
    if not picture:
        config = {"mark": {"aria": False}}
        return Spec(**{"config": config, "height": height + AROUND, "width": "container", **members})
    ink = INKS[theme or "light"]
    return Spec(
        **{"config": _worn(ink), "height": height, "width": 860, "background": ink.ground, "padding": 20, **members}
    )


def _worn(ink: Ink) -> dict[str, Any]:
    """Return how a picture that stands alone wears its title and legend."""
    title = {"color": ink.text, "subtitleColor": ink.muted, "anchor": "start", "fontSize": 16, "offset": 18}
    return {"view": {"stroke": None}, "legend": {"labelColor": ink.text}, "title": title}


def finish(chart: alt.LayerChart, *, height: int, theme: Theme | None, picture: bool) -> alt.LayerChart:
    """Return a chart at its height in pixels: as wide as its page, or as a picture that stands alone."""
    if not picture:
        # The page's chart has a name, and its rows stand in the table below: marks that are read out one by one say less.
        silent = chart.configure_mark(aria=False)
        # Streamlit fits axis and legend into the height that is named.
        drawn = silent.properties(height=height + AROUND, width="container")
        # Pictures are held against Vega-Lite's schema; on a page that took longer than all the rest of a chart.
        object.__setattr__(drawn, "to_dict", partial(drawn.to_dict, validate=False))
        return drawn
    ink = INKS[theme or "light"]
    return (
        chart.properties(height=height, width=860, background=ink.ground, padding=20)
        .configure_view(stroke=None)
        .configure_legend(labelColor=ink.text)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=18)
    )


def refuse_too_many(marks: int) -> None:
    """Raise ValueError beyond `MAX_MARKS`."""
    if marks > MAX_MARKS:
        raise ValueError(f"{marks} marks are more than the {MAX_MARKS} that a chart may have; show fewer rows")
