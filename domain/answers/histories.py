"""Answers about histories: reports of what changed in each, and alerts."""

from __future__ import annotations

import msgspec

from domain.history.alerts import Alert
from domain.history.history import HistoryReport

__all__ = ["AlertList", "HistoryReports"]


class HistoryReports(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/regressions/history`: the reports of histories, those with confirmed changes for the worse first.

    `histories` is how many were examined; `reports` has those with a change or a suspect newest point, or all that were named.
    """

    position: int
    histories: int
    reports: list[HistoryReport]


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/alerts`: alerts, the worst first, and how many there are in each state."""

    position: int
    alerts: list[Alert]
    counts: dict[str, int]
