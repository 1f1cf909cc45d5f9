"""Rows of measured memory as an artifact keeps them, and the estimates that they give."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from domain.performance.roofline import MemoryEstimate
from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.features.traces import Trace
from predictor.learning.single_thread import single_threaded
from predictor.memory.facts import FACTS, facts_of, floor_of
from predictor.memory.method import MemoryFitted
from predictor.memory.needs import Needs, unmeasured

__all__ = ["Memory", "memory_of", "needs_of"]

MOST_ROWS = 600


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """What of a row decides how memory is used, beside its model."""

    hardware: str
    platform: str
    runtime: str
    precision: str
    mode: str
    options: dict[str, Any] = {}


class Memory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What taught: `facts` in the order of `FACTS`, bytes of `prior` and `measured`, and where it was."""

    names: list[str]
    where: list[Where]
    facts: list[list[float]]
    prior: list[float]
    measured: list[float]
    architecture: list[str]
    events: list[str]

    @cached_property
    def fitted(self) -> MemoryFitted:
        """The estimator, solved when it is first asked. Raises ValueError where the facts are others than today's."""
        if tuple(self.names) != FACTS:
            raise ValueError("made with other facts of memory")
        with single_threaded():
            return MemoryFitted(self._table)

    @property
    def _table(self) -> Table:
        rows = [
            Row(model=name, batch_size=1, event_id=event, **msgspec.structs.asdict(place))
            for name, event, place in zip(self.architecture, self.events, self.where, strict=True)
        ]
        architecture = np.array(self.architecture, dtype=str)
        return Table(
            target="memory",
            rows=rows,
            names=FACTS,
            values=np.array(self.facts),
            prior=np.array(self.prior),
            measured=np.array(self.measured),
            subjects=[None] * len(rows),
            limits=[None] * len(rows),
            architecture=architecture,
            family=architecture,
        )

    def knows(self, platform: str, runtime: str) -> bool:
        """Whether memory was measured under this runtime."""
        return (platform, runtime) in self._runtimes

    @cached_property
    def _runtimes(self) -> set[tuple[str, str]]:
        return {(item.platform, item.runtime) for item in self.where}

    def needs(
        self,
        trace: Trace,
        rows: Sequence[Row],
        floors: Sequence[MemoryEstimate],
        room_bytes: Array,
        nominal: float,
    ) -> Needs:
        """Return what configurations of one model need by what was learned; `floors` are theirs."""
        # Of one model that is all of a row that its facts depend on, and thousands of rows share it.
        works = [(row.precision, row.batch_size, row.mode) for row in rows]
        facts = {
            work: facts_of(trace, row, floor)
            for work, (row, floor) in dict(zip(works, zip(rows, floors, strict=True), strict=True)).items()
        }
        prior = np.array([floor.total_bytes for floor in floors])
        names = np.array([trace.architecture] * len(rows), dtype=str)
        table = Table(
            target="memory",
            rows=list(rows),
            names=FACTS,
            values=np.array([facts[work] for work in works]),
            prior=prior,
            measured=np.full(len(rows), np.nan),
            subjects=[trace] * len(rows),
            limits=[None] * len(rows),
            architecture=names,
            family=names,
        )
        with single_threaded():
            predicted = self.fitted.predict(table)
        expected = np.maximum(prior * np.exp(predicted.residual), prior)
        reach = predicted.difficulty * self.fitted.reach(nominal)
        return Needs(
            expected=expected,
            low=np.maximum(expected * np.exp(-reach), prior),
            high=expected * np.exp(reach),
            fits=self.fitted.chance(table, room_bytes, predicted),
            learned=np.ones(len(rows), dtype=np.bool_),
        )


def needs_of(
    memory: Memory | None, trace: Trace, rows: Sequence[Row], room_bytes: Array, nominal: float = 0.8
) -> Needs | None:
    """Return what configurations of one model need, in bytes, and whether they fit in so much room.

    It is learned where memory was measured under the same runtime, else `unmeasured`. None where the trace says nothing of
    weights and activations.
    """
    works: dict[tuple[str, int | None, str], MemoryEstimate] = {}
    for row in rows:
        work = (row.precision, row.batch_size, row.mode)
        if work not in works:
            floor = floor_of(trace, row)
            if floor is None:
                return None
            works[work] = floor
    if not rows:
        return None
    floors = [works[row.precision, row.batch_size, row.mode] for row in rows]
    needs = unmeasured(
        [floor.weights_bytes for floor in floors],
        [floor.activations_bytes for floor in floors],
        room_bytes,
        rows[0].mode,
        nominal,
    )
    if memory is None:
        return needs
    here = np.array([index for index, row in enumerate(rows) if memory.knows(row.platform, row.runtime)], dtype=np.intp)
    if len(here):
        learned = memory.needs(
            trace, [rows[index] for index in here], [floors[index] for index in here], room_bytes[here], nominal
        )
        for name in Needs.__struct_fields__:
            getattr(needs, name)[here] = getattr(learned, name)
    return needs


def memory_of(table: Table, base: Memory | None = None) -> Memory | None:
    """Return the rows of a table (`facts.tabulate`) beside those of a base; each event counts once, the newest stay."""
    seen = set(base.events if base is not None else ())
    new = [index for index, row in enumerate(table.rows) if not row.event_id or row.event_id not in seen]
    new = new[-MOST_ROWS:]
    if not new:
        return base
    rows = [table.rows[index] for index in new]
    here = Memory(
        names=list(FACTS),
        where=[
            Where(
                hardware=row.hardware,
                platform=row.platform,
                runtime=row.runtime,
                precision=row.precision,
                mode=row.mode,
                options=row.options,
            )
            for row in rows
        ],
        facts=np.round(table.values[new], 6).tolist(),
        prior=table.prior[new].tolist(),
        measured=table.measured[new].tolist(),
        architecture=table.architecture[new].tolist(),
        events=[row.event_id for row in rows],
    )
    if base is None:
        return here
    kept = MOST_ROWS - len(new)
    both = {
        name: [*(getattr(base, name)[-kept:] if kept > 0 else []), *getattr(here, name)]
        for name in ("where", "facts", "prior", "measured", "architecture", "events")
    }
    return msgspec.structs.replace(here, **both)
