"""Operators as a runtime ran them: what is one call in a trace was several in older software.

Traces are made by a recent torch, where attention is one fused call that never writes its scores. Before torch 2.0 there
was no such call: the scores (heads × queries × keys) were written, scaled, normalised and read again, and under mixed
precision the normalising was done in fp32, between two copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from domain.performance.roofline import OPERATOR_CLASSES
from predictor.features.dataset import Row, version_key
from predictor.features.traces import Trace

__all__ = ["as_run"]

FUSED_SINCE = (2, 0)
PASSES, MIXED_PASSES = 6.0, 14.0
"""How often the scores are moved, in elements of the activations' size: written, scaled (read, write), normalised (read,
write), read; under mixed precision 28 bytes in the place of 2 an element, because normalising reads and writes fp32."""
_ATTENTION = OPERATOR_CLASSES.index("attention")


def as_run(traces: Sequence[Trace], rows: Sequence[Row]) -> list[Trace]:
    """Return the trace of each row with the traffic of its software; rows of a fused runtime keep theirs."""
    made: dict[tuple[int, float], Trace] = {}
    answer: list[Trace] = []
    for trace, row in zip(traces, rows, strict=True):
        passes = _passes(row)
        if passes and (id(trace), passes) not in made:
            made[id(trace), passes] = _unfused(trace, passes)
        answer.append(made[id(trace), passes] if passes else trace)
    return answer


def _passes(row: Row) -> float:
    if row.runtime != "torch" or not row.runtime_version or version_key(row.runtime_version) >= FUSED_SINCE:
        return 0.0
    return MIXED_PASSES if row.precision.startswith("amp") else PASSES


def _unfused(trace: Trace, passes: float) -> Trace:
    # Two products of 2 · scores · inner operations each make up the work of one attention.
    scores = np.where(trace.class_index == _ATTENTION, trace.flops / np.maximum(4 * trace.inner, 1.0), 0.0)
    return msgspec.structs.replace(trace, activations=trace.activations + passes * scores)
