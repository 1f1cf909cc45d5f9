"""From a trace and a configuration to numbers: the roofline prior and the features of its residual.

A feature is about the model (its operators' shapes), about how its work lies against the device's limits, or about
the software. No figure of the device itself is one, so that a device which training never saw is not an extrapolation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import ARITHMETIC_CLASSES, OPERATOR_CLASSES, TRAINING_PASSES, Limits
from predictor.features.traces import Array, Trace

__all__ = ["FEATURES", "FEATURES_VERSION", "TRACE_FEATURES", "Features", "Software", "features_of", "version_number"]

FEATURES_VERSION = 1
_SHAPED = ("conv", "conv1x1", "depthwise", "grouped", "mm", "bmm", "attention")
_SMALL_S = (5e-6, 2e-5)

TOTAL_FEATURES = (
    "log_prior",
    "log_compute",
    "log_memory",
    "balance",
    "log_operators",
    "launch_share",
    "log_floored",
    "compute_bound_share",
    "cache_share",
    "under_5us_share",
    "under_20us_share",
    "largest_share",
    "log_distinct",
    "log_peak_activation",
    "log_activations_per_weight",
    "log_flops_per_activation",
)
CLASS_FEATURES = (
    *(f"time_share.{name}" for name in OPERATOR_CLASSES),
    *(f"flops_share.{name}" for name in ARITHMETIC_CLASSES),
    *(f"count_share.{name}" for name in OPERATOR_CLASSES),
)
SHAPE_FEATURES = (
    *(f"{what}.{name}" for name in _SHAPED for what in ("inner", "positions", "intensity")),
    "kernel.depthwise",
    "kernel.conv",
    "stride.depthwise",
    "stride.conv",
    "groups.grouped",
    "width.grouped",
)
SOFTWARE_FEATURES = (
    "log_batch",
    "log_image",
    "log_sequence",
    "compiled",
    "channels_last",
    "runtime_version",
    "bytes",
    "cpu",
    "training",
)
TRACE_FEATURES = (*TOTAL_FEATURES, *CLASS_FEATURES, *SHAPE_FEATURES)
FEATURES = (*TRACE_FEATURES, *SOFTWARE_FEATURES)


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """What of a configuration is not the model and not the device's limits."""

    batch_size: int
    compiled: bool = False
    channels_last: bool = False
    runtime_version: float = 0.0
    cpu: bool = False
    training: bool = False


class Features(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`values` is (configurations, len(FEATURES)); `prior_s` the roofline in seconds, one a configuration."""

    values: NDArray[np.float64]
    prior_s: Array


@lru_cache(maxsize=1024)
def version_number(version: str | None) -> float:
    """Return `2.13.0` as 2.13 on a scale where 2.9 < 2.13 (major + minor/100), 0 where unknown."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return int(match[1]) + int(match[2]) / 100 if match else 0.0


def _log(values: Array) -> Array:
    return np.log(np.maximum(values, 1e-12))


def _weighted(values: Array, weights: Array) -> Array:
    """Mean over operators (first axis) with weights that differ by configuration; NaN where nothing weighs."""
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (values[:, None] * weights).sum(axis=0) / total, np.nan)


def features_of(trace: Trace, limits: Sequence[Limits], software: Sequence[Software]) -> Features:
    """Return prior and features of one trace under many configurations; both sequences have the same length."""
    batch = np.array([s.batch_size for s in software], dtype=np.float64)
    passes = np.array([TRAINING_PASSES if s.training and trace.phase != "training" else 1.0 for s in software])
    peak = np.array([item.peak_flops for item in limits])
    bandwidth = np.array([item.bandwidth_bytes_per_s for item in limits])
    launch = np.array([item.launch_s for item in limits])
    act_bytes = np.array([item.activation_bytes for item in limits])
    weight_bytes = np.array([item.weight_bytes for item in limits])
    cache = np.array([item.cache_bytes or np.nan for item in limits])

    count = trace.count[:, None] * passes
    compute = trace.flops[:, None] * (batch / peak)
    moved = trace.activations[:, None] * (batch * act_bytes) + trace.weights[:, None] * weight_bytes
    memory = moved / bandwidth
    device = np.maximum(compute, memory)
    time = count * (device + launch)
    prior = time.sum(axis=0)
    columns: dict[str, Array] = {}
    calls = count.sum(axis=0)
    total_compute, total_memory = (count * compute).sum(axis=0), (count * memory).sum(axis=0)
    columns["log_prior"] = _log(prior)
    columns["log_compute"] = _log(total_compute)
    columns["log_memory"] = _log(total_memory)
    columns["balance"] = columns["log_compute"] - columns["log_memory"]
    columns["log_operators"] = _log(calls)
    columns["launch_share"] = calls * launch / prior
    columns["log_floored"] = _log((count * np.maximum(device, 5e-6)).sum(axis=0)) - columns["log_prior"]
    columns["compute_bound_share"] = np.where(compute > memory, time, 0.0).sum(axis=0) / prior
    with np.errstate(invalid="ignore"):
        fits = np.where(moved < cache, time, 0.0).sum(axis=0) / prior
    columns["cache_share"] = np.where(np.isnan(cache), np.nan, fits)
    for name, limit in zip(("under_5us_share", "under_20us_share"), _SMALL_S, strict=True):
        columns[name] = np.where(device < limit, count, 0.0).sum(axis=0) / calls
    columns["largest_share"] = (time / trace.count[:, None]).max(axis=0) / prior
    constant = np.ones_like(batch)
    columns["log_distinct"] = constant * np.log(len(trace.count))
    peak_activation = float(trace.totals.get("peak_activation_elements") or trace.activations.max(initial=1.0))
    columns["log_peak_activation"] = _log(peak_activation * batch * act_bytes)
    activations = float((trace.activations * trace.count).sum())
    weights = float((trace.weights * trace.count).sum())
    columns["log_activations_per_weight"] = constant * np.log((activations + 1) / (weights + 1))
    columns["log_flops_per_activation"] = constant * np.log(
        (float((trace.flops * trace.count).sum()) + 1) / (activations + 1)
    )
    columns |= _class_features(trace, count, time, prior, calls)
    columns |= _shape_features(trace, count * memory)
    columns |= {
        "log_batch": np.log2(batch),
        "log_image": constant * (np.log2(trace.image_size) if trace.image_size else np.nan),
        "log_sequence": constant * (np.log2(trace.sequence_length) if trace.sequence_length else np.nan),
        "compiled": np.array([float(s.compiled) for s in software]),
        "channels_last": np.array([float(s.channels_last) for s in software]),
        "runtime_version": np.array([s.runtime_version for s in software]),
        "bytes": act_bytes,
        "cpu": np.array([float(s.cpu) for s in software]),
        "training": np.array([float(s.training) for s in software]),
    }
    return Features(values=np.column_stack([columns[name] for name in FEATURES]), prior_s=prior)


def _class_features(trace: Trace, count: Array, time: Array, prior: Array, calls: Array) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    all_flops = float((trace.flops * trace.count).sum()) or 1.0
    constant = np.ones_like(prior)
    for index, name in enumerate(OPERATOR_CLASSES):
        chosen = trace.class_index == index
        columns[f"time_share.{name}"] = time[chosen].sum(axis=0) / prior
        columns[f"count_share.{name}"] = count[chosen].sum(axis=0) / calls
        if name in ARITHMETIC_CLASSES:
            share = float((trace.flops[chosen] * trace.count[chosen]).sum()) / all_flops
            columns[f"flops_share.{name}"] = constant * share
    return columns


def _shape_features(trace: Trace, weight: Array) -> dict[str, Array]:
    """Shapes of the arithmetic operators, as means of logarithms weighted by memory time."""
    columns: dict[str, Array] = {}
    elements = np.maximum(trace.activations, 1.0)
    inner = np.where(trace.inner > 0, trace.inner, trace.flops / elements)
    positions = np.where(trace.weights > 0, trace.flops / (2 * np.maximum(trace.weights, 1.0)), trace.written)
    logs = _log(inner), _log(positions), _log(trace.flops / elements)
    for name in _SHAPED:
        chosen, here = _of_class(trace, name, weight)
        for what, values in zip(("inner", "positions", "intensity"), logs, strict=True):
            columns[f"{what}.{name}"] = _weighted(values[chosen], here)
    for name in ("depthwise", "conv"):
        chosen, here = _of_class(trace, name, weight)
        columns[f"kernel.{name}"] = _weighted(trace.kernel[chosen], here)
        columns[f"stride.{name}"] = _weighted(trace.stride[chosen], here)
    chosen, grouped = _of_class(trace, "grouped", weight)
    columns["groups.grouped"] = _weighted(_log(np.maximum(trace.groups, 1.0))[chosen], grouped)
    per_group = inner / np.maximum(trace.kernel, 1.0) ** 2
    columns["width.grouped"] = _weighted(_log(per_group)[chosen], grouped)
    return columns


def _of_class(trace: Trace, name: str, weight: Array) -> tuple[NDArray[np.bool_] | slice, Array]:
    """Return which operators to look at for a class, and their weights: zero, or left out, where of another."""
    chosen = trace.class_index == OPERATOR_CLASSES.index(name)
    if weight.shape[1] > 1:
        return chosen, weight[chosen]
    # One column alone is summed in pairs, whose bits depend on how many there are: there all stay.
    return slice(None), np.where(chosen[:, None], weight, 0.0)
