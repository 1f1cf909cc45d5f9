"""When requests are sent: as others end (closed loop), or at moments that nobody chose (a Poisson process)."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["poisson"]


def poisson(rate_per_s: float, seed: int) -> Iterator[float]:
    """Yield arrivals in s from the start, without end: exponential gaps of mean 1 / rate, the same for the same seed.

    The first comes a gap after the start.
    """
    drawn = random.Random(seed)
    at = 0.0
    while True:
        at += drawn.expovariate(rate_per_s)
        yield at
