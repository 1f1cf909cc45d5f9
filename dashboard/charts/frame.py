"""What is around the marks of every chart: its size, its ground, and how many marks it may have."""

from __future__ import annotations

from functools import partial

import altair as alt

from dashboard.palette import INKS, Theme

__all__ = ["MAX_MARKS", "finish", "refuse_too_many"]

MAX_MARKS = 2000
AROUND = 74
"""Pixels that axis, title and legend need."""


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
