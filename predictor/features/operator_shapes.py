"""Features of finer kinds of operators: which share of the time each takes, how large their calls are, how they lie.

They stand beside `predictor.features.features` and are of the same sort: about the model, about its work against the
device's limits, never a figure of the device itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from domain.performance.roofline import TRAINING_PASSES, Limits
from predictor.features.dataset import Row
from predictor.features.operator_kinds import KINDS, Kinds, Mask, kinds_of
from predictor.features.table import Array, Matrix, Table
from predictor.features.traces import Trace

__all__ = ["SHAPES", "shape_table", "shapes_of"]

_SIZED = (
    "conv",
    "conv1x1",
    "depthwise",
    "grouped",
    "mm",
    "bmm",
    "attention",
    "norm",
    "elementwise",
    "copy",
    "reduce",
    "softmax",
)
_BALANCED = ("conv", "conv1x1", "mm", "grouped")
_FUSED = ("elementwise", "norm", "copy", "softmax", "reduce")
_DENSE = ("conv", "conv1x1", "grouped", "mm")
SHAPES = (
    *(f"kind_share.{kind}" for kind in KINDS),
    *(f"log_size.{name}" for name in _SIZED),
    *(f"class_balance.{name}" for name in _BALANCED),
    "log_compute_share",
    "log_size_mean",
    "log_size_spread",
    "log_inner_mean",
    "log_inner_spread",
    "log_positions",
    "log_outer",
    "log_written",
    "log_unfused",
    "fused_calls",
    "log_weights",
    "log_item",
)


def shapes_of(trace: Trace, limits: Sequence[Limits], rows: Sequence[Row]) -> Matrix:
    """Return the features of one trace under many configurations, (configurations, len(SHAPES)); NaN where none are."""
    kinds = kinds_of(trace)
    batch = np.array([float(row.batch_size or 1) for row in rows])
    again = TRAINING_PASSES if trace.phase != "training" else 1.0
    count = trace.count[:, None] * np.array([again if row.mode == "training" else 1.0 for row in rows])
    bandwidth = np.array([limit.bandwidth_bytes_per_s for limit in limits])
    compute = trace.flops[:, None] * (batch / np.array([limit.peak_flops for limit in limits]))
    activations = trace.activations[:, None] * (batch * np.array([limit.activation_bytes for limit in limits]))
    memory = (activations + trace.weights[:, None] * np.array([limit.weight_bytes for limit in limits])) / bandwidth
    device = np.maximum(compute, memory)
    time = count * (device + np.array([limit.launch_s for limit in limits]))
    prior = time.sum(axis=0)
    result = {f"kind_share.{kind}": time[kinds.masks[kind]].sum(axis=0) / prior for kind in KINDS}
    size = np.log(np.maximum(device, 1e-9))
    for name in _SIZED:
        here = kinds.by_class[name]
        result[f"log_size.{name}"] = _mean(size[here], time[here])
    for name in _BALANCED:
        here = kinds.by_class[name]
        result[f"class_balance.{name}"] = _log_ratio((count * compute)[here], (count * memory)[here])
    mean = _mean(size, time)
    result["log_size_mean"] = mean
    result["log_size_spread"] = np.sqrt(np.maximum(_mean(size**2, time) - mean**2, 0.0))
    result["log_compute_share"] = np.log(np.maximum((count * compute).sum(axis=0), 1e-12) / prior)
    result |= _lengths(trace, kinds, count * compute, batch)
    fused = np.any([kinds.by_class[name] for name in _FUSED], axis=0)
    result["log_unfused"] = np.log(np.maximum(time[~fused].sum(axis=0), 1e-12) / prior)
    result["fused_calls"] = count[fused].sum(axis=0) / count.sum(axis=0)
    result["log_weights"] = np.full(len(rows), np.log(float((trace.weights * trace.count).sum()) + 1))
    result["log_item"] = np.log(prior / batch)
    return np.array([result[name] for name in SHAPES]).T


def _lengths(trace: Trace, kinds: Kinds, weight: Matrix, batch: Array) -> dict[str, Array]:
    """Lengths of the dense operators, as means of logarithms weighted by their arithmetic."""
    here: Mask = np.any([kinds.by_class[name] for name in _DENSE], axis=0) & (trace.inner > 0)
    weight = weight[here]

    def mean(lengths: Array) -> Array:
        return _mean(np.log(np.maximum(lengths[here], 1.0)), weight)

    inner = mean(trace.inner)
    squared = _mean(np.log(np.maximum(trace.inner[here], 1.0)) ** 2, weight)
    return {
        "log_inner_mean": inner,
        "log_inner_spread": np.sqrt(np.maximum(squared - inner**2, 0.0)),
        "log_positions": mean(trace.flops / (2 * np.maximum(trace.weights, 1.0))) + np.log(batch),
        "log_outer": mean(kinds.outer),
        "log_written": mean(trace.written) + np.log(batch),
    }


def _mean(values: Array | Matrix, weights: Matrix) -> Array:
    """Mean over operators (first axis); NaN where nothing weighs."""
    total = weights.sum(axis=0)
    values = values[:, None] if values.ndim == 1 else values
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(total > 0, (values * weights).sum(axis=0) / total, np.nan), dtype=np.float64)


def _log_ratio(some: Matrix, others: Matrix) -> Array:
    above, below = some.sum(axis=0), others.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where((above > 0) & (below > 0), np.log(above / below), np.nan), dtype=np.float64)


def shape_table(table: Table) -> Matrix:
    """Return the features of each row of a traced table, (rows, len(SHAPES)); each trace is worked on once."""
    values = np.zeros((len(table), len(SHAPES)))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(table.subjects):
        groups.setdefault(id(trace), []).append(index)
    for members in groups.values():
        limits = [limit for index in members if (limit := table.limits[index]) is not None]
        values[members] = shapes_of(table.subjects[members[0]], limits, [table.rows[index] for index in members])
    return values
