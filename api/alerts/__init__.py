"""Alerts: the watch over histories that raises and withdraws them, and their delivery to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from domain.history.alerts import Alert

__all__ = ["OnAlert"]


class OnAlert(Protocol):
    """Called once an event about an alert is in the log, in a thread, with the alert as it is after it and the event's id.

    It may be called again with the same event after a restart and must then do nothing. What it raises is logged and called
    again with the next look.
    """

    def __call__(self, alert: Alert, event_id: str) -> None:
        """Take an alert that an event raised, extended or gave another state."""
