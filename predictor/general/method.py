"""The method of the general route: the sum of kernels, and trees on what published rows are beyond it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Table
from predictor.general.inputs import GENERAL_FEATURES, inputs_of
from predictor.kernels.physics import Parameters
from predictor.kernels.profile import DeviceProfile, Place
from predictor.learning.method import Prediction
from predictor.learning.training import Learner, Trees, fit_trees

__all__ = ["GENERAL_LEARNERS", "FittedGeneral", "GeneralMethod"]

GENERAL_LEARNERS = (
    Learner(objective="l1", trees=400, learning_rate=0.06, leaves=31, rows_per_leaf=10, feature_share=0.4),
    Learner(objective="l2", trees=400, learning_rate=0.05, leaves=31, rows_per_leaf=15, feature_share=0.4),
)
EACH = 300
"""Rows of a software configuration that train at the most: what was measured widely must not drown what was not."""


class FittedGeneral:
    """Trees beyond the sum of kernels."""

    def __init__(
        self, trees: Trees, parameters: Mapping[str, Parameters], profiles: Mapping[Place, DeviceProfile] | None = None
    ) -> None:
        """Take the trees, the parameters of the kernels, and what kernels of single devices reach."""
        self.trees = trees
        self.parameters = parameters
        self.profiles = profiles

    def predict(self, table: Table) -> Prediction:
        """Return log(time / prior) of each row."""
        return Prediction.plain(self.predicted(table)[0])

    def predicted(self, table: Table) -> tuple[Array, Matrix]:
        """Return log(time / prior) of each row, and the features that it was predicted from."""
        inputs = inputs_of(table, self.parameters, self.profiles)
        beyond = self.trees.predict(inputs.values)
        return np.asarray(np.log(inputs.seconds / table.prior) + beyond, dtype=np.float64), inputs.values


class GeneralMethod:
    """Fit trees on the log of measured time over the sum of kernels."""

    name = "general"

    def __init__(self, parameters: Mapping[str, Parameters], learners: Sequence[Learner] = GENERAL_LEARNERS) -> None:
        """Take the parameters of the kernels."""
        self._parameters = parameters
        self._learners = learners

    def fit(self, table: Table) -> FittedGeneral:
        """Return what the rows teach; the same rows give the same bits."""
        table = table.take(spread(table))
        inputs = inputs_of(table, self._parameters)
        beyond: Array = np.log(table.measured / inputs.seconds)
        trees = fit_trees(inputs.values, beyond, names=GENERAL_FEATURES, learners=self._learners)
        return FittedGeneral(trees, self._parameters)


def spread(table: Table, each: int = EACH) -> NDArray[np.intp]:
    """Return the rows of each software configuration, at most so many of each, chosen at random but always alike."""
    order = np.random.default_rng(0).permutation(len(table))
    seen: Counter[tuple[object, ...]] = Counter()
    kept: list[int] = []
    for index in order.tolist():
        key = (*table.rows[index].software, table.rows[index].mode)
        seen[key] += 1
        if seen[key] <= each:
            kept.append(index)
    return np.array(sorted(kept), dtype=np.intp)
