"""What a latency is made of: its parts, kernels, operators and roofline."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["NULL", "Breakdown", "BriefExplanation", "BriefPart", "Explanation", "KernelTime", "OperatorTime", "Part"]

NULL: Any = msgspec.field(default_factory=lambda: None)
"""Default of a member that is null on the wire where it is None: `omit_defaults` leaves out plain defaults alone."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One group's share in ms: `roofline_ms` by physics, `learned_ms` beyond it (below 0: faster), `ms` both."""

    group: str
    roofline_ms: float
    learned_ms: float
    ms: float


class KernelTime(msgspec.Struct, frozen=True, kw_only=True):
    """One class of kernels of a call: how many calls, what they take, and the arithmetic, traffic and launches in that."""

    kind: str
    calls: int
    ms: float
    arithmetic_ms: float
    traffic_ms: float
    launch_ms: float


class OperatorTime(msgspec.Struct, frozen=True, kw_only=True):
    """One operator of a call: its class of kernels, its sizes, and what all of its `calls` take together."""

    name: str
    kind: str
    sizes: str
    calls: int
    ms: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a latency is made of: `parts` add up to it, largest first.

    `kernels` are what the kernel model says of each class of kernels, and `longest` of the longest operators: where the
    prediction rests on it these are the parts, else they stand beside them. The other members are the roofline's.
    """

    latency_ms: float
    roofline_ms: float
    bottleneck: str
    told: str
    parts: list[Part]
    by_class_ms: dict[str, float]
    kernels: list[KernelTime] | None = NULL
    longest: list[OperatorTime] | None = NULL


class BriefPart(msgspec.Struct, frozen=True, kw_only=True):
    """One group's share of a latency in ms."""

    group: str
    ms: float


class BriefExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence on what bounds a latency, and its two largest parts."""

    told: str
    parts: list[BriefPart]


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """The roofline of one call in ms: the total, its parts, the operator classes, and what bounds it."""

    latency_ms: float
    compute_ms: float
    compute_bound_ms: float
    memory_ms: float
    launch_ms: float
    by_class_ms: dict[str, float]
    bound: str
