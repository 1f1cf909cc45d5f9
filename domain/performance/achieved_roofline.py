"""Where measured calls lie under a device's roof: what they reached of what it allows at their arithmetic intensity.

A call of known work (FLOPs and bytes of its operator trace) that took so long is one point: FLOP per byte across, FLOP/s
upwards. The roof above it is the lower of the peak and of what the bandwidth can feed. Bytes are those of operators that
run one by one, so what is fused or stays in a cache can lie above the slope; nothing true lies above the peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from domain.performance.roofline import TRAINING_PASSES, Limits

__all__ = ["Point", "Work", "grid", "point_of", "ridge", "work_of"]

_MOVED = ("read_elements", "write_elements")
_FINEST = 64
"""Fields of the grid a factor of ten; from here it is made coarser until few enough points are left."""


class Work(NamedTuple):
    """What one call does: floating-point operations, and bytes between the device and its memory."""

    flops: float
    bytes: float


class Point(NamedTuple):
    """A measured call under the roof: FLOP per byte, FLOP/s reached and allowed, and which limit it is over, if any."""

    intensity: float
    flops_per_s: float
    roof_flops_per_s: float
    over: Literal["peak", "bandwidth"] | None

    @property
    def share(self) -> float:
        """Return what was reached of what is allowed; above 1 something of it is not as it is said to be."""
        return self.flops_per_s / self.roof_flops_per_s


def work_of(
    totals: Mapping[str, Any], limits: Limits, *, batch_size: int, forward_for_training: bool = False
) -> Work | None:
    """Return the work of one call of `batch_size` items from a trace's totals at batch 1; None where they lack it.

    With `forward_for_training` the totals are of a forward pass and the call is a training step, which counts three times.
    """
    flops, weights = totals.get("flops"), totals.get("weight_elements")
    moved = [totals.get(name) for name in _MOVED]
    if not flops or weights is None or None in moved:
        return None
    passes = TRAINING_PASSES if forward_for_training else 1.0
    elements = sum(float(item or 0) for item in moved) * batch_size
    traffic = elements * limits.activation_bytes + float(weights) * limits.weight_bytes
    return Work(float(flops) * batch_size * passes, traffic * passes) if traffic > 0 else None


def point_of(work: Work, limits: Limits, latency_ms: float) -> Point:
    """Return where a call that took so long lies."""
    intensity = work.flops / work.bytes
    reached = work.flops / (latency_ms / 1e3)
    fed = intensity * limits.bandwidth_bytes_per_s
    over: Literal["peak", "bandwidth"] | None = None
    if reached > limits.peak_flops:
        over = "peak"
    elif reached > fed:
        over = "bandwidth"
    return Point(intensity, reached, min(limits.peak_flops, fed), over)


def ridge(peak_flops: float, bandwidth_bytes_per_s: float) -> float:
    """Return the FLOP per byte from which on arithmetic, not traffic, is the limit."""
    return peak_flops / bandwidth_bytes_per_s


def grid(places: Sequence[tuple[float, float, str]], most: int) -> list[list[int]]:
    """Return groups of indexes, about `most` at the most, of points that would lie on each other in a log-log picture.

    A place is FLOP per byte, FLOP/s and a kind; points of two kinds never share a group. Points come best first: the
    first of a group is the one to draw for all of it. Every index is in one group.
    """
    if len(places) <= most:
        return [[index] for index in range(len(places))]
    fields = _FINEST
    while True:
        groups: dict[tuple[int, int, str], list[int]] = {}
        for index, (x, y, kind) in enumerate(places):
            field = (math.floor(math.log10(x) * fields), math.floor(math.log10(y) * fields), kind)
            groups.setdefault(field, []).append(index)
        if len(groups) <= most or fields == 1:
            return list(groups.values())
        fields //= 2
