"""The chance that a predicted figure keeps a limit, from its interval.

A prediction errs by a factor, so its logarithm is taken to be distributed evenly to both sides. Errors have longer tails
than a normal distribution: Student's t with four degrees of freedom, which is what the held-out errors of served models
look like (`docs/choices.md` has promised and observed shares side by side).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from predictor.features.table import Array

__all__ = ["below", "chance_below", "chance_of_all"]

LEAST, MOST = 0.01, 0.99
"""No prediction is surer than this, however far the limit: one in a hundred rows took another software path."""


def below(distance: ArrayLike, spread: ArrayLike) -> Array:
    """Return the chance that what is expected `distance` (log units) under a limit stays under it.

    `spread` is one standard deviation of the middle of the distribution; 0 says that the figure was measured.
    """
    distance, spread = np.asarray(distance, dtype=np.float64), np.asarray(spread, dtype=np.float64)
    existing = spread <= 0
    steps = distance / np.where(existing, 1.0, spread)
    return np.where(existing, (distance >= 0).astype(np.float64), np.clip(_student(steps), LEAST, MOST))


def chance_below(
    expected: float, low: float | None, high: float | None, limit: float, nominal: float = 0.8, wider: float = 1.0
) -> float | None:
    """Return the chance that a figure is at most `limit`, from its interval of `nominal` coverage in the figure's own unit.

    None where there is no interval: a prediction that measurement never covered has no chance either. An interval of
    no width (the figure was measured once) gives 1 or 0. `wider` takes the interval for so many times as wide.
    """
    if low is None or high is None or not (low > 0 and high > 0 and expected > 0 and limit > 0):
        return None
    distance = math.log(limit / expected)
    reach = wider * max(math.log(high / expected) if distance > 0 else math.log(expected / low), 0.0)
    if not reach:
        return float(distance >= 0)
    return float(min(max(_student(distance / reach * _steps(nominal)), LEAST), MOST))


def chance_of_all(chances: Sequence[float | None]) -> float | None:
    """Return the chance that all of several limits are kept; None where one is not known, 1 where there are none.

    Errors of one configuration go together (who is slow at first is slow later), so the truth lies between the product
    and the smallest of them: their geometric mean.
    """
    matching_chances = [chance for chance in chances if chance is not None]
    if len(matching_chances) < len(chances):
        return None
    return math.sqrt(math.prod(matching_chances) * min(matching_chances)) if matching_chances else 1.0


def _student(steps: Any) -> Any:
    """Student's t with four degrees of freedom, scaled to hold 80 % where a normal distribution does; of one or many."""
    t = steps * (_T80 / _Z80)
    root = (4 + t * t) ** 0.5
    return 0.5 + t / root * (0.5 + 1 / root**2)


_Z80, _T80 = 1.2815515655446004, 1.5332062740589439


@cache
def _steps(nominal: float) -> float:
    """How many spreads an interval of this coverage reaches."""
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * _student(middle) - 1 < nominal else (low, middle)
    return (low + high) / 2
