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
from predictor.failure_rates.shares import Shares
from predictor.features.dataset import Row
from predictor.features.traces import Trace
from predictor.memory.facts import floor_of

__all__ = ["roomed"]


def roomed(
    options: Sequence[Option],
    trace: Trace,
    rows: Sequence[Row],
    chosen: Sequence[Candidate],
    predictor: Predictor,
    nominal: float,
) -> list[Option]:
    """Return the options with their memory and chances; all four sequences have the same order.

    Memory is estimated where it was measured under the same runtime; elsewhere only the floor, weights and live
    activations, is given.
    """
    made = _floored(options, trace, rows)
    memory = predictor.card.memory
    beyond = [math.nan] * len(made)
    indexes = [
        index for index, item in enumerate(chosen) if memory is not None and memory.knows(item.platform, item.runtime)
    ]
    if memory is not None and indexes:
        room = np.array([chosen[index].limits.memory_bytes or math.nan for index in indexes])
        needs = memory.needs(trace, [rows[index] for index in indexes], room, nominal)
        if needs is not None:
            for place, index in enumerate(indexes):
                made[index] = replace(
                    made[index],
                    peak_memory_bytes=float(needs.expected[place]),
                    memory_low_bytes=float(needs.low[place]),
                    memory_high_bytes=float(needs.high[place]),
                )
                beyond[index] = 1 - float(needs.fits[place])
    return _with_chances(made, trace, rows, predictor.card.shares, beyond)


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
    options: list[Option], trace: Trace, rows: Sequence[Row], shares: Shares | None, beyond: Sequence[float]
) -> list[Option]:
    if shares is None:
        return options
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
        document.append(replace(option, chances=_beyond(chances[cell], out)))
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


def _beyond(chances: Chances, beyond: float) -> Chances:
    """Where the need of memory is known it decides the chance of running out, and the others keep their proportions."""
    others = chances.runs + chances.unsupported + chances.fails
    if math.isnan(beyond) or others <= 0:
        return chances
    left = (1 - beyond) / others
    return replace(
        chances,
        runs=chances.runs * left,
        unsupported=chances.unsupported * left,
        fails=chances.fails * left,
        out_of_memory=beyond,
    )
