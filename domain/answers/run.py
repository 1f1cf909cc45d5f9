"""What is known of a run beside its row: reasons, retractions, what changed since the run before, and its single rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from domain.conditions import Conditions
from domain.configuration import Execution, Hardware, Model, Workload
from domain.measured import Failure, Observed, Provenance, SamplesReference, Validity

__all__ = [
    "Fact",
    "LoggedEvent",
    "MeasuredRow",
    "PreviousRun",
    "Retraction",
    "RowReason",
    "TriedRow",
]


class RowReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why rows of a run are not valid, and how many of them."""

    reason: str
    rows: int


class Retraction(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a run that was taken back, by the id of its event, and why."""

    event_id: str
    reason: str
    position: int


class PreviousRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run before another one on any of its devices."""

    run_id: str
    position: int
    started_at: datetime | None
    environment_fingerprint: str | None


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement of a run in a list: its configuration, its figures, and what they are worth."""

    event_id: str
    model_id: str
    hardware_id: str
    platform: str
    precision: str | None = None
    mode: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    latency_p50_ms: float | None = None
    latency_p50_ci95_low_ms: float | None = None
    latency_p50_ci95_high_ms: float | None = None
    latency_mean_ms: float | None = None
    latency_p90_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_n: int | None = None
    throughput_per_s: float | None = None
    peak_memory_bytes: int | None = None
    verdict: str | None = None
    verdict_reasons: list[str] | None = None
    origin: str | None = None


class TriedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A failure or a test of a run in a list: its configuration, how far it came, and what to try."""

    event_id: str
    model_id: str
    hardware_id: str
    platform: str
    precision: str | None = None
    batch_size: int | None = None
    outcome: str
    stage: str
    error: str | None = None
    message: str | None = None
    remedy: str | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a measurement, a failure or a test in the log.

    `metrics` are kept as they were sent, because a source may send metrics that this version does not know. `outcome` and
    `stage` are None for a measurement.
    """

    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    provenance: Provenance
    metrics: dict[str, msgspec.Raw] | None = None
    validity: Validity | None = None
    conditions: Conditions | None = None
    observed: Observed | None = None
    samples: SamplesReference | None = None
    outcome: str | None = None
    stage: str | None = None
    failure: Failure | None = None
    remedy: str | None = None
    checks: dict[str, Any] | None = None


class LoggedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the log: its envelope, the fact that it tells where it tells one, and its text as it was sent."""

    id: str
    type: str
    time: datetime | None = None
    recorded_at: datetime | None = None
    position: int | None = None
    run_id: str | None = None
    fact: Fact | None = None
    sent: msgspec.Raw
