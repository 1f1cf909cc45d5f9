"""What is learned of serving without keeping a row: offsets of software and devices, and trees on what they leave.

It comes with the package and holds parameters only. An installation's own rows are added at a position: a Gaussian
process, whose scales are parameters too, carries what they leave over to what is like them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.learning.conformal import Widths
from predictor.learning.dataset import Row
from predictor.learning.method import Prediction
from predictor.learning.shrinkage import Nested
from predictor.learning.table import Array, Table
from predictor.learning.training import Learner, Trees, fit_trees
from predictor.serving.features import FEATURES
from predictor.serving.neighbours import Neighbours, Scales, points_of

__all__ = ["LEARNERS", "SERVING", "FittedShipped", "Serving", "ShippedMethod", "engine_of", "tree_name"]

SERVING = "serving."
"""What the names of its trees in an artifact begin with."""

LEARNERS = (
    Learner(objective="l1", trees=200, learning_rate=0.1, leaves=31, rows_per_leaf=30, feature_share=0.6),
    Learner(objective="l2", trees=200, learning_rate=0.1, leaves=31, rows_per_leaf=30, feature_share=0.6),
)
BETWEEN = 0.35
"""Spread of devices under an engine, and of engines on a platform, in log units beyond physics."""
WITHIN = 0.3
"""Spread of models and loads on one device."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an artifact's card that is about serving; every mapping is by target, `ttft` and `tpot`.

    `widths` are half-widths in log units by how far the question lies from `architectures`, `families`, `devices` and
    `engines` (platform and engine), which trained.
    """

    offsets: dict[str, Nested]
    widths: dict[str, Widths]
    scales: dict[str, Scales]
    rows: dict[str, int]
    architectures: list[str]
    families: list[str]
    devices: dict[str, list[str]]
    engines: dict[str, list[str]]
    newest_version: dict[str, str]
    """Of an engine, where any row says it: what predictions are for where nothing says otherwise."""
    scores: dict[str, Any] = {}

    def level(self, target: str, row: Row, architecture: str, family: str) -> tuple[str, bool]:
        """Return how far a question lies from what trained, and whether held-out rows ever lay as far.

        Another device and another model together are farther than anything that was held out, and so is an engine that
        never trained on the platform.
        """
        known = architecture in self.architectures
        if engine_of(row) not in self.engines[target]:
            return "new_hardware", False
        if row.hardware not in self.devices[target]:
            return "new_hardware", known
        return ("interpolation" if known else "new_architecture" if family in self.families else "new_family"), True


def engine_of(row: Row) -> str:
    """Return the platform and the engine of a row as one name."""
    return f"{row.platform}/{row.runtime}"


def tree_name(target: str) -> str:
    """Return the name of a target's trees in an artifact."""
    return SERVING + target


class FittedShipped(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Offsets and trees; `neighbours` are rows that came later, alike by `scales`."""

    offsets: Nested
    trees: Trees
    scales: Scales | None = None
    neighbours: Neighbours | None = None

    def predict(self, table: Table) -> Prediction:
        """Return log(target / prior); rows are the easier the more their neighbours tell of them."""
        residual = self._plain(table)
        difficulty = np.ones(len(table))
        if self.neighbours is not None and self.scales is not None and len(table):
            mean, variance = self.neighbours.predict(points_of(table))
            unknown = self.scales.noise + sum(self.scales.variance.values())
            residual, difficulty = residual + mean, np.sqrt(variance / unknown)
        return Prediction(residual=residual, difficulty=difficulty)

    def adapted(self, shots: Table) -> FittedShipped:
        """Return the same with the shots as neighbours; nothing is fitted anew."""
        if self.scales is None or not len(shots):
            return self
        left = shots.residual - self._plain(shots)
        return msgspec.structs.replace(self, neighbours=Neighbours.fit(points_of(shots), left, self.scales))

    def _plain(self, table: Table) -> Array:
        return _offset(self.offsets, table.rows) + self.trees.predict(table.values)


class ShippedMethod(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets and trees. `scales` say how shots of something new carry over; without them shots say nothing."""

    learners: Sequence[Learner] = LEARNERS
    scales: Scales | None = None

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return "serving without rows"

    def fit(self, table: Table) -> FittedShipped:
        """Return what the rows of a table teach."""
        offsets = _offsets(table.rows, table.residual)
        trees = fit_trees(
            table.values, table.residual - _offset(offsets, table.rows), names=FEATURES, learners=self.learners
        )
        left = table.residual - trees.predict(table.values)
        return FittedShipped(offsets=_offsets(table.rows, left), trees=trees, scales=self.scales)


def _offsets(rows: Sequence[Row], residual: Array) -> Nested:
    return Nested.fitted(residual, [_path(row) for row in rows], between=BETWEEN, within=WITHIN)


def _offset(offsets: Nested, rows: Sequence[Row]) -> NDArray[np.float64]:
    found: dict[tuple[str, ...], float] = {}
    for path in map(_path, rows):
        if path not in found:
            found[path] = offsets.at(path).mean
    return np.array([found[_path(row)] for row in rows], dtype=np.float64)


def _path(row: Row) -> tuple[str, ...]:
    return (row.platform, row.runtime or "-", row.hardware)
