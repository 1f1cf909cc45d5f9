"""The method of traced work: what each kind of work costs, what lies nearest, and trees over everything.

Where the software of a device was measured on enough architectures, a sum of costs carries most of a prediction and a
field of like work what the sum leaves; trees, which know all devices at once, share the answer the more the less like
anything measured the work is. Software that never was measured is left to the trees and to its nearest kin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from predictor.features.coordinates import WIDE, Scales
from predictor.features.dataset import Row
from predictor.features.operator_shapes import shape_table
from predictor.features.operators_route import distinct
from predictor.features.table import Array, Matrix, Names, Table
from predictor.features.work_costs import WORK, multiples_of, work_table
from predictor.learning.machines import Machines
from predictor.learning.method import Prediction
from predictor.learning.nearest_residuals import Field
from predictor.learning.single_thread import single_threaded
from predictor.learning.training import Learner, NamedTexts, Trees, fit_trees

__all__ = ["LOCAL", "QUICK", "BlendMethod", "FittedBlend", "Local", "SoftwareKey"]


class SoftwareKey(NamedTuple):
    """A software configuration of a device, and the mode: what is measured together."""

    hardware: str
    platform: str
    runtime: str
    precision: str
    compiled: bool
    channels_last: bool
    version: str
    mode: str

    @classmethod
    def of(cls, row: Row) -> SoftwareKey:
        """Return where a row was measured."""
        return cls(*row.software, row.mode)


QUICK = (
    Learner(objective="l1", trees=250, learning_rate=0.1, leaves=31, rows_per_leaf=15, feature_share=0.3),
    Learner(objective="l2", trees=250, learning_rate=0.08, leaves=31, rows_per_leaf=20, feature_share=0.3),
)
LOCAL = "local"
"""The name of the text that holds what is not trees."""
LEFT = "left_"
"""What the names of trees on what sums leave begin with."""
_ALIKE = ("compiled", "channels_last", "runtime", "version")
ARCHITECTURES_NEEDED = 100
"""With fewer on a software configuration its rows train the trees, and no local model."""
KIN = 4096
"""Places whose nearest are kept."""
TREES_FROM, TREES_UP_TO, TREES_MOST = 1.0, 3.0, 0.5
"""Doubt at which the trees begin to share an answer, at which they do so most, and how much that is."""


class Local(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the rows of one software configuration teach: multiples of work, and the field of what they leave.

    A field speaks of single rows; without it a local model holds nothing but some hundred multiples.
    """

    multiples: Array
    field: Field | None

    @classmethod
    def fitted(cls, work: Matrix, places: Matrix, part: Table, *, field: bool = True) -> Local:
        """Return the local model of a part of a table, with a field or without; `work` and `places` have its rows."""
        with single_threaded():
            multiples = multiples_of(work, part.measured)
            errors = np.log(part.measured) - np.log(work @ multiples)
        left = Field.fitted(places, part.family, part.architecture, errors) if field else None
        return cls(multiples=multiples, field=left)

    def log_time(self, work: Matrix, places: Matrix, families: Names) -> tuple[Array, Array]:
        """Return the logarithm of the time in seconds of each row, and the doubt about it (1 is usual)."""
        log_time = np.log(work @ self.multiples)
        if self.field is None:
            return log_time, np.full(len(work), TREES_UP_TO)
        expected, doubt = self.field.at(places, families)
        return log_time + expected, doubt

    def document(self) -> dict[str, Any]:
        """Return what to keep, for JSON."""
        return {"multiples": self.multiples.tolist(), "field": None if self.field is None else self.field.document()}

    @classmethod
    def restored(cls, document: Mapping[str, Any]) -> Local:
        """Return the local model from its document."""
        field = None if document["field"] is None else Field.restored(document["field"])
        return cls(multiples=np.array(document["multiples"], dtype=np.float64), field=field)


class FittedBlend:
    """Local models by software configuration, and the trees."""

    def __init__(
        self, trees: Trees, scales: Scales, local: dict[SoftwareKey, Local], left: Trees | None = None
    ) -> None:
        """Take what was fitted; `left` are trees on what the sums of costs leave, in place of fields."""
        self.trees, self.scales, self.local, self.left = trees, scales, local, left
        self._fields = any(item.field is not None for item in local.values())
        self._nearest = lru_cache(maxsize=KIN)(lambda place: tuple(nearest(place, local)))

    def predict(self, table: Table) -> Prediction:
        """Return the log residual of each row, and how unsure it is beside a usual row."""
        first, back = distinct(table.subjects, table.limits, table.rows)
        some = table.take(first)
        values = wide(some)
        places = (self.scales.places(values) if self._fields else np.zeros((len(some), 0)))[back]
        work = work_table(some)[back]
        residual = self.trees.predict(values)[back]
        left = np.zeros(len(table)) if self.left is None else self.left.predict(values)[back]
        difficulty = np.ones(len(table))
        for (kin, own), members in self._kin(table.rows).items():
            log_times = [
                self.local[item].log_time(work[members], places[members], table.family[members]) for item in kin
            ]
            near = (
                np.mean([log_time for log_time, _ in log_times], axis=0) - np.log(table.prior[members]) + left[members]
            )
            doubt = np.mean([doubt for _, doubt in log_times], axis=0)
            if own:
                share = TREES_MOST * np.clip((doubt - TREES_FROM) / (TREES_UP_TO - TREES_FROM), 0.0, 1.0)
            else:
                share = np.full(len(members), TREES_MOST)
            residual[members] = share * residual[members] + (1 - share) * near
            difficulty[members] = doubt
        return Prediction(residual=residual, difficulty=difficulty)

    def _kin(self, rows: Sequence[Row]) -> dict[tuple[tuple[SoftwareKey, ...], bool], list[int]]:
        """Return the indexes of rows by the local models that speak of them, and whether those are of their own place."""
        groups: dict[tuple[tuple[SoftwareKey, ...], bool], list[int]] = {}
        for place, members in by_place(rows).items():
            own = place in self.local
            kin = (place,) if own else self._nearest(place)
            if kin:
                groups.setdefault((kin, own), []).extend(members)
        return groups

    def texts(self) -> dict[str, str]:
        """Return the trees' texts and, under `LOCAL`, everything else; `restored` predicts the same from them."""
        local = {
            "work": list(WORK),
            "wide": list(WIDE),
            "mean": self.scales.mean.tolist(),
            "spread": self.scales.spread.tolist(),
            "places": [[list(place), value.document()] for place, value in sorted(self.local.items())],
        }
        left = {} if self.left is None else {f"{LEFT}{name}": text for name, text in self.left.texts.items()}
        return {**self.trees.texts, **left, LOCAL: json.dumps(local, separators=(",", ":"), allow_nan=False)}

    @classmethod
    def restored(cls, texts: Mapping[str, str]) -> FittedBlend:
        """Return the predictor that was kept. Raises ValueError where it was made with other features or work."""
        document = json.loads(texts[LOCAL])
        if tuple(document["work"]) != WORK or tuple(document["wide"]) != WIDE:
            raise ValueError("made with other features or other kinds of work")
        scales = Scales(mean=np.array(document["mean"]), spread=np.array(document["spread"]))
        trees = NamedTexts(texts, {name: name for name in texts if name != LOCAL and not name.startswith(LEFT)})
        left = NamedTexts(texts, {name.removeprefix(LEFT): name for name in texts if name.startswith(LEFT)})
        local = {SoftwareKey(*place): Local.restored(value) for place, value in document["places"]}
        return cls(Trees(trees), scales, local, Trees(left) if left else None)


class BlendMethod:
    """Costs, neighbours and trees on the rows of a traced table."""

    name = "blend"

    def __init__(
        self, learners: Sequence[Learner] = QUICK, *, fields: bool = True, machines: Machines | None = None
    ) -> None:
        """Take the settings of the trees, and the machines that fit them together.

        Without `fields`, which speak of single rows, more trees stand in for them.
        """
        self._learners, self._fields, self._machines = learners, fields, machines

    def fit(self, table: Table) -> FittedBlend:
        """Fit everything; the same table gives the same bits."""
        values = wide(table)
        scales = Scales.of(values)
        places, work = scales.places(values), work_table(table)
        local: dict[SoftwareKey, Local] = {}
        # Each is single-threaded, so that its bits do not depend on the machine; side by side they take half the time.
        with ThreadPoolExecutor(max_workers=1) as beside:
            trees = beside.submit(self._trees, values, table.residual, table.rows)
            for place, members in by_place(table.rows).items():
                if len(set(table.architecture[members].tolist())) >= ARCHITECTURES_NEEDED:
                    part = table.take(members)
                    local[place] = Local.fitted(work[members], places[members], part, field=self._fields)
            fitted = FittedBlend(trees.result(), scales, local)
        return fitted if self._fields else self._without_fields(fitted, table, values, work)

    def _without_fields(self, fitted: FittedBlend, table: Table, values: Matrix, work: Matrix) -> FittedBlend:
        """Fit trees on what the sums leave: with them new architectures of timm were 5.6 % off, without them 6.5."""
        rest = table.residual
        for place, members in by_place(table.rows).items():
            if place in fitted.local:
                times = work[members] @ fitted.local[place].multiples
                rest[members] = np.log(table.measured[members]) - np.log(times)
        summed = [
            index for place, members in by_place(table.rows).items() if place in fitted.local for index in members
        ]
        if not summed:
            return fitted
        left = self._trees(values[summed], rest[summed], [table.rows[index] for index in summed])
        return FittedBlend(fitted.trees, fitted.scales, fitted.local, left)

    def _trees(self, values: Matrix, residual: Array, rows: Sequence[Row]) -> Trees:
        return fit_trees(
            _but_batch(values), residual, names=WIDE, learners=self._learners, machines=self._machines, rows=rows
        )


def wide(table: Table) -> Matrix:
    """Return the features of a traced table with those of its shapes beside them, (rows, len(WIDE))."""
    return np.hstack([table.values, shape_table(table)])


def _but_batch(values: Matrix) -> Matrix:
    """Return features that have all the same batch size, by which no tree can then tell rows apart.

    Some devices were measured one item at a time and others never: trees took the step between them for the device's,
    and 43 % of timm's work on GPUs was predicted to take longer alone than in pairs. It costs no accuracy, because sizes
    of calls tell what a batch does.
    """
    same = values.copy()
    same[:, WIDE.index("log_batch")] = 0.0
    return same


def by_place(rows: Sequence[Row]) -> dict[SoftwareKey, list[int]]:
    """Return the indexes of the rows of each software configuration and mode."""
    groups: dict[SoftwareKey, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(SoftwareKey.of(row), []).append(index)
    return groups


def nearest(place: SoftwareKey, places: Iterable[SoftwareKey]) -> list[SoftwareKey]:
    """Return the measured places most like one that was never measured: one of each device, on the same platform.

    Whether the work is compiled decides first, then the layout, the runtime and its version.
    """
    best: dict[str, tuple[tuple[bool, ...], SoftwareKey]] = {}
    for other in sorted(places):
        if (other.platform, other.precision, other.mode) != (place.platform, place.precision, place.mode):
            continue
        alike = tuple(getattr(other, name) == getattr(place, name) for name in _ALIKE)
        if other.hardware not in best or (alike, other) > best[other.hardware]:
            best[other.hardware] = (alike, other)
    closest = max((alike[:2] for alike, _ in best.values()), default=())
    return [other for alike, other in best.values() if alike[:2] == closest]
