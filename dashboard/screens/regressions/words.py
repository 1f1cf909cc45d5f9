"""Alerts in sentences and rows: what got worse, by how much, where, since when and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any
from urllib.parse import urlencode

import msgspec

from dashboard import evidence
from dashboard.address import Params, Read, one_of, parameters, position, text, understood
from dashboard.screens.trends.words import METRICS, Lane, change_words, key_of, metric_of, scale_for
from dashboard.tables.result_table import Column, filled
from domain.history.alerts import OPEN, STATES, Alert, State, severity
from domain.history.history import Change, HistoryReport
from presentation import formatting
from presentation.alert_words import cause_words
from presentation.answer_words import device_name, model_name

__all__ = [
    "DIRECTIONS",
    "OFFERED",
    "PAGE",
    "STATE_MARKS",
    "Triage",
    "alert_columns",
    "change_sizes",
    "configuration",
    "evidence_columns",
    "figure",
    "heading",
    "number_of",
    "range_words",
    "read_triage",
    "scope",
    "sentence",
    "state_columns",
    "states_of",
    "suspect_columns",
    "trend_path",
]

PAGE = "regressions"
DIRECTIONS = {"worse": "Worse", "better": "Better", "all": "Both"}
OFFERED = ("open", "all", *STATES)
"""What the state's filter offers; `open` is what somebody still has to do something about."""
STATE_MARKS: Mapping[State, str] = {
    "new": "orange",
    "acknowledged": "blue",
    "expected": "gray",
    "fixed": "gray",
    "false": "gray",
    "withdrawn": "gray",
}
_NOUNS = {"worse": "regression", "better": "improvement", "all": "change"}


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows: alerts of a state, direction, model and hardware; `alert` is open, the worst one without it.

    `change` is the change of that alert whose history is drawn, the largest one without it.
    """

    state: str = "open"
    direction: str = "worse"
    model: str = ""
    hw: str = ""
    alert: str = ""
    change: str = ""
    as_of: int | None = None


def read_triage(params: Params) -> Read:
    """Read the page's parameters."""
    readers = {
        "state": one_of(OFFERED),
        "direction": one_of(DIRECTIONS),
        **dict.fromkeys(("model", "hw", "alert", "change"), text),
        "as_of": position,
    }
    return understood(Triage, params, readers)


def states_of(triage: Triage) -> tuple[State, ...]:
    """Return the states that are asked for; none stands for all."""
    if triage.state == "open":
        return OPEN
    return tuple(state for state in STATES if state == triage.state)


def number_of(counts: Mapping[str, int], triage: Triage) -> int:
    """Return how many alerts there are in the states that are asked for."""
    states = states_of(triage)
    return sum(number for state, number in counts.items() if not states or state in states)


def sentence(counts: Mapping[str, int], triage: Triage) -> str:
    """Return the answer in words: how many alerts are open, and how many of them nobody has looked at."""
    noun = _NOUNS[triage.direction]
    number = sum(counts.get(state, 0) for state in OPEN)
    if not number:
        return f"No {noun} is open."
    new = counts.get("new", 0)
    many = f"1 {noun} is" if number == 1 else f"{formatting.count(number)} {noun}s are"
    if number == 1:
        return f"{many} open and {'new' if new else 'acknowledged'}."
    return f"{many} open, {'all' if new == number else formatting.count(new) if new else 'none'} of them new."


def figure(change: Change) -> str:
    """Return what a change is of: a metric as the pages call it, or the name of a test."""
    metric = metric_of(change.metric)
    return "Measuring" if change.metric == "measuring" else METRICS.get(metric, change.metric)


def change_sizes(change: Change, *, interval: bool = True) -> str:
    """Write a change by its size and direction: `▼ 16 % longer (15–17 %)`, `▼ fails`."""
    if change.kind == "functional":
        return "▼ fails" if change.state == "worse" else "▲ passes"
    return change_words(msgspec.structs.asdict(change), metric_of(change.metric), interval=interval)


def configuration(change: Change) -> str:
    """Return what was measured: model, device, software, precision and batch."""
    batch = f"batch {change.batch_size}" if change.batch_size else None
    mode = change.mode if change.mode != "inference" else None
    parts = (model_name(change.model), device_name(change.hardware), change.platform, change.precision, batch, mode)
    return " · ".join(part for part in parts if part)


def scope(alert: Alert) -> str:
    """Say in how many configurations something changed: the one itself, or their number with that of the models."""
    changes = alert.changes
    configurations = {change.alike for change in changes}
    if len(configurations) == 1:
        return configuration(changes[0])
    models = sorted({change.model for change in changes})
    of = model_name(models[0]) if len(models) == 1 else f"{len(models)} models"
    return f"{len(configurations)} configurations of {of} · {device_name(changes[0].hardware)}"


def heading(alert: Alert) -> str:
    """Return what happened in a line: the largest change, and where."""
    worst = alert.changes[0]
    up_to = "up to " if len(alert.changes) > 1 and worst.kind != "functional" else ""
    size = change_sizes(worst, interval=False)
    glyph, _, words = size.partition(" ")
    what = f"Test {worst.metric}" if worst.kind == "functional" and worst.metric != "measuring" else figure(worst)
    return f"{glyph} {what} {up_to}{words}: {scope(alert)}"


def alert_columns(alerts: Sequence[Alert], triage: Triage, zone: tzinfo | None) -> list[Column]:
    """Return alerts as the columns of a table; a name opens its alert with the same filters."""
    worst = [alert.changes[0] for alert in alerts]
    links = [_opened(triage, alert.id) for alert in alerts]
    signs = {"worse": 1.0, "better": -1.0}
    return filled(
        [
            Column(head="What", values=[scope(alert) for alert in alerts], links=links),
            Column(
                head="Change",
                values=[signs[change.state] * min(severity(change), 1e9) for change in worst],
                shown=[change_sizes(change) for change in worst],
                help="Of the largest change, with its 95 % interval.",
            ),
            Column(head="Figure", values=[_figures(alert) for alert in alerts]),
            Column(head="State", values=[alert.state for alert in alerts]),
            Column(
                head="Since",
                values=[_moment(change) for change in worst],
                shown=[formatting.date(change.last_time, zone) for change in worst],
            ),
            Column(
                head="Candidate cause", values=[cause_words(alert.cause) if alert.cause else None for alert in alerts]
            ),
            Column(head="Owner", values=[", ".join(alert.owners) or None for alert in alerts]),
        ]
    )


def _opened(triage: Triage, alert: str) -> str:
    view = msgspec.structs.replace(triage, alert=alert, change="")
    return f"{PAGE}?{urlencode(parameters(view), doseq=True)}"


def _figures(alert: Alert) -> str:
    names = list(dict.fromkeys(figure(change) for change in alert.changes))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _moment(change: Change) -> str | None:
    return change.last_time.isoformat() if change.last_time else None


def range_words(change: Change, zone: tzinfo | None) -> str:
    """Say in which range a change happened: between which times, and at which software."""
    times = [
        formatting.when(moment, zone) if moment else formatting.MISSING
        for moment in (change.first_time, change.last_time)
    ]
    words = f"After {times[0]} and no later than {times[1]}"
    ends = [end for end in change.versions if end]
    commits = [commit[:12] for commit in change.commits if commit]
    if len(ends) == 2 and ends[0] != ends[1]:
        words += f", from {ends[0]} to {ends[1]}"
    if len(commits) == 2 and commits[0] != commits[1]:
        words += f", commits {commits[0]} to {commits[1]}"
    return f"{words}."


def trend_path(change: Change) -> str | None:
    """Return the address of a change's whole history; None for a test, which Trends does not draw."""
    metric = metric_of(change.metric)
    if change.kind == "functional" or metric not in METRICS:
        return None
    return f"trends?{urlencode({'model': change.model, 'metric': metric, 'rows': key_of(change.alike)}, safe='/')}"


def evidence_columns(
    change: Change, lane: Lane | None, outcomes: Mapping[str, Mapping[str, Any]], zone: tzinfo | None
) -> list[Column]:
    """Return the events on both sides of a change in the order of time, each with its value or outcome and its page."""
    sides = [(event, "before") for event in reversed(change.evidence_before)]
    sides += [(event, "after") for event in change.evidence_after]
    points = {point["event_id"]: point for point in lane.points} if lane else {}
    rows = [points.get(event) or outcomes.get(event) or {} for event, _ in sides]
    scale = scale_for(metric_of(change.metric), [point["value"] for point in points.values()])
    values = [
        scale.show(row["value"], row["low"], row["high"]) if "value" in row else row.get("outcome") for row in rows
    ]
    columns = [
        Column(head="Side", values=[side for _, side in sides]),
        Column(head=figure(change), values=values),
        Column(
            head="Measured",
            values=[str(row["time"]) if row.get("time") else None for row in rows],
            shown=[formatting.when(row["time"], zone) if row.get("time") else formatting.MISSING for row in rows],
        ),
        Column(head="Software", values=[_software(row) for row in rows]),
        Column(head="Verdict", values=[row.get("verdict") for row in rows]),
        Column(head="Message", values=[row.get("message") for row in rows]),
        Column(
            head="Event",
            values=[event[-12:] for event, _ in sides],
            links=[evidence.row_path(event) for event, _ in sides],
        ),
    ]
    return filled(columns)


def _software(row: Mapping[str, Any]) -> str | None:
    return " ".join(str(part) for part in (row.get("runtime"), row.get("runtime_version")) if part) or None


def state_columns(alert: Alert, zone: tzinfo | None) -> list[Column]:
    """Return the states that an alert was given, the newest first."""
    given = list(reversed(alert.states))
    return filled(
        [
            Column(head="State", values=[item.state for item in given]),
            Column(head="By", values=[item.author for item in given]),
            Column(
                head="When",
                values=[item.time.isoformat() if item.time else None for item in given],
                shown=[formatting.when(item.time, zone) for item in given],
            ),
            Column(head="Reason", values=[item.reason for item in given]),
        ]
    )


def suspect_columns(reports: Sequence[HistoryReport]) -> list[Column]:
    """Return histories with suspect points: what, of which figure, how many points, and the newest of them."""
    metrics = [metric_of(report.metric) for report in reports]
    paths = [
        f"trends?{urlencode({'model': report.model, 'metric': metric, 'rows': key_of(report.alike)}, safe='/')}"
        if metric in METRICS
        else None
        for metric, report in zip(metrics, reports, strict=True)
    ]
    names = [METRICS.get(metric, report.metric) for metric, report in zip(metrics, reports, strict=True)]
    return [
        Column(head="Configuration", values=[report.title for report in reports], links=paths),
        Column(head="Figure", values=names),
        Column(head="Suspect points", values=[len(report.suspect) for report in reports]),
        Column(
            head="Newest",
            values=[report.suspect[-1][-12:] for report in reports],
            links=[evidence.row_path(report.suspect[-1]) for report in reports],
        ),
    ]
