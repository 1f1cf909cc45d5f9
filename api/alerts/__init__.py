"""Alerts: the watch over histories that raises and withdraws them, and their delivery to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from domain.history.alerts import Alert

__all__ = ["OnAlerts"]


class OnAlerts(Protocol):
    """Called in a thread with what came of alerts since the last call: each alert as it is now, and the id of the event about it.

    An event raised the alert, added changes to it or gave it another state. After an interruption the same events may come
    again, and must then do nothing. What it raises is logged, and it is called again with the next look.
    """

    def __call__(self, alerts: Sequence[tuple[Alert, str]]) -> None:
        """Take alerts and the events about them, in the order of the log."""
