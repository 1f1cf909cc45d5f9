"""Answers about compatibility: the matrix with its cells, the cases behind a cell, claims, and what stopped models."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = [
    "CellCase",
    "CellMeasurement",
    "ClaimEvidence",
    "ClaimRow",
    "CompatibilityMatrix",
    "MatrixCell",
    "MatrixRow",
    "PlatformTotal",
    "StoppedCases",
]


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """A family or model on a platform: its state and level, how many models ran, and what documents claim.

    A cell that is only claimed has no counts. `states` counts the models of a family by their state.
    """

    platform: str
    state: str
    level: str | None = None
    models: int | None = None
    working: int | None = None
    states: dict[str, int] | None = None
    speedup: float | None = None
    speedup_works: int | None = None
    stopped: str | None = None
    tries: int | None = None
    age_days: int | None = None
    stale: bool | None = None
    claimed: str | None = None
    claims: tuple[str, ...] = ()
    contradicted: bool = False


class MatrixRow(msgspec.Struct, frozen=True, kw_only=True):
    """One family or model with its cells; `models` and `working` are sums over the cells."""

    name: str
    family: str | None = None
    category: str | None = None
    models: int
    working: int
    cells: tuple[MatrixCell, ...]


class PlatformTotal(msgspec.Struct, frozen=True, kw_only=True):
    """How many models were tried on a platform, and how many of them work there."""

    platform: str
    models: int
    working: int


class CompatibilityMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the compatibility matrix; `total` counts the rows that match, `platforms` and `cells` are sums over them."""

    items: tuple[MatrixRow, ...]
    total: int
    platforms: tuple[PlatformTotal, ...]
    cells: dict[str, int]


class CellCase(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a model on a platform in a precision: its state, what stopped it, and the events that say so."""

    model_id: str
    platform: str
    precision: str | None = None
    state: str
    measurements: int | None = None
    tests: int | None = None
    failures: int | None = None
    evidence: str | None = None
    position: int = 0
    last_seen: datetime | None = None
    stopped_outcome: str | None = None
    stopped_stage: str | None = None
    stopped_error: str | None = None
    stopped_message: str | None = None
    stopped_remedy: str | None = None
    evidence_ids: tuple[str, ...] | None = None


class StoppedCases(msgspec.Struct, frozen=True, kw_only=True):
    """Cases that one error stopped at one stage: the models, the cause, and what to try.

    `remedy` is what the runner said of the newest case, `advice` what the rules say.
    """

    outcome: str | None
    stage: str | None
    error: str | None
    cause: str
    advice: str
    message: str | None
    remedy: str | None
    of: tuple[str, ...]


class ClaimEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of the same thing as a claim: the verdict, and of figures ours and its ratio to the claimed one."""

    verdict: str
    how: str | None
    ours: float | None
    ratio: float | None
    where: str | None
    hardware: str | None
    states: dict[str, int]
    evidence_ids: list[str]


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a document claims of models, families or categories on a platform, and how that compares with what was seen.

    Either `says` how far it works, or `metric` has a `value`, `printed` there as it stands. `opposed_by` are the ids of the
    claims that say the opposite.
    """

    id: str
    name: str
    models: list[str]
    families: list[str]
    categories: list[str]
    platform: str
    says: str | None
    metric: str | None
    value: float | None
    printed: str | None
    sizes: dict[str, float]
    simulated: bool
    note: str | None
    document: str
    section: str
    verdict: str
    how: str | None
    ours: float | None
    ratio: float | None
    where: str | None
    hardware: str | None
    states: dict[str, int]
    evidence_ids: list[str]
    opposed_by: list[str]


class CellMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The best measurement of one configuration of a model on a platform."""

    hardware: str
    precision: str | None
    mode: str
    batch_size: int | None
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    latency_is_mean: bool | None
    throughput_per_s: float | None
    n: int | None
    basis: str
    verdict: str | None
    time: datetime | None
    run_id: str | None
