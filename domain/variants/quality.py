"""What a variant costs in quality: scores of the same examples, paired one by one, and the interval of their difference.

Scores that are only 0 and 1 are proportions: Tango's score interval of a paired difference (Statistics in Medicine 17,
1998, 891–908) and McNemar's exact test. Of the intervals that Fagerland, Lydersen and Laake (Statistics in Medicine 33,
2014, 2850–2875) compare, its coverage came closest to 95 % in tests/unit/domain/test_quality.py, and it is not empty where no pair
differs. Other scores: the studentized bootstrap of the mean difference (Efron and Tibshirani, An Introduction to the
Bootstrap, chapter 12), whose coverage for means was nearer to 95 % than that of percentiles and BCa; where fewer than
fifteen pairs differ, exact bounds of how many would, times the largest difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec

from domain.errors import InvalidInput

__all__ = ["QualityCost", "examples_needed", "loss_of_pairs", "mcnemar", "tango_interval"]

_Z95 = 1.959963984540054
_TAIL = 0.025
_STEPS = 80
_FEW = 15
"""Below so many pairs that differ, resampling them shows too little of what others would do."""
_RESAMPLES = 2000
_RESAMPLED_AT_ONCE = 2_000_000
"""Scores drawn at once, to bound the memory that it takes."""


class QualityCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant costs: the members of `QualityMeasured` that come from the scores alone.

    `value` and `base_value` are mean scores, those of a proportion from 0 to 1. `loss` and its 95 % `interval` are in
    percentage points where `unit` is `pt`; positive is worse.
    """

    metric: str
    unit: str
    direction: str
    examples: int
    value: float
    base_value: float
    loss: float
    interval: tuple[float, float]
    method: str
    worse: int
    better: int
    p_value: float | None = None


def loss_of_pairs(
    base: Sequence[float] | Any,
    variant: Sequence[float] | Any,
    *,
    metric: str,
    unit: str = "pt",
    direction: str = "higher",
    seed: int = 0,
) -> QualityCost:
    """Return what the variant loses against the base; both are scores of the same examples in the same order.

    Raises InvalidInput for no scores, scores that are not finite, two lengths, and an unknown direction.
    """
    import numpy as np

    first, second = np.asarray(base, dtype=np.float64), np.asarray(variant, dtype=np.float64)
    _require(first, second, direction)
    n = len(first)
    worsening = first - second if direction == "higher" else second - first
    worse, better = int((worsening > 0).sum()), int((worsening < 0).sum())
    # One rounding: adding 0.0 keeps a loss of nothing from being -0.0.
    loss = float(worsening.mean()) + 0.0
    if np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all():
        method, interval, p = "mcnemar-tango", tango_interval(worse, better, n), mcnemar(worse, better)
    elif worse + better < _FEW:
        scale = float(np.abs(worsening).max()) or float(max(np.ptp(first), np.abs(first).max()))
        interval = (-scale * _most(better, n) + 0.0, scale * _most(worse, n))
        method, p = "exact-bounds", None
    else:
        interval, p = _bootstrap(worsening, seed)
        method = "bootstrap-t"
    factor = 100.0 if unit == "pt" else 1.0
    return QualityCost(
        metric=metric,
        unit=unit,
        direction=direction,
        examples=n,
        value=float(second.mean()),
        base_value=float(first.mean()),
        loss=loss * factor,
        interval=(min(interval[0], loss) * factor, max(interval[1], loss) * factor),
        method=method,
        worse=worse,
        better=better,
        p_value=p,
    )


def _require(first: Any, second: Any, direction: str) -> None:
    import numpy as np

    if first.ndim != 1 or not len(first):
        raise InvalidInput("there are no scores.", field="scores", remedy="Give one score for each example.")
    if first.shape != second.shape:
        raise InvalidInput(
            f"the base has {len(first)} scores and the variant {second.size}.",
            field="scores",
            remedy="Evaluate both on the same examples.",
        )
    for name, scores in (("base", first), ("variant", second)):
        bad = np.flatnonzero(~np.isfinite(scores))
        if bad.size:
            raise InvalidInput(
                f"score {int(bad[0])} of the {name} is {float(scores[bad[0]])}.",
                field="scores",
                remedy="Give a number for each example, or leave the example out of both.",
            )
    if direction not in ("higher", "lower"):
        raise InvalidInput(
            f"a direction cannot be {direction!r}.", field="direction", remedy="Write higher or lower, which is better."
        )


def mcnemar(worse: int, better: int) -> float:
    """Return the two-sided p value of McNemar's exact test: the binomial law of the pairs that differ, even chances."""
    pairs = worse + better
    return min(1.0, 2.0 * _binomial_cdf(min(worse, better), pairs, 0.5)) if pairs else 1.0


def tango_interval(worse: int, better: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of (share of worse) − (share of better) of n pairs, from −1 to 1.

    It is not empty where no pair differs: ±z²/(n + z²), 7.1 points for 50 pairs.
    """
    estimate = (worse - better) / n

    def statistic(difference: float) -> float:
        a = 2.0 * n
        b = -worse - better + (2.0 * n - worse + better) * difference
        c = -better * difference * (1.0 - difference)
        share = (math.sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
        variance = n * (2.0 * share + difference * (1.0 - difference))
        distance = worse - better - n * difference
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)

    low = _root(lambda difference: statistic(difference) > _Z95, -1.0, estimate)
    high = _root(lambda difference: statistic(difference) > -_Z95, estimate, 1.0)
    return low, high


def _root(before: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a falling condition stops to hold between two numbers."""
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if before(middle) else (low, middle)
    return (low + high) / 2.0


def _binomial_cdf(k: int, n: int, p: float) -> float:
    logs, whole = (math.log(p), math.log1p(-p)), math.lgamma(n + 1)
    terms = (
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * logs[0] + (n - i) * logs[1])
        for i in range(k + 1)
    )
    return min(1.0, math.fsum(terms))


def _most(k: int, n: int) -> float:
    """Return the share that k of n bounds from above at 97.5 % (Clopper and Pearson); 3.7/n where there is none."""
    return 1.0 if k >= n else _root(lambda share: _binomial_cdf(k, n, share) > _TAIL, k / n, 1.0)


def _bootstrap(differences: Any, seed: int) -> tuple[tuple[float, float], float]:
    """Return the studentized bootstrap's 95 % interval of the mean, and its p value for a mean of zero."""
    import numpy as np

    n, random = len(differences), np.random.default_rng(seed)
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n)
    if error == 0.0:
        return (mean, mean), 1.0 / (_RESAMPLES + 1)
    ratios: list[Any] = []
    at_once = max(1, _RESAMPLED_AT_ONCE // n)
    for start in range(0, _RESAMPLES, at_once):
        drawn = differences[random.integers(0, n, (min(at_once, _RESAMPLES - start), n))]
        errors = drawn.std(axis=1, ddof=1) / math.sqrt(n)
        ratios.append((drawn.mean(axis=1) - mean) / np.where(errors > 0, errors, error))
    studentized = np.concatenate(ratios)
    low, high = np.quantile(studentized, (1 - _TAIL, _TAIL))
    beyond = int((np.abs(studentized) >= abs(mean) / error).sum())
    return (mean - float(low) * error, mean - float(high) * error), (beyond + 1) / (_RESAMPLES + 1)


def examples_needed(loss: float, differing: float, power: float = 0.8) -> int:
    """Return how many examples show a loss (share 0–1) at 5 % with that power, where a share of them differs at all.

    Connor's formula for McNemar's test (Biometrics 43, 1987, 207–211). Raises InvalidInput where fewer examples differ than
    are lost.
    """
    if not 0 < loss <= differing <= 1:
        raise InvalidInput(
            f"a loss of {loss:g} needs at least that share of examples to differ, and at most 1; {differing:g} do.",
            field="differing",
            remedy="Give a share from the loss to 1.",
        )
    beta = NormalDist().inv_cdf(power)
    return math.ceil(((_Z95 * math.sqrt(differing) + beta * math.sqrt(differing - loss**2)) / loss) ** 2)
