"""What a runtime makes of weights and activations: a constant, so many bytes a byte of weights, so many of activations.

Fitted for each runtime, then for each mode, option, device and precision within it, each shrunk to what it is part of:
with few rows a part is like the whole. None of the three is ever negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix

__all__ = ["Lines", "fit_lines", "parts_of"]

UNIT = 1e8
"""Bytes of constant that weigh in shrinkage as one byte a byte does."""
ANYWHERE = (1.0, 1.0, 1.0)
"""Before anything is measured: 100 MB of runtime, and weights and activations as they are."""
HELD = 12.0
"""How many rows' worth of pull a part has to what it is part of, in relative errors of a row of the usual size."""
POWER = 0.7
"""Errors count relative to the need to this power: by ratio alone a fit would settle at the small ones."""
SMALLEST = 0.1
"""Needs below this share of the usual one weigh as it does: what is said to be nearly nothing is often not counted."""
ODD = 0.3
ROUNDS = 4
SWEEPS = 60

Part = tuple[object, ...]


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients (constant in `UNIT`, per byte of weights, per byte of activations) by part."""

    by_part: dict[Part, tuple[float, float, float]]

    def of(self, row: Row, weights_bytes: float, activations_bytes: float) -> float:
        """Return the bytes that a row's part would need, by the narrowest part that was measured."""
        matching_parts = [part for part in parts_of(row) if part in self.by_part]
        constant, weight, activation = self.by_part[matching_parts[-1]]
        return max(constant * UNIT + weight * weights_bytes + activation * activations_bytes, 1.0)


def parts_of(row: Row) -> list[Part]:
    """Return the parts that a row belongs to, from the widest to the narrowest."""
    whole = (
        row.platform,
        row.runtime,
        row.mode,
        repr(sorted(row.options.items(), key=repr)),
        row.hardware,
        row.precision,
    )
    return [(), *(whole[:length] for length in range(2, len(whole) + 1))]


def fit_lines(rows: Sequence[Row], weights: Array, activations: Array, needs: Array) -> Lines:
    """Return the lines of rows; `weights`, `activations` and `needs` in bytes, one entry a row."""
    members: dict[Part, list[int]] = {}
    for index, row in enumerate(rows):
        for part in parts_of(row):
            members.setdefault(part, []).append(index)
    design = np.column_stack([np.full(len(needs), UNIT), weights, activations])
    by_part: dict[Part, tuple[float, float, float]] = {(): ANYWHERE}
    for part in sorted(members, key=lambda part: (len(part), repr(part))):
        within = by_part[part[:-1] if len(part) > 2 else ()]
        here = np.array(members[part], dtype=np.intp)
        by_part[part] = _line(design[here], needs[here], within)
    return Lines(by_part=by_part)


def _line(design: Matrix, needs: Array, within: tuple[float, float, float]) -> tuple[float, float, float]:
    """Non-negative least squares about the coefficients of the wider part; odd rows count less."""
    usual = float(np.median(needs))
    scale = 1 / (usual * np.power(np.maximum(needs / usual, SMALLEST), POWER))
    pull = HELD * np.square(np.abs(design * scale[:, None]).mean(axis=0)) + 1e-9
    centre = np.array(within)
    weights: NDArray[np.float64] = np.ones(len(needs))
    not_negative = centre
    for _ in range(ROUNDS):
        weighed = design * (weights * scale**2)[:, None]
        not_negative = _not_negative(weighed.T @ design + np.diag(pull), weighed.T @ needs + pull * centre)
        off = np.abs(np.log(np.maximum(design @ not_negative, 1.0) / needs))
        weights = np.minimum(1.0, ODD / np.maximum(off, 1e-9))
    return tuple(round(float(item), 9) for item in not_negative)  # type: ignore[return-value]


def _not_negative(normal: Matrix, right: Array) -> Array:
    """Solve least squares in its normal form, each unknown at least 0, one unknown after the other."""
    zeros = np.zeros(len(right))
    for _ in range(SWEEPS):
        for place in range(len(right)):
            others = float(normal[place] @ zeros) - float(normal[place, place] * zeros[place])
            zeros[place] = max(0.0, (float(right[place]) - others) / float(normal[place, place]))
    return zeros
