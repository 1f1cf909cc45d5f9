"""A day of the service: events that the log took, and how far the tables were behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any

import altair as alt

from presentation import formatting
from presentation.charts.axes import axis_of
from presentation.charts.frame import Rows, finish, refuse_too_many
from presentation.palette import INKS, SEQUENTIAL, Theme

__all__ = ["lag", "throughput"]

Row = Mapping[str, Any]
HEIGHT = 150
TICK_MS = 3 * 3600 * 1000
GAP = timedelta(seconds=90)
"""Two minutes that are further apart than this are not joined: nobody looked between them."""


def throughput(
    steps: Sequence[Row], step_s: int, *, zone: tzinfo | None = None, theme: Theme | None = None, picture: bool = False
) -> alt.LayerChart:
    """Draw a bar a step: events a second, its mean over the step. `steps` have `at` and `events`, without a gap."""
    width = timedelta(seconds=step_s)
    drawn = [
        {
            "from": _clock(step["at"], zone),
            "to": _clock(step["at"], zone, width),
            "y": step["events"] / step_s,
            "zero": 0,
            "detail": f"{formatting.count(step['events'])} events in {step_s // 60} min from {_said(step['at'], zone)}: "
            f"{formatting.throughput(step['events'] / step_s)}",
        }
        for step in steps
    ]
    refuse_too_many(len(drawn))
    highest = max((item["y"] for item in drawn), default=0.0)
    y = _y("events a second", highest, theme)
    bars = (
        alt.Chart(Rows(values=drawn))
        .mark_rect(color=_colour(theme))
        .encode(
            x=_x("from", steps, step_s, zone, theme),
            x2=alt.X2("to:Q"),
            y=y,
            y2=alt.Y2("zero:Q"),
            tooltip=alt.Tooltip("detail:N", title="Log"),
        )
    )
    return finish(alt.layer(bars), height=HEIGHT, theme=theme, picture=picture)


def lag(
    minutes: Sequence[Row],
    steps: Sequence[Row],
    step_s: int,
    *,
    zone: tzinfo | None = None,
    theme: Theme | None = None,
    picture: bool = False,
) -> alt.LayerChart:
    """Draw the largest lag of each minute over the same hours as the throughput; a line breaks where nobody looked."""
    drawn = [
        {
            "at": _clock(minute["at"], zone),
            "y": minute["lag_events"],
            "piece": piece,
            "detail": f"{formatting.count(minute['lag_events'])} events behind at the most, in the minute from {_said(minute['at'], zone)}",
        }
        for minute, piece in _pieces(minutes)
    ]
    refuse_too_many(len(drawn))
    y = _y("events behind", max((item["y"] for item in drawn), default=0), theme)
    base = alt.Chart(Rows(values=drawn)).encode(
        x=_x("at", steps, step_s, zone, theme), y=y, tooltip=alt.Tooltip("detail:N", title="Tables")
    )
    line = base.mark_line(color=_colour(theme), strokeWidth=2, interpolate="step-after").encode(
        detail=alt.Detail("piece:N")
    )
    layers = [line, base.mark_point(color=_colour(theme), filled=True, size=14, opacity=1)]
    return finish(alt.layer(*layers), height=HEIGHT, theme=theme, picture=picture)


def _pieces(minutes: Sequence[Row]) -> list[tuple[Row, int]]:
    """Number the stretches of minutes that follow each other; a minute without a value ends one."""
    matching_minutes = [minute for minute in minutes if minute["lag_events"] is not None]
    if not matching_minutes:
        return []
    pieces, piece = [(matching_minutes[0], 0)], 0
    for before, minute in pairwise(matching_minutes):
        piece += _moment(minute["at"]) - _moment(before["at"]) > GAP
        pieces.append((minute, piece))
    return pieces


def _y(title: str, highest: float, theme: Theme | None) -> alt.Y:
    axis = axis_of(title, INKS[theme], None)
    # Both charts of a day begin at the same place, so that an hour stands above itself.
    axis.minExtent = 52
    axis.tickMinStep = 1 if highest < 5 else alt.Undefined
    return alt.Y("y:Q", axis=axis, scale=alt.Scale(domain=[0, highest * 1.05 or 1], nice=False))


def _x(field: str, steps: Sequence[Row], step_s: int, zone: tzinfo | None, theme: Theme | None) -> alt.X:
    ink = INKS[theme]
    named = _moment(steps[-1]["at"]).astimezone(zone or UTC).tzname()
    ends = [_clock(steps[0]["at"], zone), _clock(steps[-1]["at"], zone, timedelta(seconds=step_s))]
    # Numbers that are written as times: as times, two layers would each bring a domain of their own.
    hours = [at for at in range(ends[0] - ends[0] % TICK_MS, ends[1] + 1, TICK_MS) if at >= ends[0]]
    return alt.X(
        f"{field}:Q",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(
            title=f"time of recording, {named}",
            labelExpr="utcFormat(datum.value, '%H:%M')",
            values=hours,
            grid=False,
            domain=False,
            ticks=False,
            labelColor=ink.muted,
            titleColor=ink.muted,
            titleAnchor="start",
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelFlush=True,
            labelPadding=6,
            labelOverlap=True,
        ),
    )


def _colour(theme: Theme | None) -> str:
    """Return the one colour of a chart that is of no platform."""
    return SEQUENTIAL[theme or "light"][6]


def _moment(at: str | datetime) -> datetime:
    return at if isinstance(at, datetime) else datetime.fromisoformat(at)


def _clock(at: str | datetime, zone: tzinfo | None, later: timedelta = timedelta()) -> int:
    """Return what a clock on the viewer's wall shows, in ms as if it were UTC: drawn the same wherever a chart is drawn."""
    shown = (_moment(at) + later).astimezone(zone or UTC).replace(tzinfo=UTC)
    return int(shown.timestamp() * 1000)


def _said(at: str | datetime, zone: tzinfo | None) -> str:
    return f"{_moment(at).astimezone(zone or UTC):%H:%M}"
