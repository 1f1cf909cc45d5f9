"""What siblings say of each piece of work: its level, how each software configuration shifts a device, and the rest.

log figure = level of the piece + shift of (software, device) + profile of the piece on the device. Levels and shifts
are fitted with weights that forget odd figures; a profile that was not measured is filled in from few factors.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix

__all__ = ["Levels", "decompose"]

FACTORS = 6
FACTOR_PENALTY = 1.0
ODD = 0.3
"""Log distance beyond which a figure counts less, in proportion: such figures are other software paths, not noise."""
ROUNDS = 30
FACTOR_ROUNDS = 25

Bools = NDArray[np.bool_]
Indexes = NDArray[np.intp]


class Levels(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """By piece: `level` (pieces,), `profile` (pieces, devices), `scatter` (pieces,), all in log units.

    `shifts` (software, devices) say how far off its level a device does the pieces of a software configuration.
    `scale` (software,) numbers what levels compare among: software configurations that no device joins have scales apart.
    """

    level: Array
    profile: Matrix
    scatter: Array
    shifts: Matrix
    scale: Indexes


def decompose(figures: Matrix, software: Sequence[int] | Indexes) -> Levels:
    """Return the levels of log figures (pieces, devices); NaN is what nobody measured; `software` numbers each piece."""
    groups = np.asarray(software, dtype=np.intp)
    seen = np.isfinite(figures)
    values = np.where(seen, figures, 0.0)
    level, shifts = _levels_and_shifts(values, seen, groups)
    rest = np.where(seen, values - level[:, None] - shifts[groups], 0.0)
    profile = np.where(seen, rest, _low_rank(rest, seen))
    counts = seen.sum(axis=1)
    scatter = np.sqrt((np.square(rest).sum(axis=1) + 2 * 0.05**2) / (counts + 2))
    zeros = np.zeros(shifts.shape, dtype=bool)
    np.logical_or.at(zeros, groups, seen)
    return Levels(level=level, profile=profile, scatter=scatter, shifts=_filled(shifts, zeros), scale=_scales(zeros))


def _weights(rest: Matrix, seen: Bools) -> Matrix:
    return np.where(seen, np.minimum(1.0, ODD / np.maximum(np.abs(rest), 1e-9)), 0.0)


def _levels_and_shifts(values: Matrix, seen: Bools, groups: Indexes) -> tuple[Array, Matrix]:
    """First levels and one shift a device over all it did, so that levels compare; then each software's shift about it."""
    everything = np.zeros_like(groups)
    level = np.nanmedian(np.where(seen, values, np.nan), axis=1)
    level, device = _additive(values, seen, everything, level)
    level, software = _additive(values - device[everything], seen, groups, level)
    return level, device + software


def _additive(values: Matrix, seen: Bools, groups: Indexes, level: Array) -> tuple[Array, Matrix]:
    shifts = np.zeros((int(groups.max(initial=0)) + 1, values.shape[1]))
    for _ in range(ROUNDS):
        rest = values - level[:, None] - shifts[groups]
        weights = _weights(rest, seen)
        level = level + (weights * rest).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        rest = values - level[:, None] - shifts[groups]
        weights = _weights(rest, seen)
        total, mass = np.zeros_like(shifts), np.zeros_like(shifts)
        np.add.at(total, groups, weights * (rest + shifts[groups]))
        np.add.at(mass, groups, weights)
        # What all devices share belongs to the level: the shifts of a software configuration weigh out to none.
        centre = total.sum(axis=1) / np.maximum(mass.sum(axis=1), 1e-9)
        shifts = np.where(mass > 0, total / np.maximum(mass, 1e-9) - centre[:, None], 0.0)
    return np.asarray(level, dtype=np.float64), shifts


def _filled(shifts: Matrix, bools: Bools) -> Matrix:
    """A device that never ran a software configuration is shifted as it is on the others."""
    mean = np.where(bools, shifts, 0.0).sum(axis=0) / np.maximum(bools.sum(axis=0), 1)
    return np.where(bools, shifts, mean)


def _scales(bools: Bools) -> Indexes:
    """Number the software configurations (software, devices) that are joined by devices which ran several of them."""
    scale = np.arange(len(bools))
    for _ in range(len(bools)):
        ofdevice = np.where(bools, scale[:, None], len(bools)).min(axis=0)
        joined = np.minimum(np.where(bools, ofdevice[None], len(bools)).min(axis=1), scale)
        if (joined == scale).all():
            break
        scale = joined
    return scale


def _low_rank(rest: Matrix, seen: Bools) -> Matrix:
    """Return the rest as few factors of pieces times as many of devices, by alternating ridge fits."""
    devices = rest.shape[1]
    count = min(FACTORS, max(devices - 1, 1))
    weights = _weights(rest, seen)
    ofdevice = np.random.default_rng(0).normal(scale=0.3, size=(devices, count))
    ofpiece = np.zeros((rest.shape[0], count))
    for _ in range(FACTOR_ROUNDS):
        ofpiece = _ridge(ofdevice, rest, weights)
        ofdevice = _ridge(ofpiece, rest.T, weights.T)
    return ofpiece @ ofdevice.T


def _ridge(design: Matrix, targets: Matrix, weights: Matrix) -> Matrix:
    """Return one row of coefficients for each row of targets (n, m), each with its own weights, on a design (m, k)."""
    normal = np.einsum("nm,mj,mk->njk", weights, design, design, optimize=True)
    normal += FACTOR_PENALTY * np.eye(design.shape[1])
    right = (weights * targets) @ design
    return np.asarray(np.linalg.solve(normal, right[:, :, None])[:, :, 0], dtype=np.float64)
