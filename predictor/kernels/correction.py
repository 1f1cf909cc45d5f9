"""Correct a learned class of kernels by a few kernels that were measured on a device, with a Gaussian process.

The process runs over what the learned model leaves of the measured kernels. A device deviates as a whole, in each part of
the time (floor, arithmetic, traffic), and each of its software adds its own deviations, which kernels of like sizes share.
The spreads were chosen on the devices that `python -m benchmarks.accuracy gemm-20` scores. Chosen on one half of them, the
other half is 0.1 to 0.3 points worse than that line says.
"""

from __future__ import annotations

from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix
from predictor.kernels.columns import ATTENTION, MOVING, PRODUCT, Columns
from predictor.kernels.fitting import FittedClass
from predictor.kernels.physics import seconds_of, shares_of
from predictor.learning.single_thread import single_threaded

__all__ = ["Corrected"]


DEVICE, PARTS, FLOOR = 0.05, 0.1, 0.4
"""Standard deviations in log units that all software of a device shares: of all its kernels, of each part of the time, of
the floor alone."""
SOFTWARE, SOFTWARE_PARTS, NEAR = 0.03, 0.03, 0.1
"""What a software adds: to all its kernels, to each part of the time, to kernels of like sizes."""
NOISE = 0.14
"""Of one kernel."""
REACH = 1.7
"""Octaves within which kernels are of like sizes."""
ODD = 1.2
"""A measurement that lies more standard deviations off what the others say counts less."""
LEAST_WEIGHT = 0.05
ROUNDS = 4
USUAL_SHOTS = 5
"""As many kernels of a usual device stand beside a device's own when the width of its intervals is set."""
_SIZES: dict[str, dict[str, float]] = {
    PRODUCT: {"batch": 1.0, "m": 0.5, "n": 1.0, "k": 1.0},
    ATTENTION: {"batch": 1.0, "heads": 1.0, "queries": 1.0, "keys": 1.0},
    MOVING: {"rows": 1.0, "row": 1.0, "moved": 1.0},
}
"""Sizes by which kernels are alike; an octave of one counts as so many."""


class _View(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the process sees of kernels."""

    shares: Matrix
    floor: Array
    sizes: Matrix
    software: NDArray[np.str_]


class Corrected:
    """A learned class of kernels with what was measured of one device."""

    def __init__(
        self, fitted: FittedClass, shots: Columns, seconds: Array, software: NDArray[np.str_] | None = None
    ) -> None:
        """Take kernels that were measured on the device, their seconds, and the software of each if there are several."""
        self.fitted = fitted
        self._shots = self._view(shots, software)
        self._shot_columns, self._left = shots, np.log(seconds / fitted.seconds(shots))
        left = self._left
        weights: Array = np.ones(len(left))
        with single_threaded():
            covariance = _covariance(self._shots, self._shots)
            for _ in range(ROUNDS):
                noise = NOISE**2 / weights
                inverse = np.linalg.inv(covariance + np.diag(noise))
                solved = inverse @ left
                off = np.abs(solved) / np.sqrt(np.diag(inverse))
                weights = np.clip(ODD / np.maximum(off, 1e-9), LEAST_WEIGHT, 1.0)
        self._inverse, self._solved, self._noise = inverse, solved, noise

    def seconds(self, columns: Columns, software: NDArray[np.str_] | None = None) -> Array:
        """Return the corrected seconds of kernels on the device."""
        with single_threaded():
            moved = _covariance(self._view(columns, software), self._shots) @ self._solved
        return np.asarray(self.fitted.seconds(columns) * np.exp(moved), dtype=np.float64)

    def spread(self, columns: Columns, software: NDArray[np.str_] | None = None) -> Array:
        """Return the standard deviation, in log units, of a kernel about its corrected seconds."""
        view = self._view(columns, software)
        with single_threaded():
            across = _covariance(view, self._shots)
            left = _own(view) - np.einsum("ij,jk,ik->i", across, self._inverse, across, optimize=True)
        return np.asarray(np.sqrt(np.maximum(left, 0.0) + NOISE**2), dtype=np.float64)

    def half_width(self, columns: Columns, nominal: float, software: NDArray[np.str_] | None = None) -> Array:
        """Return the half-width in log units of the interval that holds the share `nominal` of kernels."""
        return self.reach(nominal) * self.spread(columns, software)

    def reach(self, nominal: float) -> float:
        """Return how many spreads to either side hold the share `nominal` of kernels.

        It is as many as the device's own kernels lie off what the others say of them, beside `USUAL_SHOTS` kernels of a
        usual device.
        """
        apart = np.abs(self._solved / np.diag(self._inverse)) / self.left_out()[1]
        usual, count = NormalDist().inv_cdf((1 + nominal) / 2), len(apart)
        reach = float(np.quantile(apart, min(1.0, nominal * (count + 1) / count))) if count else usual
        return (count * reach + USUAL_SHOTS * usual) / (count + USUAL_SHOTS)

    def left_out(self) -> tuple[Array, Array]:
        """Return for each shot what the others alone say: its seconds, and the standard deviation as `spread` gives it."""
        each = 1.0 / np.diag(self._inverse)
        moved = self._left - self._solved * each
        spread = np.sqrt(np.maximum(each - self._noise, 0.0) + NOISE**2)
        return np.asarray(self.fitted.seconds(self._shot_columns) * np.exp(moved), dtype=np.float64), spread

    def _view(self, columns: Columns, software: NDArray[np.str_] | None) -> _View:
        name, parameters = self.fitted.name, self.fitted.parameters
        sizes = [octave * np.log2(columns.sizes[size]) for size, octave in _SIZES[name].items()]
        return _View(
            shares=shares_of(name, parameters, columns),
            floor=parameters.floor_s(columns.regime) / seconds_of(name, parameters, columns),
            sizes=np.column_stack(sizes) / REACH,
            software=np.full(len(columns), "") if software is None else software,
        )


def _covariance(some: _View, others: _View) -> Matrix:
    shares = some.shares @ others.shares.T
    apart = (
        np.square(some.sizes).sum(axis=1)[:, None]
        + np.square(others.sizes).sum(axis=1)[None]
        - 2 * some.sizes @ others.sizes.T
    )
    near = np.exp(-0.5 * np.maximum(apart, 0.0))
    same = some.software[:, None] == others.software[None]
    return np.asarray(
        DEVICE**2
        + PARTS**2 * shares
        + FLOOR**2 * np.outer(some.floor, others.floor)
        + same * (SOFTWARE**2 + SOFTWARE_PARTS**2 * shares + NEAR**2 * near)
    )


def _own(view: _View) -> Array:
    """Return the variance of each kernel."""
    shares = np.square(view.shares).sum(axis=1)
    return np.asarray(
        DEVICE**2 + SOFTWARE**2 + NEAR**2 + (PARTS**2 + SOFTWARE_PARTS**2) * shares + FLOOR**2 * np.square(view.floor)
    )
