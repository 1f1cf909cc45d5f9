"""What is learned of serving without keeping a row: offsets of software and devices, and trees on what they leave.

Models that trained have trees on everything that is known of a row; of another model these would take the sizes for
those of one they know, so that it has trees on the load and on what takes the time. It comes with the package and holds parameters only. An installation's own rows are added at a position: a Gaussian
process, whose scales are parameters too, carries what they leave over to what is like them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.conformal import Widths
from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.learning.method import Prediction
from predictor.learning.shrinkage import Nested
from predictor.learning.training import Learner, Trees, fit_trees
from predictor.llm_serving.efficiency import widely_known
from predictor.llm_serving.features import FEATURES
from predictor.llm_serving.neighbours import Neighbours, Scales, points_of

__all__ = [
    "LEARNERS",
    "PARTS",
    "SERVING",
    "FittedShipped",
    "Learned",
    "Serving",
    "ShippedMethod",
    "engine_of",
    "kind_of",
    "part_name",
]

SERVING = "serving."
"""What the names of its trees in an artifact begin with."""

LEARNERS: Mapping[str, Sequence[Learner]] = MappingProxyType(
    {
        "known": tuple(
            Learner(objective=item, trees=200, learning_rate=0.1, leaves=31, rows_per_leaf=30, feature_share=0.6)
            for item in ("l1", "l2")
        ),
        "others": tuple(
            Learner(objective=item, trees=60, learning_rate=0.1, leaves=8, rows_per_leaf=100, feature_share=0.6)
            for item in ("l1", "l2")
        ),
    }
)
BETWEEN = 0.35
"""Spread of devices under an engine, and of engines on a platform, in log units beyond physics."""
WITHIN = 0.3
"""Spread of models and loads on one device."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an artifact's card that is about serving; every mapping is by target, `ttft` and `tpot`.

    `offsets` are by the name of a part, see `part_name`.
    `widths` are half-widths in log units by how far the question lies from `architectures`, `families`, `devices` and
    `engines` (platform and engine), which trained.
    """

    offsets: dict[str, Nested]
    widths: dict[str, Widths]
    after: dict[str, Widths]
    """The same after ten rows of the model or the device, in units of a row's difficulty."""
    scales: dict[str, Scales]
    rows: dict[str, int]
    architectures: dict[str, list[str]]
    families: list[str]
    devices: dict[str, list[str]]
    engines: dict[str, list[str]]
    newest_version: dict[str, str]
    """Of an engine, where any row says it: what predictions are for where nothing says otherwise."""
    scores: dict[str, Any] = {}
    precisions: dict[str, list[str]] = {}
    """By target, engines with a precision in which two models or more trained, such as `cuda/vllm fp8`; see `kind_of`."""

    def restored(self, target: str, trees: Mapping[str, Trees]) -> FittedShipped:
        """Return what was learned of a target, given the trees of the artifact by name."""
        parts = {
            part: Learned(offsets=self.offsets[name], trees=trees[name], columns=columns_of(target, part))
            for part in PARTS
            for name in [part_name(target, part)]
        }
        return FittedShipped(
            parts=parts,
            architectures=frozenset(self.architectures[target]),
            scales=self.scales[target],
            target=target,
            trained=lambda row: self.trained(target, row),
        )

    def reach(self, target: str, level: str, nominal: float = 0.8) -> tuple[float | None, float | None]:
        """Return the half-width at a level, and after a few rows that for each unit of difficulty; None where unknown."""
        few = "new_hardware" if level == "new_hardware" else "new_architecture"
        return self.widths[target].of(level, nominal), self.after[target].of(few, nominal)

    def trained(self, target: str, row: Row) -> bool:
        """Whether rows of this engine on this platform trained, in this precision or in 16 bits where it has those.

        They say less of a device that did not train than the usual shares of an engine that many devices tell of.
        """
        # Engines compute in 16 bits by themselves; what a narrower kind costs only its own rows say.
        near = row.precision in _PLAIN or kind_of(row) in self.precisions.get(target, ())
        if row.hardware not in self.devices[target] and widely_known(row):
            return False
        return near and engine_of(row) in self.engines[target]

    def level(self, target: str, row: Row, architecture: str, family: str) -> tuple[str, bool]:
        """Return how far a question lies from what trained, and whether held-out rows ever lay as far.

        Another device and another model together are farther than anything that was held out, and so is an engine that
        never trained on the platform, or never in the precision.
        """
        existing = architecture in self.architectures[target]
        if engine_of(row) not in self.engines[target]:
            return "new_hardware", False
        near = self.trained(target, row)
        if row.hardware not in self.devices[target]:
            return "new_hardware", existing and near
        return ("interpolation" if existing else "new_architecture" if family in self.families else "new_family"), near


def engine_of(row: Row) -> str:
    """Return the platform and the engine of a row as one name."""
    return f"{row.platform}/{row.runtime}"


_PLAIN = ("", "bf16", "fp16")


def kind_of(row: Row) -> str:
    """Return the engine of a row and its precision; published rows that do not say one ran in 16 bits."""
    return f"{engine_of(row)} {'16-bit' if row.precision in _PLAIN else row.precision}"


class Learned(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Offsets, and trees on the `columns` of FEATURES."""

    offsets: Nested
    trees: Trees
    columns: tuple[str, ...]

    def residual(self, table: Table) -> Array:
        """Return log(target / prior) of each row."""
        columns = [FEATURES.index(name) for name in self.columns]
        return _offset(self.offsets, table.rows) + self.trees.predict(table.values[:, columns])


PARTS = ("known", "others")
"""What is learned for models that trained, and for others."""
_LOAD = ("load", "log_requests_per_device", "log_fill", "apart", "continuous")
_SHARES = tuple(name for name in FEATURES if name.startswith("share_step_"))
_COLUMNS = {"ttft": _LOAD, "tpot": (*_LOAD, *_SHARES, "step_balance", "dense_bytes")}
"""What is learned from of models that did not train: requests queue alike, and a token takes what its parts take."""


def columns_of(target: str, part: str) -> tuple[str, ...]:
    """Return the features that a part is learned from."""
    return FEATURES if part == "known" else _COLUMNS[target]


def part_name(target: str, part: str) -> str:
    """Return the name of a part in an artifact."""
    return f"{SERVING}{target}.{part}"


class FittedShipped(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What was learned by part, and the `architectures` that are known; `neighbours` came later, alike by `scales`.

    `trained` says of a row whether its engine and precision trained; others take what their engine usually takes.
    """

    parts: dict[str, Learned]
    architectures: frozenset[str]
    scales: Scales | None = None
    neighbours: Neighbours | None = None
    target: str = "tpot"
    trained: Callable[[Row], bool] | None = None

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
        existing = np.array([name in self.architectures for name in table.architecture.tolist()], dtype=bool)
        residual = np.zeros(len(table))
        usual = table.column(f"usual_{self.target}")
        foreign = np.isfinite(usual) & np.array([not self._trained(row) for row in table.rows], dtype=bool)
        residual[foreign] = usual[foreign]
        known, others = np.flatnonzero(existing & ~foreign), np.flatnonzero(~existing & ~foreign)
        for part, rows in (("known", known), ("others", others)):
            if len(rows):
                residual[rows] = self.parts[part].residual(table.take(rows))
        return residual

    def _trained(self, row: Row) -> bool:
        return self.trained is None or self.trained(row)


class ShippedMethod(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets and trees. `scales` say how shots of something new carry over; without them shots say nothing."""

    learners: Mapping[str, Sequence[Learner]] = LEARNERS
    scales: Scales | None = None

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return "serving without rows"

    def fit(self, table: Table) -> FittedShipped:
        """Return what the rows of a table teach."""
        return FittedShipped(
            parts={part: _learned(table, columns_of(table.target, part), self.learners[part]) for part in PARTS},
            architectures=frozenset(table.architecture.tolist()),
            scales=self.scales,
            target=table.target,
        )


def _learned(table: Table, columns: tuple[str, ...], learners: Sequence[Learner]) -> Learned:
    values = table.values[:, [FEATURES.index(name) for name in columns]]
    before = _offset(_offsets(table.rows, table.residual), table.rows)
    trees = fit_trees(values, table.residual - before, names=columns, learners=learners)
    return Learned(offsets=_offsets(table.rows, table.residual - trees.predict(values)), trees=trees, columns=columns)


def _offsets(rows: Sequence[Row], residual: Array) -> Nested:
    return Nested.fitted(residual, [_path(row) for row in rows], between=BETWEEN, within=WITHIN)


def _offset(offsets: Nested, rows: Sequence[Row]) -> Array:
    matches: dict[tuple[str, ...], float] = {}
    for path in map(_path, rows):
        if path not in matches:
            matches[path] = offsets.at(path).mean
    return np.array([matches[_path(row)] for row in rows], dtype=np.float64)


def _path(row: Row) -> tuple[str, ...]:
    return (row.platform, row.runtime or "-", row.hardware)
