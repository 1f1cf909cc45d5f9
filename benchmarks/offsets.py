"""Offsets: the plain correction that the predictor's calibration is measured against.

What was measured with one software configuration moves its predictions by a shrunken offset of the log residual and,
from five models on, a slope on the balance between arithmetic and traffic.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from predictor.features.dataset import SoftwareKey, by_software
from predictor.features.table import Array, Table
from predictor.learning.method import Base, Prediction, Predictive

__all__ = ["BETWEEN_DEVICES", "WITHIN_DEVICE", "Fit", "OffsetMethod", "Shifted", "fit_offset"]

BETWEEN_DEVICES = 0.25
"""Spread of devices about trees, in log units, that shrinks an offset. A round figure above the 0.14 that timm's devices
showed when held out: five are few."""
WITHIN_DEVICE = 0.15
"""Spread of the models of one device about its offset, in log units; a round figure."""
SLOPE_FROM_MODELS = 5
SLOPE_PENALTY = 4.0
HUBER = 1.0
ROUNDS = 6


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """correction = offset + slope · (balance − centre), in log units."""

    offset: float
    slope: float = 0.0
    centre: float = 0.0

    def correction(self, balance: Array) -> Array:
        """Return what is added to the log prediction."""
        return np.asarray(self.offset + self.slope * (balance - self.centre), dtype=np.float64)


def fit_offset(residuals: Array, balances: Array, models: Sequence[str], *, between: float, within: float) -> Fit:
    """Return the correction learned from the log residuals of some measured configurations.

    `between` is the spread of devices about the base (how far off a device may be), `within` that of the models of one
    device; both in log units. The offset is shrunk by their ratio: one model that lies far off is not a device that
    does. Every model counts once, however many rows it has.
    """
    if not len(residuals):
        return Fit(offset=0.0)
    counts = _model_weights(models)
    shrink = (within / max(between, 1e-6)) ** 2
    fit = Fit(offset=float(np.median(residuals)))
    for _ in range(ROUNDS):
        # Huber: a configuration far off the others is an odd one, and must not drag the rest with it.
        far = np.abs(residuals - fit.correction(balances))
        weights = counts * np.minimum(1.0, HUBER * within / np.maximum(far, 1e-9))
        fit = _weighted_fit(residuals, balances, weights, shrink, slope=counts.sum() >= SLOPE_FROM_MODELS)
    return fit


def _weighted_fit(residuals: Array, balances: Array, weights: Array, shrink: float, *, slope: bool) -> Fit:
    total = float(weights.sum())
    offset = float((weights * residuals).sum()) / (total + shrink)
    if not slope:
        return Fit(offset=offset)
    centre = float((weights * balances).sum()) / total
    centred = balances - centre
    gradient = float((weights * centred * (residuals - offset)).sum()) / (
        float((weights * centred**2).sum()) + SLOPE_PENALTY
    )
    return Fit(offset=offset, slope=gradient, centre=centre)


def _model_weights(models: Sequence[str]) -> Array:
    names = np.asarray(models, dtype=str)
    _, inverse, sizes = np.unique(names, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / sizes[inverse], dtype=np.float64)


class OffsetMethod:
    """A method whose predictions of what was measured are moved by offsets."""

    def __init__(self, method: Base) -> None:
        """Take the method that learns."""
        self.name, self._method = f"{method.name} and offsets", method

    def fit(self, table: Table) -> Unmoved:
        """Return what the rows teach, ready to be moved."""
        return Unmoved(self._method.fit(table))


class Unmoved:
    """What was learned, before anything was measured."""

    def __init__(self, base: Predictive) -> None:
        """Take what was learned."""
        self._base = base

    def predict(self, table: Table) -> Prediction:
        """Return what was learned."""
        return self._base.predict(table)

    def adapted(self, shots: Table) -> Shifted:
        """Return predictions moved by measured rows."""
        return Shifted(self._base, shots)


class Shifted:
    """Predictions that are moved, for each measured software configuration, by its shrunken offset."""

    def __init__(self, base: Predictive, shots: Table) -> None:
        """Fit the offsets of the configurations that the shots measured."""
        self._base = base
        left = shots.residual - base.predict(shots).residual
        balance = shots.column("balance")
        self._fits: dict[SoftwareKey, Fit] = {}
        for software, members in by_software(shots.rows).items():
            names = [shots.rows[index].model for index in members]
            self._fits[software] = fit_offset(
                left[members], balance[members], names, between=BETWEEN_DEVICES, within=WITHIN_DEVICE
            )

    def predict(self, table: Table) -> Prediction:
        """Return the moved residuals; what was not measured stays."""
        residual, balance = self._base.predict(table).residual.copy(), table.column("balance")
        for software, members in by_software(table.rows).items():
            if software in self._fits:
                residual[members] += self._fits[software].correction(balance[members])
        return Prediction.plain(residual)

    def adapted(self, shots: Table) -> Shifted:
        """Return predictions moved by these measurements instead."""
        return Shifted(self._base, shots)
