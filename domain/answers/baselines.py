"""Answers about named baselines: what runs of a branch are compared with."""

from __future__ import annotations

from datetime import datetime

import msgspec

from domain.payloads import BranchStart

__all__ = ["Baseline"]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A named baseline: the state of a branch at a position; `event_id` and `event_position` are those of the event that says so.

    `start` is where the branch started, `hardware` the only hardware that the baseline is for.
    """

    name: str
    branch: str
    position: int
    start: BranchStart | None
    hardware: str | None
    note: str | None
    time: datetime | None
    event_id: str
    event_position: int
