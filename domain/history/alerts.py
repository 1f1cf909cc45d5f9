"""Alerts: confirmed changes with a common cause, and the states that people give them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from domain.history.history import Cause, Change

__all__ = ["STATES", "Alert", "Reason", "State", "StateChange"]

State = Literal["new", "acknowledged", "expected", "fixed", "false", "withdrawn"]
STATES: tuple[State, ...] = ("new", "acknowledged", "expected", "fixed", "false", "withdrawn")
Reason = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=4000, pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$(?!\n)"),
]
"""One line of text that is not blank and has no control characters."""


class StateChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A state that an author gave an alert, with the reason."""

    state: State
    author: str
    reason: str | None = None
    time: datetime | None = None
    event_id: str | None = None


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert: changes of one direction that have a cause in common, the largest first; `event_ids` are those that raised it.

    `owners` are the names that the routes give its models and hardware.
    """

    id: str
    title: str
    direction: Literal["worse", "better"]
    kind: Literal["performance", "functional"]
    state: State
    changes: list[Change]
    cause: Cause | None = None
    raised_at: datetime | None = None
    position: int | None = None
    states: list[StateChange] = []
    event_ids: list[str] = []
    owners: list[str] = []
