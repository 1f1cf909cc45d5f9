"""What a call has to do, by kind of work: seconds at the device's limits that real software spends a multiple of.

Where `predictor.features.features` describes a trace to trees that saw thousands of rows, this reduces it to some
thirty amounts whose multiples a few dozen rows can teach. A multiple means something: 2 on `mm.large` is matrix
products at half the peak.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from domain.performance.roofline import ARITHMETIC_CLASSES, OPERATOR_CLASSES, TRAINING_PASSES, Limits
from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix
from predictor.features.traces import Trace

__all__ = ["MULTIPLES", "TERMS", "work_of", "work_of_many"]

_SIZED = ("conv", "conv1x1", "mm", "attention")
_PLAIN = ("depthwise", "grouped", "bmm")
_MOVING = tuple(name for name in OPERATOR_CLASSES if name not in ARITHMETIC_CLASSES)
_LARGE_AS_ONE = ("softmax", "reduce", "embedding", "other")
"""Moving classes of which there is too little to tell small from large."""
_SIZED_MOVING = tuple(name for name in _MOVING if name not in _LARGE_AS_ONE)
ARITHMETIC_SPAN_S = (1e-5, 1e-3)
"""An operator whose arithmetic takes less than the first at peak counts as small, more than the second as large."""
TRAFFIC_SPAN = (2.5e5, 1.6e7)
"""Bytes a call, likewise: within one core's cache, and far beyond it."""
GROUP_SPAN = (8.0, 64.0)
"""Channels of a group: one with fewer than the first wastes most of a vector, with more than the second it is a plain
convolution."""
CALL_S = 1e-4
"""What entering the runtime is measured in; an order of magnitude."""
_OPTIMIZER_ELEMENTS = {"adamw": 7.0, "adam": 7.0, "adamw-8bit": 4.0, "sgd": 3.0}
"""Reads and writes of an fp32 element for each parameter: weight, gradient, and the moments there are."""

MULTIPLES: dict[str, float] = {
    **{f"{name}.{size}": multiple for name in _SIZED for size, multiple in (("small", 3.0), ("large", 1.5))},
    **dict.fromkeys(_PLAIN, 3.0),
    "weights.small": 0.5,
    "weights.large": 1.0,
    "operands": 0.3,
    **{f"{name}.{size}": 0.5 for name in _SIZED_MOVING for size in ("small", "large")},
    **dict.fromkeys(_LARGE_AS_ONE, 0.5),
    "batch norm": 0.5,
    "launch.arithmetic": 2.0,
    "launch.moving": 1.0,
    "call": 0.5,
    "optimizer": 1.0,
}
"""Each kind of work with the multiple that is expected before anything is measured."""
TERMS = tuple(MULTIPLES)


def work_of(trace: Trace, limits: Sequence[Limits], rows: Sequence[Row]) -> Matrix:
    """Return the work of one trace under many configurations, (configurations, len(TERMS)) in seconds."""
    batch = np.array([float(row.batch_size or 1) for row in rows])
    again = TRAINING_PASSES if trace.mode != "training" else 1.0
    passes = np.array([again if row.mode == "training" else 1.0 for row in rows])
    peak = np.array([limit.peak_flops for limit in limits])
    bandwidth = np.array([limit.bandwidth_bytes_per_s for limit in limits])
    calls = trace.count[:, None] * passes
    compute = trace.flops[:, None] * (batch / peak)
    operands = trace.activations[:, None] * (batch * np.array([limit.activation_bytes for limit in limits]))
    weights = trace.weights[:, None] * np.array([limit.weight_bytes for limit in limits])
    arithmetic = trace.class_index < len(ARITHMETIC_CLASSES)
    values: dict[str, Array] = {}
    size = _place(compute, *ARITHMETIC_SPAN_S)
    for name, part in _arithmetic_parts(trace).items():
        _split(values, name, calls * compute * part[:, None], size if name in _SIZED else None)
    _split(values, "weights", (calls * weights / bandwidth)[arithmetic], _place(weights, *TRAFFIC_SPAN)[arithmetic])
    values["operands"] = (calls * operands / bandwidth)[arithmetic].sum(axis=0)
    traffic = operands + weights
    size = _place(traffic, *TRAFFIC_SPAN)
    folded = np.array(["batch_norm" in row["name"] for row in trace.operators])
    for name in _MOVING:
        here = (trace.class_index == OPERATOR_CLASSES.index(name)) & ~folded
        _split(values, name, (calls * traffic / bandwidth)[here], size[here] if name in _SIZED_MOVING else None)
    values["batch norm"] = (calls * traffic / bandwidth)[folded].sum(axis=0)
    launch = np.array([limit.launch_s for limit in limits])
    values["launch.arithmetic"] = calls[arithmetic].sum(axis=0) * launch
    values["launch.moving"] = calls[~arithmetic].sum(axis=0) * launch
    values["call"] = np.full(len(rows), CALL_S)
    values["optimizer"] = _optimizer(trace, rows) / bandwidth
    return np.column_stack([values[name] for name in TERMS])


def _arithmetic_parts(trace: Trace) -> dict[str, Array]:
    """Return which part of each operator counts as which class: a wide group works as a plain convolution does."""
    parts = {
        name: (trace.class_index == OPERATOR_CLASSES.index(name)).astype(np.float64) for name in ARITHMETIC_CLASSES
    }
    kernel = np.maximum(trace.kernel, 1.0)
    dimensions = np.array(
        [len(row["kernel"]) if isinstance(row.get("kernel"), list | tuple) else 2 for row in trace.operators]
    )
    wide = parts["grouped"] * _place(trace.inner / kernel**dimensions, *GROUP_SPAN)
    parts["grouped"] = parts["grouped"] - wide
    parts["conv"] = parts["conv"] + np.where(kernel > 1, wide, 0.0)
    parts["conv1x1"] = parts["conv1x1"] + np.where(kernel > 1, 0.0, wide)
    return parts


def _split(values: dict[str, Array], name: str, seconds: Matrix, size: Matrix | None) -> None:
    """Add one term, or two where operators of this kind are distinguished by size."""
    if size is None:
        values[name] = seconds.sum(axis=0)
    else:
        values[f"{name}.small"] = (seconds * (1 - size)).sum(axis=0)
        values[f"{name}.large"] = (seconds * size).sum(axis=0)


def _place(values: Matrix, low: float, high: float) -> Matrix:
    """Return where values lie between two bounds on a logarithmic scale, 0 to 1."""
    place = np.log(np.maximum(values, 1e-30) / low) / np.log(high / low)
    return np.asarray(np.clip(place, 0.0, 1.0), dtype=np.float64)


def _optimizer(trace: Trace, rows: Sequence[Row]) -> Array:
    """Bytes that the optimizer's step reads and writes."""
    parameters = float(trace.parameters or trace.totals.get("parameters") or 0.0)
    elements = [
        _OPTIMIZER_ELEMENTS.get((row.optimizer or "adamw").lower(), 7.0) if row.mode == "training" else 0.0
        for row in rows
    ]
    return 4.0 * parameters * np.array(elements)


def work_of_many(traces: Sequence[Trace], limits: Sequence[Limits], rows: Sequence[Row]) -> Matrix:
    """Return the work of configurations of several traces, in their order; each trace is worked on once."""
    work = np.zeros((len(rows), len(TERMS)))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(traces):
        groups.setdefault(id(trace), []).append(index)
    for members in groups.values():
        work[members] = work_of(
            traces[members[0]], [limits[index] for index in members], [rows[index] for index in members]
        )
    return work
