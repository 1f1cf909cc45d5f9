"""Learn what physics leaves of serving: neighbours first, then trees that know how far the neighbours can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Table
from predictor.learning.method import Prediction
from predictor.learning.training import Learner, Trees, fit_trees
from predictor.llm_serving.features import FEATURES
from predictor.llm_serving.neighbours import MOST_ROWS, Neighbours, labels_of, points_of

__all__ = ["FittedServing", "ServingMethod"]

LEARNERS = (
    Learner(objective="l1", trees=400, learning_rate=0.05, leaves=31, rows_per_leaf=30, feature_share=0.6),
    Learner(objective="l2", trees=400, learning_rate=0.05, leaves=31, rows_per_leaf=30, feature_share=0.6),
)
SHOTS = 10
NOMINALS = (0.5, 0.8, 0.9)
MOST_LOWERED = 0.3
LOWERED = {"ttft": 1.0, "tpot": 0.5}
"""Of a log-normal value with variance v, the estimate with the least expected relative error lies v below the median.
Time to the first token of something new is that uncertain, since a queue may or may not form; the time of a token less so."""
PRIOR_SHOTS = 15
"""So many shots' worth of trust in the spread that other devices and models have."""
TYPICAL = 0.6
"""What quantile of devices or models the next one is taken to be, once its own shots said how far off it lies."""


class FittedServing(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What was learned: neighbours, and trees on their answer for the models, engines and devices in `known`.

    `usual` is the neighbours' usual spread, `reach` how many spreads hold a share of the errors after a few rows of
    something new, and `strangeness` how many spreads those rows were off themselves, where there are some. What trees say of a device or a model that they never met only adds to
    the error of its neighbours.
    """

    neighbours: Neighbours
    trees: Trees
    usual: float
    known: dict[str, frozenset[str]]
    reach: dict[float, float]
    strangeness: float | None = None

    def predict(self, table: Table) -> Prediction:
        """Return log(target / prior); a row is as difficult as its neighbours are far and undecided."""
        mean, variance = self.neighbours.predict(points_of(table))
        knows = self._knows(table)
        residual = mean - np.minimum(LOWERED.get(table.target, 0.0) * variance, MOST_LOWERED)
        if knows.any():
            residual[knows] += self.trees.predict(_with(table.values, mean, variance)[knows])
        spread = np.sqrt(variance)
        widths = None
        if self.strangeness is not None:
            widths = {nominal: reach * self.strangeness * spread for nominal, reach in self.reach.items()}
        return Prediction(residual=residual, difficulty=spread / self.usual, widths=widths)

    def _knows(self, table: Table) -> NDArray[np.bool_]:
        labels = labels_of(table)
        existing = [[item in seen for item in labels[name].tolist()] for name, seen in self.known.items()]
        return np.asarray(np.all(np.array(existing, dtype=bool), axis=0), dtype=np.bool_)

    def adapted(self, shots: Table) -> FittedServing:
        """Return the same with the shots among the neighbours; the trees stay. Shots that are far off widen the intervals."""
        points = points_of(shots)
        strangeness = _strangeness(shots.residual, *self.neighbours.joint(points))
        extended = self.neighbours.extended(points, shots.residual)
        return msgspec.structs.replace(self, neighbours=extended, strangeness=strangeness)


class ServingMethod(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbours and trees. `learners` are the trees' settings."""

    learners: Sequence[Learner] = LEARNERS

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return "serving"

    def fit(self, table: Table) -> FittedServing:
        """Return what the rows of a table teach.

        The trees are taught with what the neighbours say of a row when they have not seen its configuration, or
        nothing of its deployment: so they learn what to make of neighbours that are far.
        """
        chosen = np.unique(np.linspace(0, len(table) - 1, min(len(table), MOST_ROWS)).astype(np.intp))
        part = table.take(chosen)
        neighbours = Neighbours.fit(points_of(part), part.residual)
        taught: list[Matrix] = []
        missed: list[Array] = []
        usual = 1.0
        for groups in _absences(part):
            mean, variance = neighbours.without(groups)
            rows = np.concatenate(groups)
            taught.append(_with(part.values[rows], mean[rows], variance[rows]))
            missed.append(part.residual[rows] - mean[rows])
            usual = usual if len(taught) > 1 else float(np.median(np.sqrt(variance[rows])))
        trees = fit_trees(np.concatenate(taught), np.concatenate(missed), learners=self.learners)
        labels = labels_of(part)
        tolists = {name: frozenset(labels[name].tolist()) for name in ("model", "engine", "device")}
        reach = _reach(neighbours, labels)
        return FittedServing(neighbours=neighbours, trees=trees, usual=usual, known=tolists, reach=reach)


def _with(values: Matrix, mean: Array, variance: Array) -> Matrix:
    return np.column_stack([values[:, : len(FEATURES)], mean, np.log(variance)])


def _absences(table: Table) -> list[list[NDArray[np.intp]]]:
    """Return ways of not having seen rows, each a list of groups of row numbers."""
    labels = labels_of(table)
    load = [repr((row.input_tokens, row.output_tokens, row.concurrency, row.batch_size)) for row in table.rows]
    alike = np.char.add(labels["deployment"], np.array(load, dtype=str))
    return [_groups(alike), _groups(labels["deployment"])]


def _reach(neighbours: Neighbours, labels: dict[str, NDArray[Any]]) -> dict[float, float]:
    """Return by nominal coverage how many spreads hold it, from devices and models of which ten rows were left in.

    Errors are in units of how far off those ten rows were. Each device or model is one draw, and of devices or of models
    count whichever are further off.
    """
    reach = dict.fromkeys(NOMINALS, 0.0)
    generator = np.random.default_rng(0)
    for name in ("device", "model"):
        groups = [group for group in map(generator.permutation, _groups(labels[name])) if len(group) > SHOTS]
        mean, variance = neighbours.without([group[SHOTS:] for group in groups])
        strange = np.abs(neighbours.residual - mean) / np.sqrt(variance)
        scores = [strange[group[SHOTS:]] / _of_shots(neighbours, group) for group in groups]
        for nominal in NOMINALS:
            each = [np.quantile(score, nominal) for score in scores]
            reach[nominal] = max(reach[nominal], float(np.quantile(each, TYPICAL)) if each else math.inf)
    return reach


def _of_shots(neighbours: Neighbours, group: NDArray[np.intp]) -> float:
    mean, covariance = neighbours.left_out(group)
    return _strangeness(neighbours.residual[group[:SHOTS]], mean[:SHOTS], covariance[:SHOTS, :SHOTS])


def _strangeness(residual: Array, mean: Array, covariance: Matrix) -> float:
    """Return how many spreads shots are off what is expected of them; a few are believed in part."""
    off = residual - mean
    squared = float(off @ np.linalg.solve(covariance, off))
    return math.sqrt((PRIOR_SHOTS + squared) / (PRIOR_SHOTS + len(off)))


def _groups(names: NDArray[Any]) -> list[NDArray[np.intp]]:
    _, inverse = np.unique(names, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
