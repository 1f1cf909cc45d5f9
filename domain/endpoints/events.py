"""The data of events about served models: what happens to an endpoint, and what it delivers against its promise."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from domain.configuration import Execution, Hardware, Identifier, Model, NonNegative, Positive, Word, Workload
from domain.measured import Environment, Latency, Provenance, Sentence, Shape

__all__ = ["CHANGES", "Change", "DeliveryObserved", "EndpointChanged", "Promise"]

Change = Literal["created", "ready", "scaled", "failed", "failed-over", "evicted", "removed"]
CHANGES: tuple[Change, ...] = ("created", "ready", "scaled", "failed", "failed-over", "evicted", "removed")
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class Promise(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What the recommendation said of one call: latency in ms with its interval, and on what that rests.

    `coverage` is the share of such intervals that are to hold (0–1). `recommendation` is the id of the answer.
    """

    latency_ms: Positive
    low: Positive
    high: Positive
    coverage: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    origin: Literal["measured", "predicted", "composed"]
    percentile: Word = "p50"
    recommendation: str | None = None


class EndpointChanged(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Something happened to an endpoint: `endpoint` is its name, `server` the id of the process that serves it.

    `reason` says why, in a sentence; `workers` are those from here on, `memory_bytes` what it takes.
    """

    endpoint: Word
    server: Identifier
    change: Change
    model: Model
    execution: Execution | None = None
    hardware: Hardware | None = None
    workers: Number | None = None
    memory_bytes: Number | None = None
    reason: Sentence | None = None
    promise: Promise | None = None
    environment: Environment | None = None
    provenance: Provenance | None = None


class DeliveryObserved(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """What an endpoint delivered between two moments, beside its promise.

    `latency_ms` is that of the model's own calls, `request_ms` that of whole requests, with waiting. `verdict` compares
    the promise with the calls of the promised workload: `undecided` where there were too few, or of another one.
    """

    endpoint: Word
    server: Identifier
    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    since: Moment
    until: Moment
    requests: Number
    failures: Number
    verdict: Literal["kept", "broken", "undecided"]
    latency_ms: Latency | None = None
    request_ms: Latency | None = None
    throughput_per_s: NonNegative | None = None
    promise: Promise | None = None
    reason: Sentence | None = None
    environment: Environment | None = None
    provenance: Provenance | None = None
