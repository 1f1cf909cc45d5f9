"""Which batches fit in memory: by what was learned of needs, scaled to what was measured, else by the least that is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.answering.candidates import Candidate
from predictor.answering.option import Option
from predictor.features.dataset import Row
from predictor.features.table import Array
from predictor.features.traces import Trace
from predictor.memory.facts import floor_of
from predictor.memory.kept import Memory, Needs

__all__ = ["CONFIDENCE", "Cell", "Rooms"]

CONFIDENCE = 0.9
"""A batch fits where it does with this probability."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A device, platform and precision, with its `room_bytes` and what was measured there, by batch size."""

    candidate: Candidate
    room_bytes: float | None
    measured: Mapping[int, Option]
    out_of_memory: Mapping[int, str] = {}
    """Batch sizes that ran out of memory, with the events that say so."""

    @property
    def peak(self) -> tuple[int, float] | None:
        """The largest batch whose peak was measured, and that in bytes."""
        peak_memory_bytes = {
            batch: value.peak_memory_bytes for batch, value in self.measured.items() if value.peak_memory_bytes
        }
        return (max(peak_memory_bytes), peak_memory_bytes[max(peak_memory_bytes)]) if peak_memory_bytes else None


class Rooms:
    """The needs of one model in many cells; asked with indexes of cells and a batch size for each."""

    def __init__(self, trace: Trace, cells: Sequence[Cell], memory: Memory | None, mode: str, sizes: Mapping[str, Any]):
        self._trace, self.cells, self._memory, self._mode, self._sizes = trace, cells, memory, mode, sizes
        self.learned = np.array(
            [memory is not None and memory.knows(cell.candidate.platform, cell.candidate.runtime) for cell in cells],
            dtype=bool,
        )
        self.scale = np.ones(len(cells))
        here = np.array([at for at, cell in enumerate(cells) if cell.peak is not None], dtype=np.intp)
        if len(here):
            peaks = [peak for at in here if (peak := cells[at].peak) is not None]
            expected = self.expected(here, np.array([batch for batch, _ in peaks], dtype=np.int64))
            self.scale[here] = np.array([peak for _, peak in peaks]) / expected

    def expected(self, here: NDArray[np.intp], batches: NDArray[np.int64]) -> Array:
        """Return the bytes that are expected at the peak; where nothing was learned, the least that is needed."""
        floors = np.array([self.floor(int(at), int(batch))[2] for at, batch in zip(here, batches, strict=True)])
        needs = self.needs(here, batches)
        result = floors if needs is None else np.where(self.learned[here], needs.expected, floors)
        return np.asarray(result * self.scale[here])

    def fits(self, here: NDArray[np.intp], batches: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which fit: with a probability of CONFIDENCE, or as far as the least need says; what ran fits."""
        rooms = np.array([self.cells[at].room_bytes or np.nan for at in here])
        expected = self.expected(here, batches)
        fitting = expected <= rooms
        needs = self.needs(here, batches, rooms / self.scale[here])
        if needs is not None:
            fitting = np.where(self.learned[here], needs.fits >= CONFIDENCE, fitting)
        for place, (at, batch) in enumerate(zip(here, batches, strict=True)):
            cell = self.cells[at]
            if cell.peak is not None and batch <= cell.peak[0]:
                fitting[place] = cell.peak[1] <= rooms[place]
            if cell.out_of_memory and batch >= min(cell.out_of_memory):
                fitting[place] = False
        return np.asarray(fitting, dtype=np.bool_)

    def floor(self, at: int, batch: int) -> tuple[float, float, float]:
        """Return the bytes of weights, of live activations and of both, the least that a batch needs."""
        floor = floor_of(self._trace, self._row(at, batch))
        return (np.nan,) * 3 if floor is None else (floor.weights_bytes, floor.activations_bytes, floor.total_bytes)

    def measured(self, at: int, batch: int) -> float | None:
        """Return the peak that was measured at a batch, in bytes."""
        option = self.cells[at].measured.get(batch)
        return None if option is None else option.peak_memory_bytes

    def needs(self, here: NDArray[np.intp], batches: NDArray[np.int64], rooms: Array | None = None) -> Needs | None:
        """Return the learned needs, unscaled; None where the trace says nothing of memory."""
        if self._memory is None or not self.learned.any():
            return None
        rows = [self._row(int(at), int(batch)) for at, batch in zip(here, batches, strict=True)]
        return self._memory.needs(self._trace, rows, np.full(len(rows), np.nan) if rooms is None else rooms)

    def _row(self, at: int, batch: int) -> Row:
        candidate = self.cells[at].candidate
        return Row(
            model=self._trace.model,
            hardware=candidate.spec.id,
            platform=candidate.platform,
            precision=candidate.precision,
            batch_size=batch,
            mode=self._mode,
            runtime=candidate.runtime,
            runtime_version=candidate.runtime_version,
            compiled=candidate.compiled,
            layout=candidate.layout,
            threads=candidate.threads,
            family=self._trace.family,
            category=self._trace.category,
            hardware_kind=candidate.spec.kind,
            **self._sizes,
        )
