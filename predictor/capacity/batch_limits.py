"""Which batches fit in memory: by the needs that every answer goes by, scaled to what was measured of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.answering.candidates import Candidate
from predictor.answering.option import Option
from predictor.capacity.lengths import CONFIDENCE
from predictor.features.dataset import Row
from predictor.features.table import Array
from predictor.features.traces import Trace
from predictor.memory.facts import floor_of
from predictor.memory.kept import Memory, needs_of
from predictor.memory.needs import Needs

__all__ = ["Cell", "Rooms"]


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
        self.scale = np.ones(len(cells))
        here = np.array([at for at, cell in enumerate(cells) if cell.peak is not None], dtype=np.intp)
        if len(here):
            peaks = [peak for at in here if (peak := cells[at].peak) is not None]
            expected = self.expected(here, np.array([batch for batch, _ in peaks], dtype=np.int64))
            self.scale[here] = np.array([peak for _, peak in peaks]) / expected

    def expected(self, here: NDArray[np.intp], batches: NDArray[np.int64]) -> Array:
        """Return the bytes that are expected at the peak; NaN where the trace says nothing of memory."""
        needs = self.needs(here, batches)
        return np.full(len(here), np.nan) if needs is None else np.asarray(needs.expected * self.scale[here])

    def fits(self, here: NDArray[np.intp], batches: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which fit with a probability of CONFIDENCE; what ran fits."""
        rooms = np.array([self.cells[at].room_bytes or np.nan for at in here])
        needs = self.needs(here, batches, rooms / self.scale[here])
        fitting = np.zeros(len(here), dtype=np.bool_) if needs is None else needs.fits >= CONFIDENCE
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
        """Return the needs, unscaled; None where the trace says nothing of memory."""
        rows = [self._row(int(at), int(batch)) for at, batch in zip(here, batches, strict=True)]
        return needs_of(self._memory, self._trace, rows, np.full(len(rows), np.nan) if rooms is None else rooms)

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
