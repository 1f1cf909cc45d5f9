"""Statistics of a series of samples: what they support, and nothing more.

A percentile is given only where the samples are enough to bound it from above at 99 % confidence: the largest of n
samples lies above the q-quantile with probability 1 - q**n, so q needs n >= ln(0.01) / ln(q): 44 for p90, 90 for
p95, 459 for p99.

Intervals of quantiles are those of order statistics and assume no distribution. What disturbs one call often disturbs
the next, so the calls of one series are worth fewer independent ones; by how much (`dependence`) is estimated by batch
means (Law, Simulation Modeling and Analysis, chapter 9) of the signs of the samples about their median, and intervals
are widened by its root. Signs, because the variance of a median under dependence is that of its sign series
(Bahadur's representation), and because one long call then counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from domain.errors import InvalidInput
from domain.payloads import Latency

__all__ = [
    "DEPENDENCE_SAMPLES",
    "SAMPLES_NEEDED",
    "dependence",
    "latency_summary",
    "mean_interval",
    "median",
    "median_interval",
    "quantile",
    "quantile_interval",
    "samples_needed",
    "series_interval",
    "student_quantile",
]

_Z95 = 1.959963984540054
_CONFIDENCE = 0.95
_EXACT_BELOW = 1000
_FEWEST_BATCHES = 5
DEPENDENCE_SAMPLES = 20
"""Fewer samples than this say nothing about how they depend on each other."""


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


def quantile_interval(ordered: Sequence[float], q: float, dependent: float = 1.0) -> tuple[float, float] | None:
    """Return the 95 % interval of the q-quantile of an ascending series, or None where n is too small for one.

    The pair of order statistics whose coverage under the binomial law is at least 95 %, exact for independent samples
    (`dependent` 1) up to 999, by the normal law otherwise. The first n for which the median has one is 6.
    """
    n = len(ordered)
    if dependent <= 1.0 and n < _EXACT_BELOW:
        low, high = _exact_ranks(n, q)
    else:
        half = _Z95 * math.sqrt(n * q * (1 - q) * max(dependent, 1.0))
        low, high = math.floor(n * q - half), math.ceil(n * q + half) + 1
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 and high <= n else None


@lru_cache(maxsize=4096)
def _exact_ranks(n: int, q: float) -> tuple[int, int]:
    """Return the highest l and the lowest u with P(B < l) and P(B >= u) at most 2.5 % each, B binomial (n, q)."""
    tail = (1 - _CONFIDENCE) / 2
    logs = math.log(q), math.log1p(-q)
    law = [
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * logs[0] + (n - k) * logs[1])
        for k in range(n + 1)
    ]
    low, below = 0, law[0]
    while low < n and below <= tail:
        low += 1
        below += law[low]
    high, above = n + 1, law[n]
    while high > 0 and above <= tail:
        high -= 1
        above += law[high - 1]
    return low, high


def median_interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median of an ascending series of independent values; None below six."""
    return quantile_interval(ordered, 0.5)


def dependence(samples: Sequence[float]) -> float:
    """Return how many samples in the order taken are worth one independent sample (1 or more).

    The variance of a batch's share of samples above the median, over what it would be for independent ones, in batches
    of √n, 2 √n and 4 √n samples, five batches at least; the largest counts. 1 for series too short to tell.
    """
    n = len(samples)
    if n < DEPENDENCE_SAMPLES:
        return 1.0
    middle = median(samples)
    signs = [(value > middle) + 0.5 * (value == middle) for value in samples]
    sizes = [math.isqrt(n) * factor for factor in (1, 2, 4)]
    return max([1.0, *(_batch_variance(signs, size) for size in sizes if n // size >= _FEWEST_BATCHES)])


def _batch_variance(signs: Sequence[float], size: int) -> float:
    """Return the variance of batches' means over that of independent signs; the first samples fill no batch."""
    batches = len(signs) // size
    starts = range(len(signs) - batches * size, len(signs), size)
    means = [math.fsum(signs[at : at + size]) / size for at in starts]
    mean = math.fsum(means) / batches
    return math.fsum((value - mean) ** 2 for value in means) / (batches - 1) * size / 0.25


def series_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median of samples in the order taken, widened by their dependence."""
    return quantile_interval(sorted(samples), 0.5, dependence(samples))


def mean_interval(samples: Sequence[float], dependent: float = 1.0) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean by Student's law, or None below 30 samples or where it would reach 0.

    Thirty, because the times of calls are skewed and the law holds for their mean only through the central limit.
    """
    n = len(samples)
    if n < 30:
        return None
    mean = math.fsum(samples) / n
    freedom = n / max(dependent, 1.0) - 1
    if freedom < 4:
        return None
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in samples) / (n - 1) * max(dependent, 1.0) / n)
    half = student_quantile(freedom) * spread
    return (mean - half, mean + half) if mean > half else None


def student_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's law (Abramowitz and Stegun 26.7.5; within 0.2 % from 4 degrees on)."""
    z = _Z95
    terms = (
        z,
        (z**3 + z) / (4 * freedom),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3),
    )
    return math.fsum(terms)


def latency_summary(samples: Sequence[float]) -> Latency:
    """Return the latency metrics (ms in, ms out) that the samples, in the order taken, support; the rest is null.

    `ci95` has the interval of every statistic that is there and that the samples can bound.
    """
    if not samples:
        raise InvalidInput("no samples.", field="samples", remedy="Take at least one.")
    ordered = sorted(samples)
    n = len(ordered)
    mean = math.fsum(ordered) / n
    dependent = dependence(samples)
    tails = {
        name: quantile(ordered, int(name[1:]) / 100) if n >= needed else None for name, needed in SAMPLES_NEEDED.items()
    }
    bounded = {"p50": 0.5, **{name: int(name[1:]) / 100 for name in tails if tails[name] is not None}}
    intervals = {name: quantile_interval(ordered, q, dependent) for name, q in bounded.items()}
    intervals["mean"] = mean_interval(samples, dependent)
    return Latency(
        mean=min(max(mean, ordered[0]), ordered[-1]),
        min=ordered[0],
        max=ordered[-1],
        stddev=math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (n - 1)) if n > 1 else None,
        p50=quantile(ordered, 0.5),
        p90=tails["p90"],
        p95=tails["p95"],
        p99=tails["p99"],
        ci95={name: interval for name, interval in intervals.items() if interval} or None,
        n=n,
    )
