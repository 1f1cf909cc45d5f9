"""One configuration's history of one figure or test, and the changes that were found in it.

A history goes on across versions of the runtime, drivers, libraries and machines of one kind: a change of these is a
candidate cause of a change of the figure, not the end of its history.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

__all__ = ["Cause", "Change", "History", "HistoryReport", "Level", "Point"]


class Point(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of a history: a figure in its unit, or of a test 1 where it passed and 0 where it did not.

    `doubts` are the reasons why its row is suspect. `environment` is a fingerprint; `runtime` a name with its version.
    `branch`, `commit` and `pull_request` are those of the run, where it says so. `unit` and `subject` (what was measured, in
    any form that is equal for equal things) are those of its row; a point whose row says otherwise than the history is set aside.
    """

    event_id: str
    position: int
    value: float
    time: datetime | None = None
    recorded_at: datetime | None = None
    low: float | None = None
    high: float | None = None
    doubts: list[str] = []
    outcome: str | None = None
    run_id: str | None = None
    runtime: str | None = None
    environment: str | None = None
    machine: str | None = None
    branch: str | None = None
    commit: str | None = None
    pull_request: str | None = None
    unit: str | None = None
    subject: str | None = None


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The points of one metric of what `alike` names, in the order of time; `environments` by fingerprint.

    `metric` is a column of `domain.figures.FIGURES`, or the name of a test where `kind` is functional.
    `bench` are the words of `assay bench` for sizes and threads. `restarts` are events at which an expected change begins a new level. `context` are points of pull requests: they are
    shown, and confirm nothing.
    """

    alike: str
    title: str
    model: str
    hardware: str
    platform: str
    precision: str | None
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    points: list[Point]
    kind: Literal["performance", "functional"] = "performance"
    configuration: str | None = None
    mode: str | None = None
    batch_size: int | None = None
    bench: list[str] = []
    subject: str | None = None
    environments: dict[str, dict[str, Any]] = {}
    restarts: list[str] = []
    context: list[Point] = []


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the environment, the runtime or the code that changed within the range of a change."""

    part: str
    before: str | None
    after: str | None


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A confirmed change: after the event `first` and no later than the event `last`; `confirmed_by` is the event that made it certain.

    `id` names the change: the same history with more points gives the same id. `change` is after over before less one,
    `low` to `high` its 95 % interval. `level` is the first event of the new level: where the change is expected, the history
    restarts there. `evidence_before` and `evidence_after` are events on both sides, nearest first.
    `votes` names the detectors that found it. `doubts` are kinds of doubt that most rows on both sides have,
    `bench` the words of `assay bench` for sizes and threads.
    """

    id: str
    alike: str
    title: str
    model: str
    hardware: str
    platform: str
    precision: str | None
    metric: str
    unit: str
    kind: Literal["step", "drift", "functional"]
    state: Literal["worse", "better"]
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    first: str
    last: str
    confirmed_by: str
    level: str | None = None
    first_time: datetime | None = None
    last_time: datetime | None = None
    versions: tuple[str | None, str | None] = (None, None)
    commits: tuple[str | None, str | None] = (None, None)
    causes: list[Cause] = []
    evidence_before: list[str] = []
    evidence_after: list[str] = []
    votes: list[str] = []
    doubts: list[str] = []
    bench: list[str] = []
    configuration: str | None = None
    mode: str | None = None
    batch_size: int | None = None


class Level(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of a history between changes: its first and last event, and its value with a 95 % interval of new points."""

    first: str
    last: str
    value: float
    low: float
    high: float
    points: int


class HistoryReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found in a history: confirmed changes in the order of time, levels, and suspect points by their events."""

    alike: str
    title: str
    model: str
    hardware: str
    platform: str
    precision: str | None
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    kind: Literal["performance", "functional"]
    points: int
    changes: list[Change] = []
    levels: list[Level] = []
    suspect: list[str] = []
    warnings: list[str] = []
    configuration: str | None = None
    mode: str | None = None
    batch_size: int | None = None
