"""Alerts from the tables: the list of them, the worst first, and each as a struct."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers.histories import AlertList
from domain.errors import NotFound, UsageError
from domain.history.alerts import OPEN, STATES, Alert, State, StateChange
from domain.history.history import Cause, Change
from ingest.projection import Tables

__all__ = ["LEAST_PREFIX", "alert_list", "alert_of", "alerts_by_id", "find_alert"]

LEAST_PREFIX = 4
"""So many letters of an id may stand for it where no other alert begins so."""
_BRIEF = ("alert", "state", "direction", "severity", "models", "hardware", "position")
Row = Mapping[str, Any]


def alert_list(
    tables: Tables,
    *,
    states: Sequence[State] = (),
    model: str | None = None,
    hardware: str | None = None,
    direction: str | None = None,
    limit: int = 100,
) -> AlertList:
    """Return the alerts that are open first, then the worse before the better, the largest change first.

    `counts` has those of each state that the other filters choose, beyond the limit too.
    """
    model = model and tables.resolve_model(model)
    hardware = hardware and tables.resolve_hardware(hardware)
    rows = [
        row
        for row in tables.alerts(columns=_BRIEF).to_pylist()
        if (model is None or model in row["models"])
        and (hardware is None or hardware in row["hardware"])
        and (direction is None or direction == row["direction"])
    ]
    counts = Counter(row["state"] for row in rows)
    chosen = sorted((row for row in rows if not states or row["state"] in states), key=_urgency)[:limit]
    alerts = alerts_by_id(tables, [row["alert"] for row in chosen])
    return AlertList(
        position=tables.position,
        alerts=[alerts[row["alert"]] for row in chosen],
        counts={state: counts[state] for state in STATES if counts[state]},
    )


def alerts_by_id(tables: Tables, identifiers: Sequence[str]) -> dict[str, Alert]:
    """Return the alerts of these ids that there are."""
    if not identifiers:
        return {}
    return {row["alert"]: alert_of(row) for row in tables.alerts(alert=list(identifiers)).to_pylist()}


def find_alert(tables: Tables, identifier: str) -> tuple[Alert, int]:
    """Return the alert of an id, or of the beginning of one, and the position of the newest event about it.

    NotFound without one, UsageError where several begin so.
    """
    wanted = identifier.lower()
    names = [row["alert"] for row in tables.alerts(columns=["alert"]).to_pylist()]
    chosen = [name for name in names if name == wanted or (len(wanted) >= LEAST_PREFIX and name.startswith(wanted))]
    if not chosen:
        raise NotFound(f"no alert is called {identifier!r}.", field="alert", remedy="`assay alerts list` names them.")
    if len(chosen) > 1:
        raise UsageError(
            f"{len(chosen)} alerts begin with {identifier!r}.", field="alert", remedy="Give more letters of the id."
        )
    (row,) = tables.alerts(alert=chosen[0]).to_pylist()
    return alert_of(row), int(row["last_position"])


def alert_of(row: Row) -> Alert:
    """Return an alert from its row of the view `alerts`."""
    return Alert(
        id=row["alert"],
        title=row["title"],
        direction=row["direction"],
        kind=row["kind"],
        state=row["state"],
        changes=msgspec.json.decode(row["changes"], type=list[Change]),
        cause=msgspec.json.decode(row["cause"], type=Cause) if row["cause"] else None,
        raised_at=row["recorded_at"],
        position=row["position"],
        states=msgspec.json.decode(row["states"], type=list[StateChange]),
        event_ids=list(row["event_ids"]),
    )


def _urgency(row: Row) -> tuple[bool, bool, float, int]:
    weight = row["severity"] if row["severity"] is not None else 0.0
    return (
        row["state"] not in OPEN,
        row["direction"] != "worse",
        -math.inf if math.isinf(weight) else -weight,
        -row["position"],
    )
