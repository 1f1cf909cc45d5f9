"""What each kind of work costs with one software configuration: seconds at the limits, and the multiples really spent.

time = Σ work × multiple, one multiple a kind of work (`WORK`), found on the logarithm of time so that a small model
counts as much as a large one. A sum extrapolates to a family with another mix of the same kinds, which trees do not:
on families of timm that were held out some hundred multiples were about as close as trees on every feature, and the
mean of both closer than either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from domain.performance.roofline import TRAINING_PASSES, Limits
from predictor.features.dataset import Row
from predictor.features.operator_kinds import NAMED, Mask, kinds_of
from predictor.features.table import Array, Matrix, Table
from predictor.features.traces import Trace

__all__ = ["WORK", "multiples_of", "work_of", "work_table"]

_WIDTHS = {"conv": (8, 32, 64, 128, 256), "conv1x1": (64, 128, 256, 512), "mm": (128, 256, 512, 1024)}
_LENGTHS = ((0, 31), (32, 48), (49, 80), (81, 10**9))
_BACKWARD = ("conv", "conv1x1", "depthwise", "grouped", "attention")
"""Classes whose gradients are operators of their own, beside that they count among their class."""
_KERNELS = ((1, 3), (4, 5), (6, 7), (8, 99))
_GROUPS = ((0, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128), (129, 10**9))
ENTERING_S = 1e-4
"""What entering the runtime is measured in; an order of magnitude."""
PULL = 1e-5
"""How much a squared log unit of a multiple away from 1 costs, beside a row's error: enough to settle what rows do not."""
BEND = 0.1
"""Errors beyond this many log units count linearly: a row on an odd software path must not bend the multiples."""
ROUNDS = 25


def _work_names() -> tuple[str, ...]:
    names: list[str] = []
    for name, cuts in _WIDTHS.items():
        names += [f"{name}.to_{cut}" for cut in cuts]
        names += [f"{name}.beyond", f"{name}.odd", f"{name}.moved", f"{name}.cached"]
    names += ["conv.moved_thin", "conv.large", "conv.strided"]
    for name in ("bmm", "attention"):
        names += [*(f"{name}.from_{low}" for low, _ in _LENGTHS), f"{name}.moved"]
    names += ["bmm.moved_thin", "depthwise.moved", "depthwise.cached", "depthwise.moved_strided"]
    names += [f"depthwise.kernel_{low}" for low, _ in _KERNELS]
    names += ["grouped.moved", *(f"grouped.width_{low}" for low, _ in _GROUPS)]
    names += [f"{name}.{what}" for name in _BACKWARD for what in ("backward", "moved_backward")]
    names += [f"{kind}.{where}" for kind in (*NAMED, "other") for where in ("moved", "cached")]
    return (*names, "weights.arithmetic", "weights.moving", "launch.arithmetic", "launch.moving", "entering")


WORK = _work_names()


def work_of(trace: Trace, limits: Sequence[Limits], rows: Sequence[Row]) -> Matrix:
    """Return the work of one trace under many configurations, (configurations, len(WORK)) in seconds at the limits."""
    kinds = kinds_of(trace)
    batch = np.array([float(row.batch_size or 1) for row in rows])
    again = TRAINING_PASSES if trace.phase != "training" else 1.0
    count = trace.count[:, None] * np.array([again if row.mode == "training" else 1.0 for row in rows])
    bandwidth = np.array([limit.bandwidth_bytes_per_s for limit in limits])
    computed = count * trace.flops[:, None] * (batch / np.array([limit.peak_flops for limit in limits]))
    activations = trace.activations[:, None] * (batch * np.array([limit.activation_bytes for limit in limits]))
    weights = trace.weights[:, None] * np.array([limit.weight_bytes for limit in limits])
    moved = count * activations / bandwidth
    near = activations + weights < np.array([limit.cache_bytes or 0.0 for limit in limits])
    cached, streamed = np.where(near, moved, 0.0), np.where(near, 0.0, moved)
    values: dict[str, Array] = {}

    def put(name: str, seconds: Matrix, chosen: Mask) -> None:
        values[name] = seconds[chosen].sum(axis=0)

    for name, cuts in _WIDTHS.items():
        here = kinds.by_class[name]
        length = trace.inner if name == "mm" else kinds.width
        edges = np.searchsorted(cuts, length)
        for place, label in enumerate((*(f"to_{cut}" for cut in cuts), "beyond")):
            put(f"{name}.{label}", computed, here & ~kinds.odd & (edges == place))
        put(f"{name}.odd", computed, here & kinds.odd)
        put(f"{name}.moved", streamed, here)
        put(f"{name}.cached", cached, here)
    conv = kinds.by_class["conv"]
    put("conv.moved_thin", moved, conv & (kinds.width <= 8))
    put("conv.large", computed, kinds.masks["conv.large"])
    put("conv.strided", computed, kinds.masks["conv.strided"])
    for name in ("bmm", "attention"):
        for low, high in _LENGTHS:
            put(f"{name}.from_{low}", computed, kinds.by_class[name] & (trace.inner >= low) & (trace.inner <= high))
        put(f"{name}.moved", moved, kinds.by_class[name])
    put("bmm.moved_thin", moved, kinds.by_class["bmm"] & (trace.inner < 32))
    depthwise, grouped = kinds.by_class["depthwise"], kinds.by_class["grouped"]
    put("depthwise.moved", streamed, depthwise)
    put("depthwise.cached", cached, depthwise)
    put("depthwise.moved_strided", moved, kinds.masks["depthwise.strided"])
    for low, high in _KERNELS:
        put(f"depthwise.kernel_{low}", computed, depthwise & (trace.kernel >= low) & (trace.kernel <= high))
    put("grouped.moved", moved, grouped)
    for low, high in _GROUPS:
        put(f"grouped.width_{low}", computed, grouped & (kinds.width >= low) & (kinds.width <= high))
    for name in _BACKWARD:
        put(f"{name}.backward", computed, kinds.by_class[name] & kinds.backward)
        put(f"{name}.moved_backward", moved, kinds.by_class[name] & kinds.backward)
    other = ~kinds.arithmetic & ~np.any([kinds.masks[name] for name in NAMED], axis=0)
    for name in (*NAMED, "other"):
        here = other if name == "other" else kinds.masks[name]
        put(f"{name}.moved", streamed, here)
        put(f"{name}.cached", cached, here)
    put("weights.arithmetic", count * weights / bandwidth, kinds.arithmetic)
    put("weights.moving", count * weights / bandwidth, ~kinds.arithmetic)
    launch = count * np.array([limit.launch_s for limit in limits])
    put("launch.arithmetic", launch, kinds.arithmetic)
    put("launch.moving", launch, ~kinds.arithmetic)
    values["entering"] = np.full(len(rows), ENTERING_S)
    return np.array([values[name] for name in WORK]).T


def work_table(table: Table) -> Matrix:
    """Return the work of each row of a traced table, (rows, len(WORK)) in seconds; each trace is worked on once."""
    work = np.zeros((len(table), len(WORK)))
    groups: dict[int, list[int]] = {}
    for index, trace in enumerate(table.subjects):
        groups.setdefault(id(trace), []).append(index)
    for members in groups.values():
        limits = [limit for index in members if (limit := table.limits[index]) is not None]
        work[members] = work_of(table.subjects[members[0]], limits, [table.rows[index] for index in members])
    return work


def multiples_of(work: Matrix, seconds: Array) -> Array:
    """Return the multiple of each kind of work that these measured times tell; above 0, 1 where nothing tells.

    Levenberg and Marquardt's steps on log multiples; the same rows give the same multiples.
    """
    log_multiples = np.zeros(work.shape[1])
    pull = PULL * len(work)
    damping = 1.0
    cost, errors = _cost(work, seconds, log_multiples, pull)
    for _ in range(ROUNDS):
        times = work * np.exp(log_multiples)
        shares = times / times.sum(axis=1)[:, None]
        heavy = 1.0 / np.maximum(np.abs(errors), BEND)
        curvature = (shares * heavy[:, None]).T @ shares + 2 * pull * np.eye(work.shape[1])
        towards = shares.T @ (heavy * errors) - 2 * pull * log_multiples
        while damping < 1e8:
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), towards)
            lower, left = _cost(work, seconds, log_multiples + step, pull)
            if lower < cost:
                break
            damping *= 5
        else:
            break
        settled = cost - lower < 1e-4 * cost
        log_multiples, cost, errors = log_multiples + step, lower, left
        damping = max(damping / 5, 1e-6)
        if settled:
            break
    return np.asarray(np.exp(log_multiples), dtype=np.float64)


def _cost(work: Matrix, seconds: Array, log_multiples: Array, pull: float) -> tuple[float, Array]:
    errors = np.log(seconds) - np.log(work @ np.exp(np.clip(log_multiples, -30, 30)))
    far = np.abs(errors)
    bent = np.where(far < BEND, 0.5 * errors**2 / BEND, far - BEND / 2)
    return float(bent.sum() + pull * (log_multiples**2).sum()), errors
