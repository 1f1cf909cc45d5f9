"""The method of the operators route: trees on the residual of the roofline."""

from __future__ import annotations

from collections.abc import Sequence

from predictor.features.table import Table
from predictor.learning.method import Prediction
from predictor.learning.training import LEARNERS, Learner, Trees, fit_trees

__all__ = ["FittedTrees", "TreeMethod"]


class FittedTrees:
    """Trees that were fitted on a table."""

    def __init__(self, trees: Trees) -> None:
        """Take the fitted models."""
        self.trees = trees

    def predict(self, table: Table) -> Prediction:
        """Return the log residual of each row."""
        return Prediction.plain(self.trees.predict(table.values))


class TreeMethod:
    """LightGBM on the features of a table."""

    name = "trees"

    def __init__(self, learners: Sequence[Learner] = LEARNERS) -> None:
        """Take the settings of the models whose mean is taken."""
        self._learners = learners

    def fit(self, table: Table) -> FittedTrees:
        """Fit the models; the same table gives the same bits."""
        return FittedTrees(fit_trees(table.values, table.residual, learners=self._learners))
