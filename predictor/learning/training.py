"""Fit the trees: LightGBM on the log of measured time over roofline time, the same bits from the same rows.

Two models, one of absolute and one of squared error, and their mean: the first is not moved by odd rows, the second
uses all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import lightgbm
import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.hardware import HardwareSpec
from domain.roofline import Limits, limits_of
from predictor.learning.dataset import Row
from predictor.learning.features import FEATURES, Features, Software, features_of
from predictor.learning.traces import Array, Trace, TraceBook

__all__ = ["LEARNERS", "Learner", "SpecOf", "Table", "Trees", "fit_trees", "tabulate"]

SpecOf = Callable[[str], HardwareSpec | None]
Matrix = NDArray[np.float64]


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
            "force_row_wise": True,
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


class Trees:
    """Fitted models as LightGBM text, by objective; predicts the mean of their log residuals."""

    def __init__(self, texts: dict[str, str]) -> None:
        """Take the texts; LightGBM reads them when the first prediction is asked for."""
        self.texts = texts
        self._boosters: list[Any] | None = None

    def predict(self, values: Matrix) -> Array:
        """Return log(time / roofline time) of each row of features."""
        if not len(values):
            return np.zeros(0)
        if self._boosters is None:
            self._boosters = [lightgbm.Booster(model_str=self.texts[name]) for name in sorted(self.texts)]
        each = [booster.predict(values, num_threads=THREADS) for booster in self._boosters]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)


class Table(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Rows with their features; `residual` is log(measured / prior); `dropped` counts what had to stay out, by reason."""

    rows: list[Row]
    traces: list[Trace]
    limits: list[Limits]
    values: Matrix
    prior_s: Array
    residual: Array
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def balance(self) -> Array:
        """Log of arithmetic time over traffic time, one a row."""
        return self.values[:, FEATURES.index("balance")]

    def take(self, chosen: Sequence[int] | NDArray[Any]) -> Table:
        """Return the chosen rows."""
        indexes = np.asarray(chosen)
        if indexes.dtype == bool:
            indexes = np.flatnonzero(indexes)
        return Table(
            rows=[self.rows[index] for index in indexes],
            traces=[self.traces[index] for index in indexes],
            limits=[self.limits[index] for index in indexes],
            values=self.values[indexes],
            prior_s=self.prior_s[indexes],
            residual=self.residual[indexes],
            dropped=self.dropped,
        )


def tabulate(rows: Sequence[Row], book: TraceBook, spec_of: SpecOf) -> Table:
    """Return the table of those rows whose model is traced at that size and whose device has the figures."""
    known: dict[tuple[str, str, str], Limits | None] = {}
    kept: list[Row] = []
    traces: list[Trace] = []
    limits: list[Limits] = []
    dropped: Counter[str] = Counter()
    for row in rows:
        trace = book.find(row.model, row.image_size, row.sequence_length)
        if trace is None:
            dropped["no trace"] += 1
            continue
        key = (row.hardware, row.precision, row.platform)
        if key not in known:
            spec = spec_of(row.hardware)
            known[key] = None if spec is None else limits_of(spec, row.precision, row.platform)
        limit = known[key]
        if limit is None:
            dropped["no peak or bandwidth"] += 1
            continue
        kept.append(row)
        traces.append(trace)
        limits.append(limit)
    features = features_of_many(traces, limits, [row.features_software() for row in kept])
    measured = np.array([(row.latency_ms or 0.0) / 1e3 for row in kept])
    residual = np.log(measured / features.prior_s) if kept else np.zeros(0)
    return Table(
        rows=kept,
        traces=traces,
        limits=limits,
        values=features.values,
        prior_s=features.prior_s,
        residual=residual,
        dropped=dict(dropped),
    )


def features_of_many(traces: Sequence[Trace], limits: Sequence[Limits], software: Sequence[Software]) -> Features:
    """Return the features of configurations of several traces, in their order; each trace is worked on once."""
    values = np.zeros((len(traces), len(FEATURES)))
    prior = np.zeros(len(traces))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(traces):
        groups.setdefault(id(trace), []).append(index)
    for indexes in groups.values():
        part = features_of(
            traces[indexes[0]], [limits[index] for index in indexes], [software[index] for index in indexes]
        )
        values[indexes] = part.values
        prior[indexes] = part.prior_s
    return Features(values=values, prior_s=prior)


def fit_trees(
    values: Matrix, residual: Array, *, learners: Sequence[Learner] = LEARNERS, threads: int = THREADS
) -> Trees:
    """Fit the models. The same values, residuals, learners and thread count give the same texts, bit for bit."""
    texts: dict[str, str] = {}
    for learner in learners:
        parameters = learner.parameters(threads)
        data = lightgbm.Dataset(
            values, residual, feature_name=list(FEATURES[: values.shape[1]]), params=parameters, free_raw_data=True
        )
        texts[learner.objective] = _lean(lightgbm.train(parameters, data, learner.trees).model_to_string())
    return Trees(texts)


_BULK = ("split_gain=", "leaf_weight=", "internal_value=", "internal_weight=")


def _lean(text: str) -> str:
    """Leave out what prediction and contributions do not read; sizes of trees are no longer true and go as well."""
    kept = (line for line in text.split("\n") if not line.startswith((*_BULK, "tree_sizes=")))
    return "\n".join(kept)
