"""Fit the trees: LightGBM on the log of measured time over roofline time, the same bits from the same rows.

Two models, one of absolute and one of squared error, and their mean: the first is not moved by odd rows, the second
uses all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from predictor.features.features import FEATURES
from predictor.features.table import Array, Matrix
from predictor.learning import boosting
from predictor.learning.boosting import Forest

if TYPE_CHECKING:
    from predictor.features.dataset import Row
    from predictor.learning.machines import Machines

__all__ = ["LEARNERS", "Learner", "NamedTexts", "Trees", "fit_trees"]


class Learner(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one of the two models."""

    objective: str
    trees: int
    learning_rate: float
    leaves: int
    rows_per_leaf: int
    feature_share: float

    def parameters(self, threads: int) -> dict[str, Any]:
        """LightGBM's parameters; everything that decides the bits is fixed here."""
        return {
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.rows_per_leaf,
            "feature_fraction": self.feature_share,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": 1,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": threads,
            "max_bin": 127,
            "verbose": -1,
        }


LEARNERS = (
    Learner(objective="l1", trees=600, learning_rate=0.05, leaves=63, rows_per_leaf=15, feature_share=0.8),
    Learner(objective="l2", trees=900, learning_rate=0.03, leaves=63, rows_per_leaf=40, feature_share=0.5),
)
THREADS = 1
"""With two, every barrier waits for the slower core: under load that was twenty times slower when measured."""


class NamedTexts(Mapping[str, str]):
    """Some texts of a mapping under other names; each is read when it is needed."""

    def __init__(self, texts: Mapping[str, str], names: Mapping[str, str]) -> None:
        """Take the texts, and the name among them of each name here."""
        self._texts, self._names = texts, names

    def __getitem__(self, name: str) -> str:
        return self._texts[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Trees:
    """Fitted models as LightGBM text, by objective; predicts the mean of their log residuals."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take the texts; LightGBM reads them when the first prediction is asked for."""
        self.texts = texts
        self._forests: list[Forest] | None = None

    def predict(self, values: Matrix) -> Array:
        """Return log(time / roofline time) of each row of features."""
        if not len(values):
            return np.zeros(0)
        if self._forests is None:
            self._forests = [Forest(self.texts[name]) for name in sorted(self.texts)]
        each = [forest.predict(values) for forest in self._forests]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)


def fit_trees(
    values: Matrix,
    residual: Array,
    *,
    names: Sequence[str] = FEATURES,
    learners: Sequence[Learner] = LEARNERS,
    threads: int = THREADS,
    machines: Machines | None = None,
    rows: Sequence[Row] = (),
) -> Trees:
    """Fit the models; `names` are those of the columns. The same arguments give the same texts, bit for bit.

    With `machines`, each machine trains on its share of the `rows`, which are those of the values.
    """
    share = None if machines is None else machines.share(rows)
    if share is not None:
        values, residual = values[share], residual[share]

    def fitted(learner: Learner, distributed: dict[str, Any]) -> str:
        parameters = learner.parameters(threads) | distributed
        data = boosting.lightgbm.Dataset(
            values, residual, feature_name=list(names[: values.shape[1]]), params=parameters, free_raw_data=True
        )
        return _lean(boosting.lightgbm.train(parameters, data, learner.trees).model_to_string())

    texts: dict[str, str] = {}
    for learner in learners:
        if machines is None or share is None:
            texts[learner.objective] = fitted(learner, {})
        else:
            texts[learner.objective] = machines.fit(repr(learner), rows, partial(fitted, learner))
    return Trees(texts)


_BULK = ("split_gain=", "leaf_weight=", "internal_value=", "internal_weight=")


def _lean(text: str) -> str:
    """Leave out what prediction and contributions do not read; sizes of trees are no longer true and go as well."""
    kept = (line for line in text.split("\n") if not line.startswith((*_BULK, "tree_sizes=")))
    return "\n".join(kept)
