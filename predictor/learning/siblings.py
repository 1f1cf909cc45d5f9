"""The same model on a sibling device: what it took there says much about what it takes here.

What the trees miss of a model they miss on every device of its kind, so the measured residual of the roofline moves
with the model. A sibling is a row of the same model at the same sizes on another device of the same platform, compiled
alike, with the same layout and precision; of several the one nearest in runtime version and batch size counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.learning.covariance import version_steps
from predictor.learning.method import Predictive

__all__ = ["Matched", "Siblings", "work_of"]

DOUBLINGS = 3.0
"""A row whose batch is more doublings away says too little: other kernels run, and other limits bind."""
PER_DOUBLING = 1.5
"""How many minor versions of the runtime one doubling of the batch counts as."""


class Matched(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """For the rows of a table: which have a sibling, its log(measured / prior), and what the trees make of both.

    `step` is the trees' residual of the row less that of its sibling; `events` name the siblings. Where there is none
    the figures are 0.
    """

    found: NDArray[np.bool_]
    residual: Array
    step: Array
    events: list[str]

    def take(self, chosen: NDArray[np.intp]) -> Matched:
        """Return the chosen rows."""
        events = [self.events[index] for index in chosen]
        return Matched(found=self.found[chosen], residual=self.residual[chosen], step=self.step[chosen], events=events)

    def spread(self, places: NDArray[np.intp], length: int) -> Matched:
        """Return these rows at their places among so many, the others without a sibling."""
        found, residual, step, events = np.zeros(length, dtype=bool), np.zeros(length), np.zeros(length), [""] * length
        found[places], residual[places], step[places] = self.found, self.residual, self.step
        for place, event in zip(places.tolist(), self.events, strict=True):
            events[place] = event
        return Matched(found=found, residual=residual, step=step, events=events)

    def residual_at(self, share: float) -> Array:
        """Return the residual here if `share` of the difference that the trees see is true."""
        return np.asarray(self.residual + share * self.step, dtype=np.float64)


class Siblings:
    """The rows that trained, found by the work they did."""

    def __init__(self, table: Table) -> None:
        """Take the measured rows."""
        self._known = table
        self._residual = table.residual
        self._by_work: dict[tuple[Any, ...], dict[_Where, int]] = {}
        for index, row in enumerate(table.rows):
            self._by_work.setdefault(work_of(row), {}).setdefault(_where(row), index)
        self._software = {(row.platform, row.precision) for row in table.rows}
        self._near: dict[tuple[Any, ...], list[tuple[str, int]]] = {}

    def matched(self, table: Table, fitted: Predictive, learned: Array | None = None) -> Matched:
        """Return the sibling of each row; `fitted` learned from the known rows, and `learned` is what it says of these."""
        nearest = [self.nearest(row) for row in table.rows]
        result = np.array([index is not None for index in nearest], dtype=bool)
        residual, step, events = np.zeros(len(table)), np.zeros(len(table)), [""] * len(table)
        if result.any():
            chosen = np.array([index for index in nearest if index is not None], dtype=np.intp)
            residual[result] = self._residual[chosen]
            known, back = np.unique(chosen, return_inverse=True)
            there = fitted.predict(self._known.take(known)).residual[back]
            here = fitted.predict(table).residual if learned is None else learned
            step[result] = here[result] - there
            for place, index in zip(np.flatnonzero(result).tolist(), chosen.tolist(), strict=True):
                events[place] = self._known.rows[index].event_id
        return Matched(found=result, residual=residual, step=step, events=events)

    def nearest(self, row: Row) -> int | None:
        """Return the index of a row's sibling among the known rows, None where it has none."""
        if (row.platform, row.precision) not in self._software:
            return None
        work, where = work_of(row), _where(row)
        near = self._near.get((work, where[1:]))
        if near is None:
            near = self._near[work, where[1:]] = _nearest(where, self._by_work.get(work, {}))
        return next((index for hardware, index in near if hardware != where.hardware), None)


class _Where(NamedTuple):
    """Where a row lies among those of its work: its device, the logarithm of its batch, and its version in minor steps."""

    hardware: str
    doublings: float
    steps: float


def _nearest(where: _Where, known: Mapping[_Where, int]) -> list[tuple[str, int]]:
    """Return the two devices with the nearest rows, each with the index of its nearest: one of them is not the row's own."""
    nearest: dict[str, tuple[float, int]] = {}
    for other, index in known.items():
        apart = abs(where.doublings - other.doublings)
        distance = abs(where.steps - other.steps) + PER_DOUBLING * apart
        if apart <= DOUBLINGS and (distance, index) < nearest.get(other.hardware, (math.inf, 0)):
            nearest[other.hardware] = (distance, index)
    order = sorted(nearest.items(), key=lambda item: item[1])
    return [(hardware, index) for hardware, (_, index) in order[:2]]


def _where(row: Row) -> _Where:
    return _Where(row.hardware, math.log2(row.batch_size or 1), version_steps(row.runtime_version))


def work_of(row: Row) -> tuple[Any, ...]:
    """Return what a row has in common with its siblings: the model, the sizes of an item, and the software."""
    return (row.model, row.mode, *row.sizes, row.platform, row.runtime, row.precision, row.compiled, row.channels_last)
