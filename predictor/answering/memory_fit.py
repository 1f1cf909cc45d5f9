"""What a configuration needs beside time: memory, and the chance that it runs at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from domain.answers import Chances
from domain.performance.roofline import MemoryEstimate
from predictor.answering.candidates import Candidate
from predictor.answering.option import Option
from predictor.artifact.artifact import Predictor
from predictor.failure_rates.cases import TriedConfiguration
from predictor.failure_rates.odds import with_memory
from predictor.failure_rates.shares import Shares
from predictor.features.dataset import Row
from predictor.features.traces import Trace
from predictor.memory.facts import floor_of
from predictor.memory.kept import needs_of
from predictor.memory.needs import usable_bytes

__all__ = ["roomed"]


def roomed(
    options: Sequence[Option],
    trace: Trace,
    rows: Sequence[Row],
    chosen: Sequence[Candidate],
    predictor: Predictor,
    nominal: float,
) -> list[Option]:
    """Return the options with their memory and chances; all four sequences have the same order."""
    made = _floored(options, trace, rows)
    room = np.array([usable_bytes(item.limits.memory_bytes) or math.nan for item in chosen])
    needs = needs_of(predictor.card.memory, trace, rows, room, nominal)
    beyond = [math.nan] * len(made)
    if needs is not None:
        beyond = (1 - needs.fits).tolist()
        made = [
            replace(option, peak_memory_bytes=peak, memory_low_bytes=low, memory_high_bytes=high)
            for option, peak, low, high in zip(
                made, needs.expected.tolist(), needs.low.tolist(), needs.high.tolist(), strict=True
            )
        ]
    return _with_chances(made, trace, rows, predictor.card.shares or Shares(counts={}, evidence={}), beyond)


def _floored(options: Sequence[Option], trace: Trace, rows: Sequence[Row]) -> list[Option]:
    """Return the options with the least that they need, which the device has no part in."""
    memory_estimates: dict[tuple[str, int | None, str], MemoryEstimate | None] = {}
    made: list[Option] = []
    for option, row in zip(options, rows, strict=True):
        work = (row.precision, row.batch_size, row.mode)
        if work not in memory_estimates:
            memory_estimates[work] = floor_of(trace, row)
        floor = memory_estimates[work]
        if floor is not None:
            option = replace(
                option,
                memory_floor_bytes=floor.total_bytes,
                weights_bytes=floor.weights_bytes,
                activations_bytes=floor.activations_bytes,
            )
        made.append(option)
    return made


def _with_chances(
    options: list[Option], trace: Trace, rows: Sequence[Row], shares: Shares, beyond: Sequence[float]
) -> list[Option]:
    chances: dict[tuple[str, str, str], Chances] = {}
    elsewhere: dict[tuple[str, str], Chances] = {}
    document: list[Option] = []
    for option, row, out in zip(options, rows, beyond, strict=True):
        cell = (row.hardware, row.platform, row.precision)
        if cell not in chances:
            case = _case(trace, row)
            if shares.tried(case):
                chances[cell] = shares.chances(case)
            else:  # Where a device was not tried, it is like any other.
                chances[cell] = elsewhere.get(cell[1:]) or elsewhere.setdefault(cell[1:], shares.chances(case))
        document.append(replace(option, chances=with_memory(chances[cell], out)))
    return document


def _case(trace: Trace, row: Row) -> TriedConfiguration:
    return TriedConfiguration(
        model=trace.model,
        platform=row.platform,
        precision=row.precision,
        hardware=row.hardware,
        category=trace.category,
        family=trace.family,
        mode=row.mode,
    )
