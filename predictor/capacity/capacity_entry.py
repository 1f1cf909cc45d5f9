"""One entry of what fits: batches, lengths, memory by its parts, and what the precision gives and costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.answers import BestBatch, CapacityEntry, Longest, MemoryUse
from domain.catalogues.language_models import LanguageModel
from predictor.answering.command import command_of
from predictor.answering.constraints import SEEN
from predictor.answering.context import AnswerContext
from predictor.answering.estimates import estimate
from predictor.answering.option import Option
from predictor.answering.question import Offload
from predictor.answering.ranked_entry import figures
from predictor.capacity.batch_limits import Cell, Rooms
from predictor.capacity.lengths import CONFIDENCE, context_bytes, context_needs, longest_context, longest_sequence
from predictor.features.table import Array
from predictor.features.traces import Trace
from predictor.llm_serving import offload
from predictor.llm_serving.deployment import Deployment, Storage, Workers, storage_of
from predictor.llm_serving.needs import activations_bytes
from predictor.memory.needs import RUNTIME_BYTES

__all__ = ["LARGEST_BATCH", "CapacityInputs", "entries_of", "largest"]

Whole = NDArray[np.int64]
Fits = Callable[[NDArray[np.intp], Whole], NDArray[np.bool_]]


def largest(fits: Fits, cases: int, most: int) -> Whole:
    """Return for each case the largest number from 1 to `most` up to which everything that was tried fits; 0 for none.

    `fits` takes indexes of cases and a number for each, and says which fit; it is asked about all open cases together.
    """
    low, high = np.zeros(cases, dtype=np.int64), np.full(cases, most + 1, dtype=np.int64)
    trial = np.ones(cases, dtype=np.int64)
    open_ = np.arange(cases, dtype=np.intp)
    while len(open_):
        fitting = fits(open_, trial[open_])
        low[open_[fitting]] = trial[open_[fitting]]
        high[open_[~fitting]] = trial[open_[~fitting]]
        trial = np.minimum(2 * np.maximum(low, 1), most)
        open_ = np.flatnonzero((high == most + 1) & (low < most)).astype(np.intp)
    open_ = np.flatnonzero(high - low > 1).astype(np.intp)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        fitting = fits(open_, middle)
        low[open_[fitting]], high[open_[~fitting]] = middle[fitting], middle[~fitting]
        open_ = np.flatnonzero(high - low > 1).astype(np.intp)
    return low


LARGEST_BATCH = 65536
LARGEST_TRIED = 512
"""Throughput is compared up to this batch: beyond it nothing trained the predictor."""
AS_GOOD = 0.98
"""The smallest batch that reaches this share of the best throughput is the best: a call is shorter."""


class CapacityInputs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an answer is made of. `facts` are those of a language model, `traces` those of other lengths; `tokens` is
    the length that a sequence of a language model without a trace has. `offload` says that layers may stay on the host."""

    known: AnswerContext
    cells: Sequence[Cell]
    measured: Sequence[Option]
    mode: str
    facts: LanguageModel | None
    traces: Sequence[Trace]
    positions: int | None
    tokens: int
    offload: Offload | None = None


def entries_of(about: CapacityInputs) -> list[CapacityEntry]:
    """Return one entry a cell, in their order."""
    if not about.cells:
        return []
    trace = about.known.trace
    entries = _by_facts(about) if trace is None else _by_trace(about, trace)
    plain = {
        (entry.hardware, entry.platform): entry.best.throughput_per_s
        for entry in entries
        if entry.precision == "fp32" and entry.best is not None
    }
    return [_compared(entry, plain.get((entry.hardware, entry.platform)), about) for entry in entries]


def _compared(entry: CapacityEntry, base: float | None, about: CapacityInputs) -> CapacityEntry:
    """Add what the precision gives and costs; `base` is the throughput of fp32 there."""
    rate = None if entry.best is None else entry.best.throughput_per_s
    return msgspec.structs.replace(
        entry,
        speedup_over_fp32=figures(rate / base) if rate and base else None,
        output_error=about.known.errors.get((entry.platform, entry.precision)),
    )


def _by_trace(about: CapacityInputs, trace: Trace) -> list[CapacityEntry]:
    existing, cells = about.known, about.cells
    rooms = Rooms(trace, cells, existing.predictor.card.memory, about.mode, existing.sizes.stated())
    batches = np.zeros(len(cells), dtype=np.int64)
    here = np.array(
        [at for at, item in enumerate(cells) if item.room_bytes and np.isfinite(rooms.floor(at, 1)[2])], dtype=np.intp
    )
    if len(here):
        batches[here] = largest(lambda some, sizes: rooms.fits(here[some], sizes), len(here), LARGEST_BATCH)
    best = _best(about, trace, batches)
    entries: list[CapacityEntry] = []
    for at, cell in enumerate(cells):
        request = at in here
        entries.append(
            _entry(
                cell,
                memory=_memory(rooms, at),
                largest_batch=int(batches[at]) if request else None,
                largest_basis=_basis(rooms, at, int(batches[at])) if request else _not_known(cell),
                best=_best_batch(about, rooms, at, best[at]) if request else None,
                longest=_longest(about, rooms, at),
            )
        )
    return entries


def _entry(
    cell: Cell,
    *,
    memory: MemoryUse | None,
    largest_batch: int | None,
    largest_basis: str,
    longest: Longest,
    best: BestBatch | None = None,
) -> CapacityEntry:
    candidate = cell.candidate
    return CapacityEntry(
        hardware=candidate.spec.id,
        platform=candidate.platform,
        precision=candidate.precision,
        runtime=candidate.runtime,
        compiled=candidate.compiled,
        room_bytes=None if cell.room_bytes is None else round(cell.room_bytes),
        evidence=sorted({event for option in cell.measured.values() for event in option.evidence[:1]}),
        out_of_memory={str(batch): event for batch, event in sorted(cell.out_of_memory.items())},
        memory=memory,
        largest_batch=largest_batch,
        largest_basis=largest_basis,
        best=best,
        longest=longest,
        speedup_over_fp32=None,
        output_error=None,
    )


def _memory(rooms: Rooms, at: int) -> MemoryUse:
    """What batch 1 holds, in bytes, by its parts; the runtime is what weights and activations leave of the peak."""
    item, here = np.array([1], dtype=np.int64), np.array([at], dtype=np.intp)
    weights, activations, floor = rooms.floor(at, 1)
    measured = rooms.measured(at, 1)
    needs = rooms.needs(here, item)
    scale = float(rooms.scale[at])
    peak = measured or (None if needs is None else float(needs.expected[0]) * scale)
    return MemoryUse(
        basis="measured"
        if measured
        else "scaled from a measured peak"
        if scale != 1
        else "predicted"
        if needs is not None and needs.learned[0]
        else "estimated",
        peak_bytes=_whole(peak),
        low_bytes=_whole(float(needs.low[0]) * scale) if needs is not None and not measured else None,
        high_bytes=_whole(float(needs.high[0]) * scale) if needs is not None and not measured else None,
        weights_bytes=_whole(weights),
        activations_bytes=_whole(activations),
        kv_cache_bytes=None,
        runtime_bytes=None if peak is None else _whole(max(peak - floor, 0.0)),
    )


def _basis(rooms: Rooms, at: int, batch: int) -> str:
    cell = rooms.cells[at]
    if batch == LARGEST_BATCH:
        return f"no larger batch was tried; {_basis(rooms, at, batch - 1)}"
    if cell.out_of_memory and batch == min(cell.out_of_memory) - 1:
        return f"batch {batch + 1} ran out of memory"
    if cell.peak is not None and batch <= cell.peak[0]:
        return "measured"
    how = f"fits with a probability of {CONFIDENCE:g}"
    if cell.peak is not None:
        return f"{how}, scaled to the peak measured at batch {cell.peak[0]}"
    return how


def _not_known(cell: Cell) -> str:
    if cell.room_bytes is None:
        return "the memory of this device is not known; give a limit"
    return "its trace says nothing of weights and activations"


def _best(about: CapacityInputs, trace: Trace, batches: Array | Any) -> list[Option | None]:
    """The option with the best throughput that fits in each cell, measured options in the place of predictions."""
    chosen = [
        msgspec.structs.replace(cell.candidate, batch_size=2**power)
        for cell, most in zip(about.cells, batches.tolist(), strict=True)
        for power in range(LARGEST_TRIED.bit_length())
        if 2**power <= most and 2**power not in cell.measured
    ]
    existing = about.known
    predicted = estimate(trace, chosen, existing.predictor, about.mode, existing.sizes, "p50", existing.siblings)
    options: list[Option | None] = []
    for cell, most in zip(about.cells, batches.tolist(), strict=True):
        place = cell.candidate.cell[:3]
        here = [item for item in predicted if (item.hardware, item.platform, item.precision) == place]
        here += [value for batch, value in cell.measured.items() if batch <= most]
        rated = [item for item in here if item.throughput_per_s and item.batch_size]
        top = max((item.throughput_per_s or 0.0 for item in rated), default=0.0)
        good = [item for item in rated if (item.throughput_per_s or 0.0) >= AS_GOOD * top]
        options.append(min(good, key=lambda item: item.batch_size or 0, default=None))
    return options


def _best_batch(about: CapacityInputs, rooms: Rooms, at: int, option: Option | None) -> BestBatch | None:
    if option is None or option.batch_size is None:
        return None
    here, batch = np.array([at], dtype=np.intp), np.array([option.batch_size], dtype=np.int64)
    seen = option.basis in SEEN and option.peak_memory_bytes
    return BestBatch(
        batch_size=option.batch_size,
        throughput_per_s=figures(option.throughput_per_s),
        latency_ms=figures(option.latency_ms),
        latency_ms_low=figures(option.low_ms),
        latency_ms_high=figures(option.high_ms),
        memory_bytes=_whole(option.peak_memory_bytes if seen else float(rooms.expected(here, batch)[0])),
        basis=option.basis,
        interval_covered=option.covered,
        evidence=list(option.evidence),
        why=option.why,
        command=command_of(about.known, option, about.mode),
    )


def _longest(about: CapacityInputs, rooms: Rooms, at: int) -> Longest:
    cell = rooms.cells[at]
    precision = cell.candidate.precision
    if about.mode != "inference":
        return Longest(tokens=None, why="told of inference only")
    if cell.room_bytes is None:
        return Longest(tokens=None, why="the memory of this device is not known; give a limit")
    if about.facts is not None:
        return longest_context(about.facts, _storage(about.facts, cell), cell.room_bytes, about.positions)
    item = np.array([1], dtype=np.int64)
    floor = rooms.floor(at, 1)[2]
    scale = float(rooms.expected(np.array([at], dtype=np.intp), item)[0]) / floor if np.isfinite(floor) else 1.0
    return longest_sequence(about.traces, precision, cell.room_bytes, max(scale, 1.0), about.positions)


def _by_facts(about: CapacityInputs) -> list[CapacityEntry]:
    """Sequences of a language model side by side, by its published sizes: no operator trace says more."""
    return [_by_sizes(about, cell) for cell in about.cells]


def _by_sizes(about: CapacityInputs, cell: Cell) -> CapacityEntry:
    facts = about.facts
    if facts is None or cell.room_bytes is None:
        why = _not_known(cell)
        return _entry(cell, memory=None, largest_batch=None, largest_basis=why, longest=Longest(tokens=None, why=why))
    room, tokens, storage = cell.room_bytes, about.tokens, _storage(facts, cell)
    weights, each = context_bytes(facts, storage, tokens)
    alone = context_needs(facts, storage, tokens, [1], room)
    batch = largest(
        lambda _, sizes: context_needs(facts, storage, tokens, sizes.tolist(), room).fits >= CONFIDENCE,
        1,
        LARGEST_BATCH,
    )
    entry = _entry(
        cell,
        memory=MemoryUse(
            basis="estimated",
            peak_bytes=_whole(float(alone.expected[0])),
            low_bytes=_whole(float(alone.low[0])),
            high_bytes=_whole(float(alone.high[0])),
            weights_bytes=_whole(weights),
            activations_bytes=_whole(activations_bytes(facts, tokens)),
            kv_cache_bytes=_whole(each),
            runtime_bytes=_whole(RUNTIME_BYTES),
        ),
        largest_batch=int(batch[0]),
        largest_basis=f"sequences of {tokens} tokens side by side fit with a probability of {CONFIDENCE:g}",
        longest=longest_context(facts, storage, room, about.positions),
    )
    return entry if batch[0] else _parted(about, facts, cell, storage, entry)


def _parted(
    about: CapacityInputs, facts: LanguageModel, cell: Cell, storage: Storage, entry: CapacityEntry
) -> CapacityEntry:
    """Say what layers in the host's memory would change where a device does not hold one sequence; an estimate."""
    candidate, asked = cell.candidate, about.offload or Offload(memory_bytes=None, bandwidth=None)
    if candidate.runtime not in offload.ENGINES or offload.shares_memory(candidate.spec, candidate.platform):
        return entry
    spread = Deployment(
        input_tokens=max(about.tokens - 1, 1),
        output_tokens=1,
        requests=1,
        continuous=False,
        apart=False,
        prefill=Workers(),
        decode=Workers(),
        storage=storage,
    )
    host = offload.host_of(asked.memory_bytes, asked.bandwidth)
    split = offload.split_of(facts, spread, cell.room_bytes or 0.0, host, 1, CONFIDENCE)
    if split is None:
        return entry
    layers = f"{split.host_layers} of {split.layers} layers in the host's memory"
    if about.offload is None:
        why = f"one sequence does not fit; with {layers} it does: --offload"
        return msgspec.structs.replace(entry, largest_basis=why)
    return msgspec.structs.replace(
        entry,
        memory=MemoryUse(
            basis="estimated",
            peak_bytes=_whole(split.peak),
            low_bytes=_whole(split.low),
            high_bytes=_whole(split.high),
            weights_bytes=_whole(split.weights_bytes),
            activations_bytes=_whole(split.activations_bytes),
            kv_cache_bytes=_whole(split.kv_cache_bytes),
            runtime_bytes=_whole(RUNTIME_BYTES),
        ),
        largest_batch=1,
        largest_basis=f"estimate: one sequence of {about.tokens} tokens with {layers} ({split.host_bytes / 1e9:.3g} GB)",
        offloaded_layers=split.host_layers,
        longest=Longest(tokens=about.tokens, why=f"at least: with {layers}"),
    )


def _storage(facts: LanguageModel, cell: Cell) -> Storage:
    return storage_of(cell.candidate.runtime, cell.candidate.precision, mixture=bool(facts.experts))


def _whole(value: float | None) -> int | None:
    return None if value is None or not np.isfinite(value) else round(value)
