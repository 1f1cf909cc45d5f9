"""The answer of fit: the largest batch, the best one and the longest sequence on each device."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.answers.recommendation import OutputError, Workload

__all__ = [
    "BestBatch",
    "CapacityAnswer",
    "CapacityEntry",
    "Exclusion",
    "Longest",
    "MemoryUse",
]


class Exclusion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was left out of an answer, by which rule, with its figures or events.

    `over` is how many times more memory it needs than there is.
    """

    hardware: str
    platform: str | None
    rule: str
    precision: str | None = None
    batch_size: int | None = None
    detail: str | None = None
    evidence: tuple[str, ...] = ()
    over: float | None = None


class Longest(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, and how they are known; None with the reason in `why`."""

    tokens: int | None
    why: str


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """What batch 1 holds of a device's memory, in bytes, by its parts, and the basis of the peak."""

    basis: str
    peak_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    weights_bytes: int | None
    activations_bytes: int | None
    kv_cache_bytes: int | None
    runtime_bytes: int | None


class BestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest batch that has the best throughput of those that fit."""

    batch_size: int
    throughput_per_s: float | None
    latency_ms: float | None
    latency_ms_low: float | None
    latency_ms_high: float | None
    memory_bytes: int | None
    basis: str
    interval_covered: bool
    evidence: list[str]
    why: str
    command: str


class CapacityEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What fits on one device under a platform and precision.

    `room_bytes` is the memory that may be used, `out_of_memory` maps batch sizes to events, `largest_basis` says how the
    largest batch is known.
    """

    hardware: str
    platform: str
    precision: str
    runtime: str
    compiled: bool
    room_bytes: int | None
    evidence: list[str]
    out_of_memory: dict[str, str]
    memory: MemoryUse | None
    largest_batch: int | None
    largest_basis: str
    best: BestBatch | None
    longest: Longest
    speedup_over_fp32: float | None
    output_error: OutputError | None


class CapacityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `fit`: batches and lengths by device, platform and precision, and what was left out."""

    id: str
    model: str
    position: int
    time: str | None
    predictor: str
    interval: float
    question: dict[str, Any]
    workload: Workload
    fits: list[CapacityEntry]
    excluded: list[Exclusion]
    abstained: str | None
    notes: list[str]
