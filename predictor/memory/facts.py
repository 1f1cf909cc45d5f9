"""What a trace says about memory: bytes of weights and of live activations, and what kind of work it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from domain.performance.roofline import (
    OPERATOR_CLASSES,
    MemoryEstimate,
    activation_bytes_per_element,
    memory_estimate,
    weight_bytes_per_element,
)
from predictor.features.dataset import Row, measured_target
from predictor.features.table import Array, Table
from predictor.features.traces import Trace, TraceBook

__all__ = ["FACTS", "facts_of", "floor_of", "tabulate"]

_SHARES = ("conv", "conv1x1", "depthwise", "mm", "softmax", "norm", "elementwise", "attention")
FACTS = (
    "weights",
    "activations",
    "together",
    "largest_call",
    "largest_weight",
    "written",
    "flops",
    "calls",
    *(f"written_{name}" for name in _SHARES),
)
"""Logs of bytes (of `flops` and `calls`: of their number), then the share of written elements by operator class."""


def floor_of(trace: Trace, row: Row) -> MemoryEstimate | None:
    """Return the bytes that the work of a row needs at least, or None where the trace does not say."""
    totals = {"parameters": trace.parameters, **trace.totals}
    return memory_estimate(totals, precision=row.precision, batch_size=row.batch_size or 1, mode=row.mode)


def facts_of(trace: Trace, row: Row, floor: MemoryEstimate) -> Array:
    """Return the facts of one row, in the order of `FACTS`."""
    batch = row.batch_size or 1
    activation, weight = activation_bytes_per_element(row.precision), weight_bytes_per_element(row.precision)
    written = trace.count * trace.written
    total = max(float(written.sum()), 1.0)
    shares = [float(written[trace.class_index == OPERATOR_CLASSES.index(name)].sum()) / total for name in _SHARES]
    logs = np.log(
        [
            max(floor.weights_bytes, 1.0),
            max(floor.activations_bytes, 1.0),
            max(floor.total_bytes, 1.0),
            max(float(trace.activations.max(initial=0.0)), 1.0) * activation * batch,
            max(float(trace.weights.max(initial=0.0)), 1.0) * weight,
            total * activation * batch,
            max(float((trace.count * trace.flops).sum()), 1.0) * batch,
            max(float(trace.count.sum()), 1.0),
        ]
    )
    return np.concatenate([logs, shares])


def tabulate(rows: Sequence[Row], book: TraceBook) -> Table:
    """Return the table of those rows whose model is traced and says how many weights and activations it has.

    The target is `memory` in bytes, the prior weights and live activations alone: what a device and its software need
    beside them is no figure of a data sheet.
    """
    dropped: Counter[str] = Counter()
    kept: list[tuple[Row, Trace, MemoryEstimate, float]] = []
    for row in rows:
        value, trace = measured_target(row, "memory"), book.find_for(row)
        floor = None if trace is None else floor_of(trace, row)
        if value is None:
            dropped["no figure of the target"] += 1
        elif row.shared:
            dropped["several ranks"] += 1
        elif trace is None:
            dropped["no trace"] += 1
        elif floor is None:
            dropped["no parameters or activations in the trace"] += 1
        else:
            kept.append((row, trace, floor, value))
    return Table(
        target="memory",
        rows=[row for row, *_ in kept],
        names=FACTS,
        values=np.array([facts_of(trace, row, floor) for row, trace, floor, _ in kept]).reshape(-1, len(FACTS)),
        prior=np.array([floor.total_bytes for _, _, floor, _ in kept], dtype=np.float64),
        measured=np.array([value for *_, value in kept], dtype=np.float64),
        subjects=[trace for _, trace, *_ in kept],
        limits=[None] * len(kept),
        architecture=np.array([trace.architecture for _, trace, *_ in kept], dtype=str),
        family=np.array([trace.family or row.family or row.model for row, trace, *_ in kept], dtype=str),
        dropped=dict(dropped),
    )
