"""The method of the operators route: trees on the residual of the roofline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from predictor.learning.calibration import Fit, fit_offset, leave_one_model_out, widths_from_errors
from predictor.learning.conformal import COVERAGES
from predictor.learning.dataset import SoftwareKey, by_software
from predictor.learning.method import Fitted, Prediction
from predictor.learning.table import Array, Table
from predictor.learning.training import LEARNERS, Learner, Trees, fit_trees

__all__ = ["FittedTrees", "Shifted", "TreeMethod"]


class FittedTrees:
    """Trees that were fitted on a table."""

    def __init__(self, trees: Trees) -> None:
        """Take the fitted models."""
        self.trees = trees

    def predict(self, table: Table) -> Prediction:
        """Return the log residual of each row."""
        return Prediction.plain(self.trees.predict(table.values))

    def adapted(self, shots: Table) -> Fitted:
        """Return these trees with what a few measurements correct."""
        return Shifted(self, shots)


class Shifted:
    """Trees whose predictions for each measured software configuration are moved by its shrunken offset."""

    def __init__(self, base: Fitted, shots: Table) -> None:
        """Fit the offsets of the configurations that the shots measured."""
        self._base = base
        left = shots.residual - base.predict(shots).residual
        balance = shots.column("balance")
        self._fits: dict[SoftwareKey, Fit] = {}
        self._errors: dict[SoftwareKey, tuple[Array, list[str]]] = {}
        for software, members in by_software(shots.rows).items():
            names = [shots.rows[index].model for index in members]
            spread = {"between": BETWEEN_DEVICES, "within": WITHIN_DEVICE}
            self._fits[software] = fit_offset(left[members], balance[members], names, **spread)
            self._errors[software] = (leave_one_model_out(left[members], balance[members], names, **spread), names)

    def predict(self, table: Table) -> Prediction:
        """Return the corrected residuals, with widths from the measured rows themselves."""
        bare = self._base.predict(table)
        residual, balance = bare.residual.copy(), table.column("balance")
        widths = {nominal: np.full(len(table), np.nan) for nominal in COVERAGES}
        for software, members in by_software(table.rows).items():
            if software not in self._fits:
                continue
            residual[members] += self._fits[software].correction(balance[members])
            errors, names = self._errors[software]
            reach = widths_from_errors(errors, names, between=BETWEEN_DEVICES, within=WITHIN_DEVICE)
            for nominal in COVERAGES:
                widths[nominal][members] = reach[nominal]
        return Prediction(residual=residual, difficulty=bare.difficulty, widths=widths)

    def adapted(self, shots: Table) -> Fitted:
        """Return the trees moved by these measurements instead."""
        return Shifted(self._base, shots)


BETWEEN_DEVICES = 0.25
"""Spread of devices about the trees, in log units, that shrinks an offset. A round figure above the 0.14 that timm's
devices showed when held out: five are few."""
WITHIN_DEVICE = 0.15
"""Spread of the models of one device about its offset, in log units; a round figure."""


class TreeMethod:
    """LightGBM on the features of a table."""

    name = "trees"

    def __init__(self, learners: Sequence[Learner] = LEARNERS) -> None:
        """Take the settings of the models whose mean is taken."""
        self._learners = learners

    def fit(self, table: Table) -> FittedTrees:
        """Fit the models; the same table gives the same bits."""
        return FittedTrees(fit_trees(table.values, table.residual, learners=self._learners))
