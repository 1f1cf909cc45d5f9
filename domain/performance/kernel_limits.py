"""Kernel timings that a device cannot have reached: faster than its arithmetic or its memory allows.

Work and seconds are numbers or numpy arrays of one length; a mark says which of them it is on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from domain.performance.kernel_work import Work

__all__ = ["Allowed", "Marks", "impossible"]

TOLERANCE = 1.1
"""Clocks above the data sheet's, and rounded figures: what is faster by less is not impossible."""
IN_CACHE = 1.05
"""From so many times the memory's rate on, some of the data lay in the cache."""
CACHE_RATE = 20.0
"""No last-level cache delivers more than so many times the memory's rate."""
BOOST = 10.0
"""A CPU's peak is known at its base clock and without coprocessors: so many times that is conceivable."""

Marks = dict[str, tuple[str, str, Any]]
"""Verdict, reason and the mask of the timings by the name of the mark, those that make a timing invalid first."""


class Allowed(NamedTuple):
    """What a device allows: FLOP/s, bytes/s and bytes of its last-level cache, None where it is not known."""

    device: str
    kind: str | None
    peak_flops: float | None
    bandwidth_bytes_per_s: float | None
    cache_bytes: float | None


def impossible(work: Work, seconds: Any, allowed: Allowed) -> Marks:
    """Return the marks of timings that are faster than the device's peak or memory allows, whether any bears them or not."""
    import numpy as np

    marks: Marks = {}
    peak, rate = allowed.peak_flops, allowed.bandwidth_bytes_per_s
    if peak is not None:
        reached = work.flops / seconds / peak
        most = BOOST if allowed.kind == "cpu" else TOLERANCE
        reason = f"faster than the {peak / 1e12:.4g} TFLOP/s of {allowed.device} allow"
        marks["beats-peak"] = ("invalid", reason, reached > most)
        reason = f"faster than the {peak / 1e12:.4g} TFLOP/s of {allowed.device}, which are at its base clock"
        marks["beats-base-clock"] = ("suspect", reason, (reached > TOLERANCE) & (reached <= most))
    if rate is not None:
        moved = work.bytes / seconds
        cached = np.inf if allowed.cache_bytes is None else allowed.cache_bytes
        beyond = ((work.bytes - cached) / seconds > TOLERANCE * rate) | (moved > CACHE_RATE * rate)
        memory = f"the {rate / 1e9:.4g} GB/s of the memory of {allowed.device}"
        reason = f"moves its data faster than {memory} and its last-level cache allow"
        marks["beats-memory"] = ("invalid", reason, beyond)
        reason = f"moves its data faster than {memory}: some of it lay in the last-level cache"
        marks["in-cache"] = ("suspect", reason, (moved > IN_CACHE * rate) & ~beyond)
    return marks
