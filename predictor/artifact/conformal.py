"""Split conformal intervals on |log error|, one width for each level of extrapolation.

A width is a quantile of the absolute log errors made on held-out groups: the interval is prediction × e^±width. Where
errors come in groups (families, devices) every group weighs the same and the correction for finite samples counts
groups, because the next question brings a new group and not another row of a known one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["COVERAGES", "LEVELS", "Widths", "coverage", "rescaled", "width", "width_between"]

LEVELS = ("interpolation", "new_architecture", "new_family", "new_hardware")
"""From the nearest to the farthest; the last one is never covered by anything we measured."""
COVERAGES = (0.5, 0.8, 0.9)

Array = NDArray[np.float64]
_TINY = 1e-12


def width(log_errors: Array, nominal: float, groups: Sequence[Any] | None = None) -> float:
    """Return the half-width in log units that covers a share `nominal` of what comes next; inf where too few are known.

    Without groups each error is one draw; with groups each group is one draw of equal weight.
    """
    errors = np.abs(np.asarray(log_errors, dtype=np.float64))
    if groups is None:
        weights = np.ones(len(errors))
        draws = len(errors)
    else:
        _, inverse, sizes = np.unique(np.asarray(groups, dtype=str), return_inverse=True, return_counts=True)
        weights = 1.0 / sizes[inverse]
        draws = len(sizes)
    if draws == 0:
        return math.inf
    order = np.argsort(errors, kind="stable")
    # One more draw, infinitely far off, stands for the point to come: this is what makes the coverage hold.
    reached = np.cumsum(weights[order]) / (draws + 1)
    index = int(np.searchsorted(reached, nominal - 1e-12))
    return float(errors[order[index]]) if index < len(errors) else math.inf


def width_between(log_errors: Array, nominal: float, groups: Sequence[Any]) -> float:
    """Return the half-width that covers a share `nominal` of the next group, as the mean over groups; inf for one group.

    Each group is left out in turn: the quantile of the others is multiplied by the factor that covers the share on
    what was left out. `width` guards against groups whose errors all move together and is too wide for groups that
    are alike; this measures how far groups differ, and needs no more than two of them.
    """
    errors = np.abs(np.asarray(log_errors, dtype=np.float64))
    names, inverse, sizes = np.unique(np.asarray(groups, dtype=str), return_inverse=True, return_counts=True)
    if len(names) < 2:
        return math.inf
    weights = 1.0 / sizes[inverse]
    beside = np.zeros(len(errors))
    for group in range(len(names)):
        here = inverse == group
        beside[here] = errors[here] / max(_quantile(errors[~here], weights[~here], nominal), _TINY)
    return _quantile(beside, weights, nominal) * _quantile(errors, weights, nominal)


def rescaled(log_errors: Array, widths: Array, nominal: float, groups: Sequence[Any]) -> Array:
    """Return half-widths multiplied, for each group, by the factor that the other groups' errors ask for.

    Where fewer than two other groups have widths they stay as they are; NaN is no width and stays.
    """
    names = np.asarray(groups, dtype=str)
    answer = np.array(widths, dtype=np.float64)
    beside = np.abs(log_errors) / np.maximum(answer, _TINY)
    value = np.isfinite(answer)
    for name in np.unique(names):
        others = value & (names != name)
        factor = width_between(beside[others], nominal, names[others].tolist())
        if math.isfinite(factor):
            answer[names == name] *= factor
    return answer


def _quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    index = int(np.searchsorted(reached, share * reached[-1] - 1e-12))
    return float(values[order[min(index, len(values) - 1)]])


def coverage(log_errors: Array, widths: Array | float) -> float:
    """Return the share of errors within their widths."""
    return float(np.mean(np.abs(log_errors) <= widths))


class Widths(msgspec.Struct, frozen=True, kw_only=True):
    """Half-widths in log units by level and by nominal coverage (`"0.8"`), and on how many rows they rest."""

    by_level: dict[str, dict[str, float | None]]
    rows: dict[str, int]

    @classmethod
    def fitted(cls, errors: dict[str, tuple[Array, Sequence[Any] | None]]) -> Widths:
        """Take held-out log errors, and their groups, of each level.

        A farther level is never given a narrower width than a nearer one: chance in few groups is no knowledge.
        """
        by_level: dict[str, dict[str, float | None]] = {}
        floor = dict.fromkeys(COVERAGES, 0.0)
        for level in LEVELS:
            if level not in errors:
                continue
            values, groups = errors[level]
            for nominal in COVERAGES:
                floor[nominal] = max(floor[nominal], width(values, nominal, groups))
            by_level[level] = {
                str(nominal): round(reach, 6) if math.isfinite(reach) else None for nominal, reach in floor.items()
            }
        return cls(by_level=by_level, rows={level: len(values) for level, (values, _) in errors.items()})

    def of(self, level: str, nominal: float = 0.8) -> float | None:
        """Return the half-width, or None where this level was never measured or has too few groups."""
        return self.by_level.get(level, {}).get(str(nominal))
