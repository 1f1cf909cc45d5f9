"""The sides of a comparison: what was known at one time, at most one row a configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.figures import Figure

__all__ = ["RUNS_KEPT", "NewestMeasurement", "NewestOutcome", "Side", "merged"]

RUNS_KEPT = 10


class NewestMeasurement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest measurement of a configuration: `alike` names it without the runtime's version."""

    key: str
    alike: str
    title: str
    hardware: str
    origin: str
    event_id: str
    figures: dict[str, Figure]
    runtime: str | None = None
    environment: str | None = None
    model: str | None = None
    platform: str | None = None
    precision: str | None = None


class NewestOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest outcome of a test of a configuration; where `test` is None, whether it could be measured."""

    key: str
    alike: str
    title: str
    hardware: str
    outcome: str
    event_id: str
    test: str | None = None
    stage: str | None = None
    message: str | None = None
    environment: str | None = None
    model: str | None = None
    platform: str | None = None
    precision: str | None = None


class Side(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side, rows oldest first; `environments` by fingerprint, as far as their contents are known.

    `for_hardware` is the only hardware that a named baseline is for.
    """

    name: str
    position: int | None = None
    for_hardware: str | None = None
    measured: list[NewestMeasurement] = []
    cases: list[NewestOutcome] = []
    environments: dict[str, dict[str, Any]] = {}


def merged(baseline: Side, candidate: Side) -> Side:
    """Return what is known after the candidate: its rows in place of the baseline's, with the runs of both.

    Runs are those of one configuration in one environment, the newest ten.
    """
    before = {row.key: row for row in baseline.measured}
    rows = dict(before)
    for row in candidate.measured:
        rows.pop(row.key, None)
        rows[row.key] = _with_runs(before.get(row.key), row)
    cases = {(case.alike, case.test): case for case in baseline.cases}
    for case in candidate.cases:
        cases.pop((case.alike, case.test), None)
        cases[case.alike, case.test] = case
    return Side(
        name=candidate.name,
        position=candidate.position,
        measured=list(rows.values()),
        cases=list(cases.values()),
        environments=baseline.environments | candidate.environments,
    )


def _with_runs(before: NewestMeasurement | None, after: NewestMeasurement) -> NewestMeasurement:
    if before is None or before.event_id == after.event_id or before.environment != after.environment:
        return after
    figures = {}
    for column, figure in after.figures.items():
        earlier = before.figures.get(column)
        runs = [*((earlier.runs or [earlier.value]) if earlier else []), *(figure.runs or [figure.value])]
        figures[column] = msgspec.structs.replace(figure, runs=runs[-RUNS_KEPT:])
    return msgspec.structs.replace(after, figures=figures)
