"""How sure predictions are of each other: a Gaussian process over the log errors of configurations.

The error of a configuration is that of its software configuration (how far a device's real speed lies from its data
sheet, and how that depends on the balance of arithmetic and traffic), that of models like it there, and its own.
Measuring one tells of all that share something with it; by how much is what the choice of measurements goes by.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np

from predictor.features.table import Array, Matrix

__all__ = ["Belief", "Kernel", "Points", "covariance"]


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Of what is left of the variance when the device's offset is taken out, `near` is shared by models alike.

    `slope` is the variance along one unit of balance (log arithmetic over traffic) beside 1 of the offset. Reaches are
    distances at which likeness has fallen to 61 %: `mix_reach` between op mixes (Hellinger's, 0 to 1), `balance_reach` and `work_reach` in log units. `noise` is the spread of measuring twice.
    """

    slope: float = 0.1
    near: float = 0.5
    mix_reach: float = 0.4
    balance_reach: float = 1.0
    work_reach: float = 4.0
    noise: float = 0.02


class Points(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Configurations, one entry each.

    `software` says what is calibrated together. `mix` is (configurations, classes), shares of roofline time; `balance`
    and `work` are logarithms (of arithmetic over traffic, of the roofline's seconds). `spread` is the standard deviation
    of the log error, `common` the share of its variance that all of the software configuration have in common.
    """

    software: Sequence[Hashable]
    mix: Matrix
    balance: Array
    work: Array
    spread: Array
    common: Array

    def __len__(self) -> int:
        return len(self.software)


def covariance(points: Points, kernel: Kernel) -> Matrix:
    """Return the covariances of the log errors of some configurations, (n, n); software that differs shares nothing."""
    groups: dict[Hashable, int] = {}
    codes = np.array([groups.setdefault(name, len(groups)) for name in points.software], dtype=np.intp)
    same = codes[:, None] == codes[None, :]
    slope = _centred(points.balance, codes) * np.sqrt(kernel.slope)
    shared = (1 + np.outer(slope, slope)) / np.sqrt(np.outer(1 + slope**2, 1 + slope**2))
    alike = np.exp(-0.5 * _distance(points, kernel))
    common = np.sqrt(np.outer(points.common, points.common))
    rest = np.sqrt(np.outer(1 - points.common, 1 - points.common))
    likeness = np.where(same, common * shared + rest * kernel.near * alike, 0.0)
    np.fill_diagonal(likeness, 1.0)
    return np.asarray(likeness * np.outer(points.spread, points.spread), dtype=np.float64)


def _distance(points: Points, kernel: Kernel) -> Matrix:
    """Squared distances in units of the reaches."""
    places = [
        np.sqrt(np.maximum(points.mix, 0.0)) / (np.sqrt(2) * kernel.mix_reach),
        points.balance[:, None] / kernel.balance_reach,
        points.work[:, None] / kernel.work_reach,
    ]
    # Likeness has to fall with a Euclidean distance to be a covariance; between shares that is Hellinger's.
    place = np.hstack(places)
    squares = (place**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares[None, :] - 2 * place @ place.T, 0.0), dtype=np.float64)


def _centred(balance: Array, codes: np.ndarray) -> Array:
    centred = np.zeros(len(balance))
    for code in np.unique(codes):
        here = codes == code
        centred[here] = balance[here] - np.median(balance[here])
    return centred


class Belief:
    """What is known about the errors so far; measuring changes it."""

    def __init__(self, covariances: Matrix, noise: float) -> None:
        """Take the covariances before anything is measured; they are not changed."""
        self._covariances = covariances.copy()
        self._noise = noise**2

    @property
    def variance(self) -> Array:
        """The variance of each configuration's log error."""
        return np.diag(self._covariances).copy()

    def fall(self, index: int) -> Array:
        """Return by how much the variance of each configuration would fall if this one were measured."""
        column = self._covariances[index]
        return np.asarray(column**2 / (column[index] + self._noise), dtype=np.float64)

    def gains(self, weights: Array) -> Array:
        """Return for each configuration the weighted sum of what measuring it would take from the variances."""
        own = np.diag(self._covariances) + self._noise
        return np.asarray((self._covariances**2) @ weights / own, dtype=np.float64)

    def measure(self, index: int) -> None:
        """Take one configuration as measured."""
        column = self._covariances[index].copy()
        self._covariances -= np.outer(column, column) / (column[index] + self._noise)
