"""What a few measured kernels of a device correct: a Gaussian process over what the learned model leaves of them.

Kernels that spend their time alike (floor, arithmetic, traffic) are off alike, and so are kernels of like sizes. The
spreads were chosen on devices that were held out one by one (`python -m benchmarks.accuracy kernels`).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from predictor.features.table import Array, Matrix
from predictor.kernels.columns import ATTENTION, MOVING, PRODUCT, Columns
from predictor.kernels.fitting import FittedClass
from predictor.kernels.physics import shares_of
from predictor.learning.single_thread import single_threaded

__all__ = ["Corrected"]

DEVICE, PART, NEAR, NOISE = 0.08, 0.15, 0.12, 0.1
"""Standard deviations in log units: of a device as a whole, of each part of the time, of kernels of like sizes, of one."""
REACH = 2.3
"""Octaves within which kernels are of like sizes."""
ODD = 2.5
"""A measurement that lies more standard deviations off what the others say counts less."""
ROUNDS = 4
_SIZES = {
    PRODUCT: ("batch", "m", "n", "k"),
    ATTENTION: ("batch", "heads", "queries", "keys"),
    MOVING: ("rows", "row", "moved"),
}


class Corrected:
    """A learned class of kernels with what was measured of one device."""

    def __init__(self, fitted: FittedClass, shots: Columns, seconds: Array) -> None:
        """Take kernels that were measured on the device and their seconds."""
        self.fitted = fitted
        self._shots = shots
        left = self._left = np.log(seconds / fitted.seconds(shots))
        weights = np.ones(len(left))
        with single_threaded():
            covariance = self._covariance(shots, shots)
            for _ in range(ROUNDS):
                inverse = np.linalg.inv(covariance + np.diag(NOISE**2 / weights))
                self._solved = inverse @ left
                off = np.abs(self._solved / np.diag(inverse)) * np.sqrt(np.diag(inverse))
                weights = np.clip(ODD / np.maximum(off, 1e-9), 0.05, 1.0)
            self._inverse, self._noise = inverse, NOISE**2 / weights

    def seconds(self, columns: Columns) -> Array:
        """Return the corrected seconds of kernels on the device."""
        with single_threaded():
            moved = self._covariance(columns, self._shots) @ self._solved
        return np.asarray(self.fitted.seconds(columns) * np.exp(moved), dtype=np.float64)

    def spread(self, columns: Columns) -> Array:
        """Return the standard deviation, in log units, of a kernel about its corrected seconds."""
        across = self._covariance(columns, self._shots)
        own = DEVICE**2 + NEAR**2 + PART**2 * np.square(self._shares(columns)).sum(axis=1)
        left = own - np.einsum("ij,jk,ik->i", across, self._inverse, across, optimize=True)
        return np.asarray(np.sqrt(np.maximum(left, 0.0) + NOISE**2), dtype=np.float64)

    def left_out(self) -> tuple[Array, Array]:
        """Return for each shot what the others alone say: its seconds, and the standard deviation as `spread` gives it."""
        each = np.diag(self._inverse)
        moved = self._left - self._solved / each
        spread = np.sqrt(np.maximum(1.0 / each - self._noise, 0.0) + NOISE**2)
        return np.asarray(self.fitted.seconds(self._shots) * np.exp(moved), dtype=np.float64), spread

    def widening(self, share: float) -> float:
        """Return by how much spreads must grow for intervals of a share to hold the shots, each said by the others; 1 or more.

        The share is that of one more shot, so that few shots widen more.
        """
        seconds, spread = self.left_out()
        off = np.sort(np.abs(self._left - np.log(seconds / self.fitted.seconds(self._shots))) / spread)
        place = min(math.ceil(share * (len(off) + 1)), len(off)) - 1
        return max(1.0, float(off[place]) / NormalDist().inv_cdf((1.0 + share) / 2))

    def _covariance(self, some: Columns, others: Columns) -> Matrix:
        places, towards = self._places(some), self._places(others)
        apart = (
            np.square(places).sum(axis=1)[:, None] + np.square(towards).sum(axis=1)[None] - 2 * places @ towards.T
        ) / REACH**2
        return np.asarray(
            DEVICE**2
            + PART**2 * self._shares(some) @ self._shares(others).T
            + NEAR**2 * np.exp(-0.5 * np.maximum(apart, 0.0))
        )

    def _shares(self, columns: Columns) -> Matrix:
        return shares_of(self.fitted.name, self.fitted.parameters, columns)

    def _places(self, columns: Columns) -> Matrix:
        return np.column_stack([np.log2(columns.sizes[name]) for name in _SIZES[self.fitted.name]])
