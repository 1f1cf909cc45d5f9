"""How hard a row is to predict, learned from the errors that were made on rows held out.

Intervals in units of difficulty are wide where errors were large and narrow where they were small. The errors that teach
difficulty must not be those that then tell the widths: `cross_fitted` gives each row what the other groups taught.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from predictor.learning.table import Array, Matrix

__all__ = ["Difficulty", "cross_fitted"]

FLOOR = 0.02
"""Log error below which rows are equally easy: what two runs of one configuration differ by."""
TREES, THREADS = 60, 1
FOLDS = 4
SETTINGS: dict[str, Any] = {
    "objective": "l1", "num_leaves": 15, "learning_rate": 0.08, "min_data_in_leaf": 60, "feature_fraction": 0.4,
    "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 20.0, "max_bin": 63, "seed": 1, "deterministic": True,
    "force_row_wise": True, "num_threads": THREADS, "verbose": -1,
}  # fmt: skip


class Difficulty:
    """Trees on the logarithm of the absolute error; about 1 for a usual row."""

    def __init__(self, text: str, usual: float) -> None:
        """Take LightGBM's text and the size of a usual error."""
        self.text, self.usual = text, usual
        self._booster: Any = None

    @classmethod
    def fitted(cls, values: Matrix, doubt: Array, errors: Array) -> Difficulty:
        """Return what held-out log errors teach; `doubt` is what the predictor itself finds hard. The same gives the same."""
        target = np.log(np.abs(errors) + FLOOR)
        data = lightgbm.Dataset(np.column_stack([values, doubt]), target, params=SETTINGS)
        text = lightgbm.train(SETTINGS, data, TREES).model_to_string()
        return cls(text, float(np.exp(np.median(target))))

    def of(self, values: Matrix, doubt: Array) -> Array:
        """Return the difficulty of each row, above 0."""
        if not len(values):
            return np.zeros(0)
        if self._booster is None:
            self._booster = lightgbm.Booster(model_str=self.text)
        found = self._booster.predict(np.column_stack([values, doubt]), num_threads=THREADS)
        return np.asarray(np.exp(found) / self.usual, dtype=np.float64)


def cross_fitted(values: Matrix, doubt: Array, errors: Array, groups: Sequence[Any] | NDArray[Any]) -> Array:
    """Return the difficulty of each row as rows of other groups teach it."""
    names, inverse = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    folds = (np.random.default_rng(0).permutation(len(names)) % FOLDS)[inverse]
    found = np.ones(len(values))
    for fold in range(min(FOLDS, len(names))):
        out = folds == fold
        if out.all():
            continue
        found[out] = Difficulty.fitted(values[~out], doubt[~out], errors[~out]).of(values[out], doubt[out])
    return found
