"""Statistics of a series of samples: what they support, and nothing more.

A percentile is given only where the samples are enough to bound it from above at 99 % confidence: the largest of n
samples lies above the q-quantile with probability 1 - q**n, so q needs n >= ln(0.01) / ln(q): 44 for p90, 90 for
p95, 459 for p99.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from domain.errors import InvalidInput
from domain.payloads import Latency

__all__ = ["SAMPLES_NEEDED", "latency_summary", "median", "median_interval", "quantile", "samples_needed"]


def samples_needed(q: float, confidence: float = 0.99) -> int:
    """Return the number of samples below which the q-quantile cannot be bounded from above."""
    return math.ceil(math.log(1 - confidence) / math.log(q))


SAMPLES_NEEDED = {"p90": samples_needed(0.90), "p95": samples_needed(0.95), "p99": samples_needed(0.99)}


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the q-quantile of an ascending series by linear interpolation (type 7 of Hyndman and Fan)."""
    if not ordered:
        raise InvalidInput("no samples.", field="samples", remedy="Take at least one.")
    place = (len(ordered) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """Return the middle of a series in any order."""
    return quantile(sorted(values), 0.5)


def median_interval(ordered: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the distribution-free interval of the median of an ascending series, or None where n is too small.

    The widest pair of order statistics (k, n + 1 - k) whose coverage under the binomial law is at least `confidence`;
    the first n for which there is one at 95 % is 6.
    """
    n = len(ordered)
    tail = (1 - confidence) / 2
    probability = 0.5**n if n < 1000 else 0.0
    cumulative = 0.0
    rank = 0
    if n < 1000:
        while rank < n and cumulative + probability <= tail:
            cumulative += probability
            probability *= (n - rank) / (rank + 1)
            rank += 1
    else:
        rank = math.floor(n / 2 - 1.959963984540054 * math.sqrt(n) / 2)
    if rank < 1:
        return None
    return ordered[rank - 1], ordered[n - rank]


def latency_summary(samples: Sequence[float]) -> Latency:
    """Return the latency metrics (ms in, ms out) that the samples support; percentiles they cannot support are null."""
    if not samples:
        raise InvalidInput("no samples.", field="samples", remedy="Take at least one.")
    ordered = sorted(samples)
    n = len(ordered)
    mean = math.fsum(ordered) / n
    interval = median_interval(ordered)
    tails = {
        name: quantile(ordered, int(name[1:]) / 100) if n >= needed else None for name, needed in SAMPLES_NEEDED.items()
    }
    return Latency(
        mean=min(max(mean, ordered[0]), ordered[-1]),
        min=ordered[0],
        max=ordered[-1],
        stddev=math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (n - 1)) if n > 1 else None,
        p50=quantile(ordered, 0.5),
        p90=tails["p90"],
        p95=tails["p95"],
        p99=tails["p99"],
        ci95={"p50": interval} if interval else None,
        n=n,
    )
