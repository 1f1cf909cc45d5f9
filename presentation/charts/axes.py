"""Axes and their scales: linear, or logarithmic where the values range far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from presentation.palette import Ink

__all__ = ["axis", "axis_of", "may_be_log", "needs_log", "reach_of", "scale_of"]

LOG_FROM_RANGE = 20.0


def needs_log(values: Sequence[float]) -> bool:
    """Say whether values range so far (over 20 times) that a linear axis would hide the small ones."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) / min(positive) > LOG_FROM_RANGE


def scale_of(ends: Sequence[float], logarithmic: bool) -> alt.Scale:
    """Return a horizontal scale that reaches all the ends; a linear one begins at 0."""
    return alt.Scale(**reach_of(ends, logarithmic))


def reach_of(ends: Sequence[float], logarithmic: bool) -> dict[str, Any]:
    """Return the same scale as it is sent."""
    if not ends:
        return {"domain": [0, 1]}
    if logarithmic:
        return {"type": "log", "domain": [min(ends) / 1.2, max(ends) * 1.2], "nice": False}
    return {"domain": [min(0.0, *ends), max(ends) * 1.05], "nice": False}


def may_be_log(ends: Sequence[float], request: bool | None) -> bool:
    """Say whether an axis is logarithmic: as asked, or by the range; never where a value is not positive."""
    if not ends or min(ends) <= 0:
        return False
    return needs_log(ends) if request is None else request


def axis_of(title: str, ink: Ink, log_ends: Sequence[float] | None) -> alt.Axis:
    """Return an axis in a theme's ink; `log_ends` are the ends that a logarithmic one has to reach."""
    return alt.Axis(**axis(title, ink, log_ends))


def axis(title: str, ink: Ink, log_ends: Sequence[float] | None = None, **look: Any) -> dict[str, Any]:
    """Return the same axis as it is sent; `look` is what it has otherwise."""
    places = {"values": _log_ticks(min(log_ends), max(log_ends))} if log_ends else {"tickCount": 5}
    return {
        "title": title,
        "format": ",~r",
        "grid": True,
        "gridColor": ink.grid,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "labelColor": ink.muted,
        "titleColor": ink.muted,
        "titleAnchor": "start",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelFlush": True,
        "labelSeparation": 4,
        **places,
        **look,
    }


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1-2-5 steps over the range, finer ones where it is narrow, or whole decades where it is wide."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    span = math.log10(high / low)
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if span < 0.5 else (1, 2, 5) if span < 2.5 else (1,)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [tick for tick in ticks if low / 1.2 <= tick <= high * 1.2]
