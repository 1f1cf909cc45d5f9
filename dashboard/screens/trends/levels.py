"""Levels of a history: confirmed changes in place of steps from point to point, and how levels, ranges and suspect points are drawn.

Where the history of a lane has levels, its changes are those that the detector confirmed, the ones that raise alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashboard.screens.trends.words import Lane, segmented
from domain.history.history import Change, HistoryReport
from presentation import formatting
from presentation.alert_words import cause_words, distinct_causes
from presentation.palette import Ink

__all__ = ["examined", "layers", "level_words", "origin_of", "outside"]

Member = dict[str, Any]
_TOP = 20
"""Pixels from the top of a picture where the shade of a range begins."""


def examined(lanes: Sequence[Lane], reports: Sequence[HistoryReport], alerts: Mapping[str, str]) -> list[Lane]:
    """Return the lanes with what was found in their histories; `alerts` are the ids of alerts by their changes."""
    # Of the median and the mean of a latency the one that more points have, as a rule both; then the median, of which alerts are.
    order = sorted(reports, key=lambda report: (report.points, report.metric == "latency_p50_ms"))
    best = {report.alike: report for report in order if report.levels}
    return [_with(lane, best[lane.alike], alerts) if lane.alike in best else lane for lane in lanes]


def origin_of(lane: Lane) -> str:
    """Return whose points the history of a lane is of: our own where there are any."""
    return "measured" if any(point["origin"] == "measured" for point in lane.points) else "imported"


def _with(lane: Lane, report: HistoryReport, alerts: Mapping[str, str]) -> Lane:
    steps = {change.level or change.last: _step(change, alerts.get(change.id)) for change in report.changes}
    points = segmented([{**point, "step": steps.get(point["event_id"])} for point in lane.points])
    return lane._replace(points=points, report=report)


def _step(change: Change, alert: str | None) -> Member:
    """Return a confirmed change as the step of the first point of its new level."""
    return {
        "state": change.state,
        "change": change.change,
        "low": change.low,
        "high": change.high,
        "from": change.first,
        "before": change.before,
        "after": change.after,
        "causes": " · ".join(cause_words(cause) for cause in distinct_causes(change.causes)[:3]) or None,
        "alert": alert,
    }


def outside(lane: Lane) -> frozenset[str]:
    """Return the events of the suspect points: outside what their level predicts, and part of no confirmed change."""
    return frozenset(lane.report.suspect) if lane.report else frozenset()


def level_words(lane: Lane, scale: formatting.Scale) -> dict[str, str]:
    """Say of each point that is in a level, by its event, what the level is and where new points are expected."""
    words = {}
    for stretch, level in _stretches(lane):
        said = f"{scale.show(level.value, level.low, level.high)}, 95 % of new points"
        words.update({point["event_id"]: said for point in stretch})
    for event in outside(lane):
        words[event] = f"suspect, outside of {words[event]}" if event in words else "suspect"
    return words


def _stretches(lane: Lane) -> list[tuple[list[Any], Any]]:
    """Return the points of each level in the order of time; of a level that begins or ends beyond what is shown, those that are."""
    if lane.report is None:
        return []
    points = [point for point in lane.points if point["segment"] is not None]
    places = {point["event_id"]: place for place, point in enumerate(points)}
    stretches = []
    for number, level in enumerate(lane.report.levels):
        last_one = number == len(lane.report.levels) - 1
        first, last = places.get(level.first), places.get(level.last, len(points) - 1 if last_one else None)
        if last is not None and (first is not None or level.last in places):
            stretches.append((points[first or 0 : last + 1], level))
    return stretches


def layers(
    lane: Lane, scale: formatting.Scale, mark: Callable[[Any], Member], y: Member, ink: Ink, low: float
) -> list[Member]:
    """Return a segment for each level with the band in which new points are expected, and a shade over the range of each change.

    `mark` gives what a point has across (`at` or `place`), `y` the vertical scale, and `low` the pixel at which the picture ends.
    """
    # A mark with two ends across has its scale read a second time, of which the browser warns: both ends are rows of one line.
    ends = [
        {**mark(point), "nth": nth, **_sizes(level, scale)}
        for nth, (stretch, level) in enumerate(_stretches(lane))
        for point in (stretch[0], stretch[-1])
        if len(stretch) > 1
    ]
    by_event = {point["event_id"]: point for point in lane.points}
    ranges = [
        {**mark(by_event[event]), "nth": nth}
        for nth, change in enumerate(lane.report.changes if lane.report else [])
        for event in (change.first, change.last)
        if change.first in by_event and change.last in by_event
    ]
    made = []
    if ranges:
        heights = {"y": {"value": _TOP}, "y2": {"value": low}}
        made.append(_layer({"type": "area", "color": ink.muted, "opacity": 0.2}, ranges, heights))
    if ends:
        band = {"y": {"field": "low", **y}, "y2": {"field": "high"}}
        made.append(_layer({"type": "area", "color": ink.muted, "opacity": 0.12}, ends, band))
        line = {"type": "line", "strokeWidth": 1.5, "color": ink.text, "opacity": 0.8}
        made.append(_layer(line, ends, {"y": {"field": "value", **y}}))
    return made


def _layer(mark: Member, rows: list[Member], encoding: Member) -> Member:
    data: Member = {"values": rows}
    if "at" in rows[0]:
        data["format"] = {"parse": {"at": "date"}}
    return {"mark": mark, "data": data, "encoding": {**encoding, "detail": {"field": "nth", "type": "nominal"}}}


def _sizes(level: Any, scale: formatting.Scale) -> Member:
    return {"value": scale.of(level.value), "low": scale.of(level.low), "high": scale.of(level.high)}
