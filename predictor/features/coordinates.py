"""Where work lies among other work: the inputs of a field, from the features of a table."""

from __future__ import annotations

import msgspec
import numpy as np

from domain.performance.roofline import OPERATOR_CLASSES
from predictor.features.features import FEATURES
from predictor.features.operator_shapes import SHAPES
from predictor.features.table import Array, Matrix

__all__ = ["WIDE", "Scales"]

WIDE = (*FEATURES, *SHAPES)
"""The features of a table and those of its shapes, side by side."""
_SHARES = ("time_share.", "kind_share.")
_CLASSED = ("inner.", "positions.", "intensity.", "log_size.", "class_balance.")
_PLAIN = (
    "balance",
    "log_operators",
    "launch_share",
    "log_floored",
    "compute_bound_share",
    "cache_share",
    "under_5us_share",
    "under_20us_share",
    "largest_share",
    "log_peak_activation",
    "log_activations_per_weight",
    "log_flops_per_activation",
    "log_batch",
    "log_image",
    "log_prior",
    "log_distinct",
    *SHAPES[-12:],
)
SHARE_REACH = 2.0
"""Shares enter by their roots, twice as far apart as lengths: work of other kinds is farther than of other sizes."""
PLAIN_REACH = 0.3
"""Totals and sizes say little about likeness beside what the time is spent on."""


class Scales(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Mean and spread of each wide feature over the rows that trained."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, values: Matrix) -> Scales:
        """Return the scales of wide features, (rows, len(WIDE)); what no row has counts as 0 and 1."""
        isfinite = np.isfinite(values)
        count = np.maximum(isfinite.sum(axis=0), 1)
        mean = np.where(isfinite, values, 0.0).sum(axis=0) / count
        spread = np.sqrt(np.where(isfinite, (values - mean) ** 2, 0.0).sum(axis=0) / count)
        return cls(mean=mean, spread=np.where(spread > 1e-6, spread, 1.0))

    def places(self, values: Matrix) -> Matrix:
        """Return the inputs of a field for wide features.

        Roots of shares; shapes of a class, which count as much as the class takes of the time; and totals. A shape that
        a row has not lies in the middle.
        """
        usual = np.where(np.isfinite(values), (values - self.mean) / self.spread, 0.0)
        columns: list[Array] = []
        for index, name in enumerate(WIDE):
            stem, _, kind = name.rpartition(".")
            if name.startswith(_SHARES):
                columns.append(SHARE_REACH * np.sqrt(np.maximum(values[:, index], 0.0)))
            elif name.startswith(_CLASSED) and kind in OPERATOR_CLASSES:
                share = values[:, WIDE.index(f"time_share.{kind}")]
                columns.append(usual[:, index] * np.sqrt(np.maximum(share, 0.0)))
            elif not stem and name in _PLAIN:
                columns.append(PLAIN_REACH * usual[:, index])
        return np.column_stack(columns)
