"""The method of the general route: trees on what published rows take beyond the sum of kernels, and beyond the roofline.

The sum of kernels carries a model to a device that nobody measured, the roofline a family that nobody measured: the mean of
both is about as good as the better one on either (`python -m research.general_parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix, Table
from predictor.general.inputs import GENERAL_FEATURES, GeneralInputs, Parts, inputs_of, kind_of, parts_of
from predictor.general.kept import place_of
from predictor.kernels.physics import Parameters
from predictor.kernels.profile import ANY, DeviceProfile, Place, profile_at
from predictor.learning.method import Prediction
from predictor.learning.training import Learner, Trees, fit_trees

__all__ = ["GENERAL", "GENERAL_LEARNERS", "FittedGeneral", "GeneralMethod", "fit_beyond", "log_seconds", "spread"]

GENERAL = "general"
"""What the names of its trees begin with among those of a predictor."""
KERNELS, ROOFLINE = f"{GENERAL}.kernels", f"{GENERAL}.roofline"
GENERAL_LEARNERS = (
    Learner(objective="l1", trees=400, learning_rate=0.06, leaves=31, rows_per_leaf=10, feature_share=0.4),
    Learner(objective="l2", trees=400, learning_rate=0.05, leaves=31, rows_per_leaf=15, feature_share=0.4),
)
"""The first learns beyond the sum of kernels, the second beyond the roofline."""
EACH = 300
"""Rows of a software configuration that train at the most: what was measured widely must not drown what was not."""


def fit_beyond(inputs: GeneralInputs, measured: Array, learners: Sequence[Learner]) -> dict[str, Trees]:
    """Return the trees that measured seconds teach, by name; the same rows give the same bits."""
    parts = ((KERNELS, inputs.seconds, learners[:1]), (ROOFLINE, inputs.prior, learners[1:]))
    return {
        name: fit_trees(inputs.values, np.log(measured / floor), names=GENERAL_FEATURES, learners=of_part)
        for name, floor, of_part in parts
    }


def log_seconds(inputs: GeneralInputs, trees: Mapping[str, Trees]) -> Array:
    """Return the logarithm of the seconds that each configuration takes."""
    by_kernels = np.log(inputs.seconds) + trees[KERNELS].predict(inputs.values)
    by_roofline = np.log(inputs.prior) + trees[ROOFLINE].predict(inputs.values)
    return np.asarray((by_kernels + by_roofline) / 2, dtype=np.float64)


class FittedGeneral:
    """Trees beyond the sum of kernels and the roofline, with what kernels of single devices reach."""

    def __init__(
        self,
        trees: Mapping[str, Trees],
        parameters: Mapping[str, Parameters],
        profiles: Mapping[Place, DeviceProfile] | None = None,
        trained: Collection[tuple[str, str, str]] = (),
    ) -> None:
        """Take the trees, the parameters of the kernels, and what kernels of single devices reach.

        Where whole models trained (`trained`, places as `kept.place_of` gives them) a profile is left out: the trees learned from
        them what the device reaches.
        """
        self.trees = trees
        self.parameters = parameters
        self._profiles = profiles or {}
        self._trained = frozenset(trained)

    def predict(self, table: Table) -> Prediction:
        """Return log(time / prior) of each row."""
        return Prediction.plain(self.predicted(table)[0])

    def predicted(self, table: Table) -> tuple[Array, Matrix]:
        """Return log(time / prior) of each row, and the features that it was predicted from."""
        inputs = inputs_of(table, self.parameters, self._of(table))
        found = log_seconds(inputs, self.trees)
        timed = np.array([self._timed(row) for row in table.rows], dtype=bool)
        if timed.any():
            found = np.where(timed, (found + np.log(inputs.seconds)) / 2, found)
        return np.asarray(found - np.log(table.prior), dtype=np.float64), inputs.values

    def _timed(self, row: Row) -> bool:
        """Return whether the sum of kernels alone is an answer as good as that of the trees, so that the mean of both is given.

        Kernels of processors trained no parameters: what theirs usually fall short of the data sheet is learned by the trees, with what
        models take beyond their kernels. Where the processor's own kernels were timed in this precision, the sum has the first by itself.
        """
        profile = self.profile(row) if self._profiles else None
        return (
            profile is not None
            and kind_of(row) == "cpu"
            and profile is not self._profiles.get((row.hardware, row.platform, ANY))
        )

    def parts(self, table: Table) -> Parts:
        """Return what the sum of each row's kernels is made of."""
        return parts_of(table, self.parameters, self._of(table))

    def _of(self, table: Table) -> list[DeviceProfile | None]:
        return [self.profile(row) for row in table.rows] if self._profiles else []

    def profile(self, row: Row) -> DeviceProfile | None:
        """Return what kernels of the row's device reach in its precision, None where that is not known or trained."""
        if place_of(row) in self._trained:
            return None
        return profile_at(self._profiles, row.hardware, row.platform, row.precision)


class GeneralMethod:
    """Fit trees on the logs of measured time over the sum of kernels and over the roofline."""

    name = "general"

    def __init__(self, parameters: Mapping[str, Parameters], learners: Sequence[Learner] = GENERAL_LEARNERS) -> None:
        """Take the parameters of the kernels."""
        self._parameters = parameters
        self._learners = learners

    def fit(self, table: Table) -> FittedGeneral:
        """Return what the rows teach; the same rows give the same bits."""
        table = table.take(spread(table))
        trees = fit_beyond(inputs_of(table, self._parameters), table.measured, self._learners)
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
