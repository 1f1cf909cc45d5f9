"""Calibration: a few measurements on a device tell how far it lies from what was predicted for it.

One calibration a software configuration (device, platform, runtime, precision, compiled, layout), never mixed. It is a
shrunken offset of the log residual, and from five models on also a slope on the balance between arithmetic and
traffic. Trees are never refitted on a handful of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from predictor.learning.conformal import COVERAGES, width
from predictor.learning.dataset import SoftwareKey
from predictor.learning.table import Array

__all__ = ["Base", "Calibration", "Fit", "calibrate", "fit_offset", "leave_one_model_out", "widths_from_errors"]

Base = str
"""What is corrected: `trees` (their prediction) or `roofline` (the plain prior)."""

SLOPE_FROM_MODELS = 5
SLOPE_PENALTY = 4.0
HUBER = 1.0
ROUNDS = 6
CONFORMAL_FROM_MODELS = 19
"""From here on the models' own errors give the 90 % width; with fewer a shrunken variance does."""
PRIOR_MODELS = 4.0
"""How many models the spread seen in training counts as, beside those measured here."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """correction = offset + slope · (balance − centre), in log units."""

    offset: float
    slope: float = 0.0
    centre: float = 0.0

    def correction(self, balance: Array) -> Array:
        """Return what is added to the log prediction."""
        return np.asarray(self.offset + self.slope * (balance - self.centre), dtype=np.float64)


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A fit, whom it is for, what it rests on, and how wide its intervals are (half-widths in log units)."""

    software: SoftwareKey
    base: Base
    fit: Fit
    models: int
    rows: int
    error: float
    widths: dict[str, float]
    categories: list[str] = []
    evidence: list[str] = []


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


def leave_one_model_out(
    residuals: Array, balances: Array, models: Sequence[str], *, between: float, within: float
) -> Array:
    """Return, for each row, the log error that is left when its model takes no part in the fit."""
    names = np.asarray(models, dtype=str)
    errors = np.zeros(len(residuals))
    for name in np.unique(names):
        out = names == name
        fit = fit_offset(residuals[~out], balances[~out], names[~out].tolist(), between=between, within=within)
        errors[out] = residuals[out] - fit.correction(balances[out])
    return errors


def calibrate(
    software: SoftwareKey,
    base: Base,
    residuals: Array,
    balances: Array,
    models: Sequence[str],
    *,
    between: float,
    within: float,
    categories: Sequence[str] = (),
    evidence: Sequence[str] = (),
) -> Calibration:
    """Return the calibration of one software configuration from its measured rows, with honest widths."""
    errors = leave_one_model_out(residuals, balances, models, between=between, within=within)
    count = len(set(models))
    fit = fit_offset(residuals, balances, models, between=between, within=within)
    return Calibration(
        software=software,
        base=base,
        fit=Fit(offset=round(fit.offset, 9), slope=round(fit.slope, 9), centre=round(fit.centre, 9)),
        models=count,
        rows=len(residuals),
        error=round(float(np.mean(np.abs(errors))), 6),
        widths={
            str(nominal): round(reach, 6)
            for nominal, reach in widths_from_errors(errors, models, between=between, within=within).items()
        },
        categories=sorted(set(categories)),
        evidence=list(evidence),
    )


_NORMAL = {0.5: 0.6745, 0.8: 1.2816, 0.9: 1.6449}


def widths_from_errors(errors: Array, models: Sequence[str], *, between: float, within: float) -> dict[float, float]:
    """Return half-widths by nominal coverage from errors that were made with each model left out.

    With many models their own conformal widths; with few, widths from a variance shrunk to what training saw.
    """
    count = len(set(models))
    if count >= CONFORMAL_FROM_MODELS:
        return {nominal: width(errors, nominal, models) for nominal in COVERAGES}
    weights = _model_weights(models)
    seen = float((weights * errors**2).sum()) if count > 1 else 0.0
    known = count if count > 1 else 0
    offset_error = within**2 * between**2 / (within**2 + count * between**2)
    variance = (seen + PRIOR_MODELS * within**2) / (known + PRIOR_MODELS) + offset_error
    # Heavier tails than a normal's: Student's factor at this few degrees of freedom.
    tails = 1 + 1.5 / (known + PRIOR_MODELS)
    return {nominal: _NORMAL[nominal] * tails * math.sqrt(variance) for nominal in COVERAGES}


def _model_weights(models: Sequence[str]) -> Array:
    names = np.asarray(models, dtype=str)
    _, inverse, sizes = np.unique(names, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / sizes[inverse], dtype=np.float64)
