"""What the Regressions page asks: alerts, one of them, its history, and suspect points; and the state that an operator gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.screens.trends import levels
from dashboard.screens.trends import query as trends_query
from dashboard.screens.trends import words as history
from dashboard.screens.trends.words import METRICS, Lane
from dashboard.service import client, kept, probe_again
from domain.answers.histories import AlertList
from domain.errors import Forbidden
from domain.history.alerts import Alert, State
from domain.history.history import Change, HistoryReport

__all__ = ["LISTED", "alert", "alerts", "followed", "give_state", "new_regressions", "outcomes", "suspects"]

LISTED = 200
"""Alerts that are listed, the worst first."""
_OUTCOMES = """
SELECT event_id, time, outcome, message, concat_ws(' ', runtime_name, runtime_version) AS runtime
FROM outcomes WHERE event_id IN ({events})
UNION ALL SELECT event_id, time, 'measured', NULL, concat_ws(' ', runtime_name, runtime_version)
FROM measurements WHERE event_id IN ({events})
"""
_COLUMNS = ("event_id", "time", "outcome", "message", "runtime")


@kept(max_entries=32)
def alerts(
    position: int, states: Sequence[State], direction: str | None, model: str | None, hardware: str | None
) -> AlertList:
    """Return the alerts that these choose, open ones and the worst first; LISTED at most."""
    found: AlertList = client().alerts(
        state=states or None,
        direction=direction,  # type: ignore[arg-type]
        model=model,
        hardware=hardware,
        limit=LISTED,
        as_of=position,
    )
    return found


def new_regressions(position: int) -> int:
    """Return how many alerts for the worse nobody has looked at yet."""
    return alerts(position, (), "worse", None, None).counts.get("new", 0)


@kept(max_entries=32)
def alert(position: int, identifier: str) -> Alert:
    """Return one alert by its id or the first letters of it. Raises NotFound."""
    found: Alert = client().alert(identifier, as_of=position)
    return found


def give_state(identifier: str, state: State, reason: str | None, author: str | None) -> Alert:
    """Give an alert a state and return it as it is then. Raises Forbidden where the token may not append."""
    try:
        changed: Alert = client().set_alert_state(identifier, state, reason, author=author)
    except Forbidden as refused:
        raise Forbidden(
            "the token that this dashboard sends may read alerts and not change them.",
            field=refused.field,
            remedy="Start the dashboard with ASSAY_TOKEN, from `assay token create dashboard --scope read --scope append`.",
        ) from refused
    probe_again()
    return changed


def followed(change: Change, alert: str, position: int) -> Lane | None:
    """Return the history of a change as Trends draws it, with its levels; None where Trends has none of its figure."""
    metric = history.metric_of(change.metric)
    if change.kind == "functional" or metric not in METRICS:
        return None
    filters = {"hardware": change.hardware, "platform": change.platform, "precision": change.precision}
    question = {
        "model": change.model,
        "metric": metric,
        "top": 1,
        "limit": trends_query.POINTS,
        "points_top": 1,
        "points_of": [change.alike],
        **{name: [value] for name, value in filters.items() if value},
    }
    lines = trends_query.lines(question, position)["lines"]
    lane = next((lane for lane in history.lanes(lines) if lane.alike == change.alike), None)
    if lane is None:
        return None
    shown, _ = history.left_out(lane, history.Trend())
    reports = trends_query.reports(change.model, (change.alike,), (change.metric,), levels.origin_of(shown), position)
    return levels.examined([shown], reports, {change.id: alert})[0] if shown.points else None


@kept(max_entries=32)
def outcomes(events: Sequence[str], position: int) -> dict[str, dict[str, Any]]:
    """Return by event what became of attempts and tests; rows that are not there any more are left out."""
    if not events:
        return {}
    quoted = ", ".join("'" + event.replace("'", "''") + "'" for event in events)
    rows = client().query(_OUTCOMES.format(events=quoted), min_position=position)["rows"]
    return {str(row[0]): dict(zip(_COLUMNS, row, strict=True)) for row in rows}


@kept(max_entries=8)
def suspects(position: int, model: str | None, hardware: str | None) -> list[HistoryReport]:
    """Return the histories whose newest points are suspect: outside what is expected, and not yet a change."""
    answer = client().regression_history(model=model, hardware=hardware, as_of=position)
    return [
        report
        for report in answer.reports
        if report.suspect and report.levels and report.suspect[-1] == report.levels[-1].last
    ]
