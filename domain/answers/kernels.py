"""The kernels of one hardware: its roofs, what was measured under them, and what the predictor says of the standard kernels.

Units stand in the names as in `domain.answers`; `_low` and `_high` are the ends of the 80 % interval of the figure before them.
"""

from __future__ import annotations

import msgspec

__all__ = ["DeviceKernels", "KernelChoice", "KernelEstimate", "KernelPoint", "KernelRoof", "MeasuredKernel"]


class KernelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A platform and a precision that can be asked for, and how many timings of single devices the log has of them."""

    platform: str
    precision: str
    timings: int


class KernelRoof(msgspec.Struct, frozen=True, kw_only=True):
    """A peak and a bandwidth, and what says them.

    `source` is `specified` (the catalogue or a description), `sustained` (what was reached for long: by a probe or a
    publisher, else `derived` from the rated power) or `kernels` (what the predictor says of the largest product and the longest
    traffic, corrected by so many `kernels` of the device's own; `floor_us` is what they say of the smallest).
    """

    source: str
    flops_per_s: float | None
    bandwidth_bytes_per_s: float | None
    status: str | None = None
    kernels: int | None = None
    floor_us: float | None = None


class KernelPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A measured kernel under the specified roof; `over` names the limit that it exceeds, if any.

    Bytes are those of operands and results, each moved once. `share` is what it reached of the roof at its FLOP per byte;
    `stands_for` is how many kernels lie there. `event_id` and `row` are its place in the log.
    """

    operator: str
    name: str | None
    phase: str | None
    sizes: dict[str, int]
    runtime: str | None
    flops: float
    bytes: float
    flop_per_byte: float
    latency_ms: float
    flops_per_s: float
    bytes_per_s: float
    roof_flops_per_s: float
    share: float
    over: str | None
    basis: str
    origin: str
    verdict: str | None
    reason: str | None
    event_id: str
    row: int
    stands_for: int = 1


class MeasuredKernel(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a standard kernel: the median of `timings`, and the newest event that has one.

    `ratio` is the measured time over the estimate, `within` whether it lies in the estimate's interval (None: there is none).
    """

    latency_ms: float
    flops_per_s: float
    share: float
    timings: int
    basis: str
    origin: str
    event_id: str
    ratio: float
    within: bool | None


class KernelEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the predictor says of a standard kernel, whether or not it was measured.

    `basis` is `calibrated` (kernels of this device correct it), `predicted` (kernels of other devices taught it, and its
    interval comes from devices that were left out) or `roofline` (no device of this kind and platform was left out: no
    interval, and no faster than the roof). `launch` is how it is taken to be launched: `graph`, or `eager` with the host's
    launch in its time. An estimate is made without the measurement that stands beside it.
    """

    id: str
    operator: str
    name: str | None
    phase: str | None
    sizes: dict[str, int]
    launch: str
    flops: float
    bytes: float
    flop_per_byte: float
    latency_ms: float
    latency_ms_low: float | None
    latency_ms_high: float | None
    flops_per_s: float
    flops_per_s_low: float | None
    flops_per_s_high: float | None
    roof_flops_per_s: float
    share: float
    basis: str
    measured: MeasuredKernel | None


class DeviceKernels(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of a hardware under one platform in one precision.

    `points` are thinned: those that would lie on each other are one. `considered` counts the timings of the log, `sampled`
    those that were looked at, `placed` those of them with a place under the roof, `left_out` the others by reason, and
    `above_count` those of the placed that are over the roof.
    `notes` say what the intervals rest on, or why there is none.
    """

    hardware: str
    platform: str | None
    precision: str | None
    choices: tuple[KernelChoice, ...]
    roofs: tuple[KernelRoof, ...]
    points: tuple[KernelPoint, ...]
    estimates: tuple[KernelEstimate, ...]
    considered: int
    sampled: int
    placed: int
    left_out: dict[str, int]
    above_count: int
    notes: tuple[str, ...]
    position: int
    predictor: str
