"""The shape of a series of times, in the order taken: drift, warm-up left in, two modes, calls that were held up."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from domain.statistics import median

__all__ = ["Modes", "drift", "held_up_share", "leading_warmup", "modes"]

DRIFT = 0.05
LARGE_EFFECT = 0.71
"""Vargha and Delaney (2000) call an effect large from here on: the probability that a sample of one exceeds one of the other."""
WARMUP_SAMPLES = 3
WARMUP_EXCESS = 0.05
WARMUP_DEVIATIONS = 5.0
MODES_SAMPLES = 40
"""With fewer samples a gap between two groups is too often chance."""
MODES_APART = 0.05
MODES_LEAST = 0.10
MODES_VALLEY = 0.05
TRIMMED = 0.05
HELD_UP_FROM = 2.0
_NORMAL_DEVIATIONS = 1.4826
"""Standard deviations in a median absolute deviation of normal noise."""


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups of samples: their medians in ms, and the share of the slower one."""

    low: float
    high: float
    share: float


def drift(samples: Sequence[float]) -> float | None:
    """Return the change of the median from the first half to the second, or None where the halves are alike.

    Unlike: the medians differ by more than 5 %, and the difference is large beside the noise (Vargha and Delaney's A).
    """
    half = len(samples) // 2
    if half < 1:
        return None
    first, second = sorted(samples[:half]), sorted(samples[half:])
    change = median(second) / median(first) - 1
    if abs(change) <= DRIFT:
        return None
    above = sum(bisect_left(first, value) + bisect_right(first, value) for value in second) / 2
    effect = above / (len(first) * len(second))
    return change if max(effect, 1 - effect) >= LARGE_EFFECT else None


def leading_warmup(samples: Sequence[float]) -> int:
    """Return how many of the first samples are slower than the noise of the second half; 0 where fewer than three."""
    rest = samples[len(samples) // 2 :]
    if len(rest) < WARMUP_SAMPLES:
        return 0
    level = median(rest)
    deviation = _NORMAL_DEVIATIONS * median([abs(value - level) for value in rest])
    limit = level + max(WARMUP_EXCESS * level, WARMUP_DEVIATIONS * deviation)
    slower = next((at for at, value in enumerate(samples) if value <= limit), len(samples))
    return slower if slower >= WARMUP_SAMPLES else 0


def modes(samples: Sequence[float]) -> Modes | None:
    """Return the two modes of a series, or None where it has one.

    The samples without their outer twentieths are split where the variance between the groups is greatest (Otsu
    1979). They are two modes where each has at least 10 % of the samples, their medians are more than 5 % apart, and
    at most 5 % of the samples lie in the middle third of the way between; evenly spread ones would have 17 % there.
    """
    ordered = sorted(samples)
    cut = math.ceil(TRIMMED * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    if len(samples) < MODES_SAMPLES:
        return None
    at = _split(kept)
    share = 1 - at / len(kept)
    low, high = median(kept[:at]), median(kept[at:])
    third = (high - low) / 3
    between = bisect_right(kept, high - third) - bisect_left(kept, low + third)
    apart = high - low > MODES_APART * median(kept)
    two = MODES_LEAST <= share <= 1 - MODES_LEAST and apart and between <= MODES_VALLEY * len(kept)
    return Modes(low=low, high=high, share=share) if two else None


def _split(ordered: Sequence[float]) -> int:
    """Return the size of the lower group for which the variance between two groups is greatest."""
    n, total = len(ordered), math.fsum(ordered)
    best, split, below = -1.0, 1, 0.0
    for size in range(1, n):
        below += ordered[size - 1]
        between = size * (n - size) * (below / size - (total - below) / (n - size)) ** 2
        if between > best:
            best, split = between, size
    return split


def held_up_share(samples: Sequence[float]) -> float:
    """Return the share of all the time that lies beyond the median in calls of more than twice the median."""
    level = median(samples)
    return math.fsum(value - level for value in samples if value > HELD_UP_FROM * level) / math.fsum(samples)
