"""How hard a row is to predict, learned from the errors that were made on rows held out.

Intervals in units of difficulty are wide where errors were large and narrow where they were small. The errors that teach
difficulty must not be those that then tell the widths: `cross_fitted` gives each row what the other groups taught.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix
from predictor.learning import boosting
from predictor.learning.boosting import Forest

__all__ = ["Difficulty", "cross_fitted"]

FLOOR = 0.02
"""Log error below which rows are equally easy: what two runs of one configuration differ by."""
TREES, THREADS = 60, 1
ROWS = 120
"""With fewer no leaf could be split off another."""
FOLDS = 4
SETTINGS: dict[str, Any] = {
    "objective": "l1",
    "num_leaves": 15,
    "learning_rate": 0.08,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 20.0,
    "max_bin": 63,
    "seed": 1,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": THREADS,
    "verbose": -1,
}


class Difficulty(msgspec.Struct, frozen=True):
    """Trees on the logarithm of the absolute error beside the predictor's own doubt; `text` is LightGBM's, empty without any."""

    text: str

    @classmethod
    def fitted(cls, values: Matrix, doubt: Array, errors: Array) -> Difficulty:
        """Return what held-out log errors teach; `doubt` is what the predictor itself finds hard. The same gives the same.

        Of fewer than `ROWS` nothing is learned, and the doubt stays.
        """
        if len(values) < ROWS:
            return cls("")
        beside = np.log((np.abs(errors) + FLOOR) / doubt)
        inputs = np.column_stack([values, doubt])
        data = boosting.lightgbm.Dataset(inputs, beside - np.median(beside), params=SETTINGS)
        return cls(boosting.lightgbm.train(SETTINGS, data, TREES).model_to_string())

    def of(self, values: Matrix, doubt: Array) -> Array:
        """Return the difficulty of each row, above 0, in units of the doubt: for a usual row it is the doubt."""
        if not len(values) or not self.text:
            return doubt.copy()
        predict = _forest(self.text).predict(np.column_stack([values, doubt]))
        return np.asarray(np.exp(predict) * doubt, dtype=np.float64)


@lru_cache(maxsize=16)
def _forest(text: str) -> Forest:
    return Forest(text)


def cross_fitted(values: Matrix, doubt: Array, errors: Array, groups: Sequence[Any] | NDArray[Any]) -> Array:
    """Return the difficulty of each row as rows of other groups teach it; with one group alone, the doubt."""
    names, inverse = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    folds = (np.random.default_rng(0).permutation(len(names)) % FOLDS)[inverse]
    array = doubt.copy()
    for fold in range(min(FOLDS, len(names))):
        out = folds == fold
        if out.all():
            continue
        array[out] = Difficulty.fitted(values[~out], doubt[~out], errors[~out]).of(values[out], doubt[out])
    return array
