"""Power laws through measured sizes: value = fixed + factor * size ** exponent, and where they lead beyond the largest size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy import stats

__all__ = ["UPPER", "Estimate", "PowerLaw", "fit"]

UPPER = 35.0
"""The law is fitted to sizes of at least the largest divided by this: the upper decade and a half."""
CONFIDENCE = 0.95
_FEWEST = 3
_ROUNDS = 50


class Estimate(msgspec.Struct, frozen=True):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


class PowerLaw(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted law. `exponent` has the 95 % interval of its regression; the rest is what `at` needs."""

    exponent: Estimate
    log_factor: float
    fixed: float
    points: int
    centre: float
    """Mean of the logarithms of the sizes."""
    spread: float
    """Sum of the squares about that mean."""
    residual: float
    """Standard deviation of the logarithms of the values about the line."""

    def at(self, size: float) -> Estimate:
        """Return the value at a size, with the interval of a single measurement there."""
        place = math.log(size)
        middle = self.log_factor + self.exponent.value * place
        half = _quantile(self.points) * self.residual
        half *= math.sqrt(1 + 1 / self.points + (place - self.centre) ** 2 / self.spread)
        return Estimate(*(self.fixed + _exp(middle + shift) for shift in (0.0, -half, half)))

    def size_at(self, value: float) -> float | None:
        """Return the size at which the law reaches a value; None where it does not rise to it below 10^15."""
        if self.exponent.value <= 0 or value <= self.fixed:
            return None
        place = (math.log(value - self.fixed) - self.log_factor) / self.exponent.value
        return _exp(place) if place < math.log(1e15) else None


def fit(sizes: Sequence[float], values: Sequence[float], *, total: bool = False) -> PowerLaw | None:
    """Return the law through the upper sizes by least squares of the logarithms; None for fewer than three of them.

    `total` says that the value adds up over the whole log, such as seconds of a rebuild: a part of it does not depend on
    the size, and is chosen so that the law also meets the smallest size. Sizes rise, sizes and values are positive.
    """
    upper = [(size, value) for size, value in zip(sizes, values, strict=True) if size >= max(sizes) / UPPER]
    if len(upper) < _FEWEST:
        return None
    law = _line(upper, 0.0)
    if not total or len(upper) == len(sizes):
        return law
    for _ in range(_ROUNDS):
        at_smallest = _exp(law.log_factor + law.exponent.value * math.log(sizes[0]))
        fixed = min(max(0.0, values[0] - at_smallest), values[0])
        if fixed >= min(value for _, value in upper):
            return _line(upper, 0.0)
        changed = abs(fixed - law.fixed)
        law = _line(upper, fixed)
        if changed <= 1e-12 * values[0]:
            break
    return law


def _line(points: Sequence[tuple[float, float]], fixed: float) -> PowerLaw:
    x = np.log([size for size, _ in points])
    y = np.log([value - fixed for _, value in points])
    centre = float(x.mean())
    spread = float(((x - centre) ** 2).sum())
    slope = float(((x - centre) * (y - y.mean())).sum() / spread)
    height = float(y.mean()) - slope * centre
    residual = math.sqrt(float(((y - height - slope * x) ** 2).sum()) / (len(points) - 2))
    half = _quantile(len(points)) * residual / math.sqrt(spread)
    return PowerLaw(
        exponent=Estimate(slope, slope - half, slope + half),
        log_factor=height,
        fixed=fixed,
        points=len(points),
        centre=centre,
        spread=spread,
        residual=residual,
    )


def _quantile(points: int) -> float:
    """Return Student's t of a two-sided interval about a line through so many points."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, points - 2))


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
