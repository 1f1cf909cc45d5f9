"""What is known of a row from others like it: a Gaussian process over the residuals of physics.

Two rows are alike by what they share (the model, the engine, the device, the whole deployment) and by how near their
load and the parts of their time are. How much each likeness counts is found on the rows themselves, by marginal
likelihood. A few rows of something new extend the process exactly; nothing is fitted anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix, Table
from predictor.learning.single_thread import single_threaded

__all__ = ["MOST_ROWS", "Neighbours", "Points", "Scales", "labels_of", "points_of", "tuned"]

MOST_ROWS = 2000
"""Rows that the process rests on; the work grows with their third power."""
TUNING_ROWS = 400
TUNING_ROUNDS = 3
_LEAST = {
    "engine": 0.01,
    "model": 0.01,
    "device": 0.01,
    "model-engine": 0.01,
    "device-engine": 0.01,
    "offset": 0.04,
    "offset-engine": 0.01,
}
"""Variance that devices and models never met may add at the least, however alike the known ones are."""

_WIDE = {
    "log_requests_per_device": 1.5,
    "log_input": 1.5,
    "log_output": 1.5,
    "log_prompt": 1.5,
    "log_step": 1.5,
    "log_waiting": 1.5,
    "log_fill": 1.0,
    "step_balance": 2.0,
    "log_disturbance": 1.5,
    "load": 0.3,
    "log_active": 1.5,
    "log_parameters": 1.5,
    "log_devices": 1.0,
    "data": 6.0,
    "expert": 6.0,
    "share_step_exchange": 0.3,
    "share_step_attention": 0.3,
    "share_step_experts": 0.3,
    "share_step_launches": 0.3,
    "dense_bytes": 0.7,
    "expert_bytes": 0.7,
    "apart": 0.5,
}
"""Features that nearness is measured in, each with what counts as one step apart."""
_LOAD = ("log_requests", "log_input", "log_output")
_TERMS: dict[str, tuple[str, ...]] = {
    "all": (),
    "engine": ("engine",),
    "model": ("model",),
    "device": ("device",),
    "model-engine": ("model", "engine"),
    "device-engine": ("device", "engine"),
    "model-engine-device": ("model", "engine", "device"),
    "model-engine-version": ("model", "engine", "version"),
    "deployment": ("deployment",),
    "offset": ("device",),
    "offset-engine": ("engine",),
}
"""Each adds to the likeness of rows that share its labels."""


class Scales(msgspec.Struct, frozen=True, kw_only=True):
    """Variance by term, noise, and the squared lengths over which likeness falls."""

    variance: dict[str, float]
    noise: float
    wide: float
    load: float


class Points(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Rows as the process sees them."""

    wide: Matrix
    load: Matrix
    labels: dict[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.wide)

    def take(self, chosen: NDArray[np.intp]) -> Points:
        """Return the chosen rows."""
        labels = {name: column[chosen] for name, column in self.labels.items()}
        return Points(wide=self.wide[chosen], load=self.load[chosen], labels=labels)

    def joined(self, other: Points) -> Points:
        """Return these rows and then the others."""
        return Points(
            wide=np.concatenate([self.wide, other.wide]),
            load=np.concatenate([self.load, other.load]),
            labels={name: np.concatenate([self.labels[name], other.labels[name]]) for name in self.labels},
        )


def labels_of(table: Table) -> dict[str, NDArray[Any]]:
    """Return what rows may share, one name a row; the month stands for a version that nobody stated."""
    engine = [f"{row.runtime}{'/apart' if 'decode' in row.options else ''}" for row in table.rows]
    deployment = [repr((model, _deployment(row))) for model, row in zip(table.architecture, table.rows, strict=True)]
    return {
        "model": table.architecture,
        "engine": np.array(engine, dtype=str),
        "device": np.array([row.hardware for row in table.rows], dtype=str),
        "version": np.array([row.runtime_version or (row.time or "")[:7] for row in table.rows], dtype=str),
        "deployment": np.array(deployment, dtype=str),
    }


def _deployment(row: Row) -> tuple[Any, ...]:
    """The devices and how the model is spread over them, whatever the load."""
    options = {
        name: {key: size for key, size in value.items() if key != "batch_size"} if isinstance(value, dict) else value
        for name, value in sorted(row.options.items())
    }
    return (row.runtime, row.hardware, row.count, row.precision, sorted(row.parallelism.items()), options)


def points_of(table: Table) -> Points:
    """Return the rows of a table as the process sees them."""
    wide = [np.nan_to_num(table.column(name)) / step for name, step in _WIDE.items()]
    load = [np.nan_to_num(table.column(name)) for name in _LOAD]
    labels = {name: _numbers(column) for name, column in labels_of(table).items()}
    return Points(wide=np.column_stack(wide), load=np.column_stack(load), labels=labels)


def _numbers(names: NDArray[Any]) -> NDArray[np.int64]:
    """The same number for the same name anywhere: numbers are compared a hundred times faster."""
    distinct, inverse = np.unique(names, return_inverse=True)
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in distinct.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.int64)[inverse]


class _Likeness:
    """What rows on the left share with rows on the right, ready for any scales."""

    def __init__(self, left: Points, right: Points) -> None:
        self.wide = _squared(left.wide, right.wide)
        self.load = _squared(left.load, right.load)
        self.same = {name: column[:, None] == right.labels[name][None, :] for name, column in left.labels.items()}

    def kernel(self, scales: Scales) -> Matrix:
        """Return the covariance under these scales."""
        wide = 1.0 / (1.0 + self.wide / (2 * scales.wide))
        load = np.exp(-self.load / (2 * scales.load))
        total, ones_like = np.zeros_like(wide), np.ones_like(wide)
        for name, labels in _TERMS.items():
            part = scales.variance[name] * {"deployment": load, "offset": ones_like, "offset-engine": ones_like}.get(
                name, wide
            )
            for label in labels:
                part = part * self.same[label]
            total += part
        return total


def _squared(left: Matrix, right: Matrix) -> Matrix:
    lengths = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)[None, :]
    return np.asarray(np.maximum(lengths - 2 * left @ right.T, 0.0), dtype=np.float64)


def _likelihood(likeness: _Likeness, values: Array, scales: Scales) -> float:
    kernel = likeness.kernel(scales)
    kernel[np.diag_indices(len(values))] += scales.noise
    lower = np.linalg.cholesky(kernel)
    half = np.linalg.solve(lower, values)
    return float(-0.5 * half @ half - np.log(np.diag(lower)).sum())


def tuned(points: Points, residual: Array) -> Scales:
    """Return the scales under which the residuals are likeliest, one at a time from a start that fits none."""
    chosen = np.unique(np.linspace(0, len(residual) - 1, min(len(residual), TUNING_ROWS)).astype(np.intp))
    part = points.take(chosen)
    centred = residual[chosen] - np.median(residual[chosen])
    spread = max(float(np.median(np.abs(centred))) * 1.5, 0.05)
    values = np.clip(centred, -4 * spread, 4 * spread)
    scales = Scales(variance=dict.fromkeys(_TERMS, spread**2 / 6), noise=spread**2 / 30, wide=4.0, load=10.0)
    likeness = _Likeness(part, part)
    best = _likelihood(likeness, values, scales)
    steps = dict.fromkeys((*_TERMS, "noise", "wide", "load"), 3.0)
    for _ in range(TUNING_ROUNDS):
        for name, step in steps.items():
            for factor in (step, 1 / step):
                tried = _changed(scales, name, factor)
                likely = _likelihood(likeness, values, tried)
                if likely > best:
                    best, scales = likely, tried
                    break
            else:
                steps[name] = step**0.6
    variance = {name: max(value, _LEAST.get(name, 0.0)) for name, value in scales.variance.items()}
    return msgspec.structs.replace(scales, variance=variance)


def _changed(scales: Scales, name: str, factor: float) -> Scales:
    if name in scales.variance:
        variance = scales.variance | {name: scales.variance[name] * factor}
        return msgspec.structs.replace(scales, variance=variance)
    return msgspec.structs.replace(scales, **{name: getattr(scales, name) * factor})


class Neighbours(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A fitted process: `inverse` is that of the covariance of its rows, `residual` what they measured."""

    scales: Scales
    points: Points
    mean: float
    residual: Array
    inverse: Matrix

    @classmethod
    def fit(cls, points: Points, residual: Array, existing: Scales | None = None) -> Neighbours:
        """Return the process of these rows; rows far from what all others say count less.

        Where the scales are `known` from other rows, nothing is tuned, and residuals are taken to lie about zero.
        """
        with single_threaded():
            scales = existing or tuned(points, residual)
            kernel = _Likeness(points, points).kernel(scales)
            noise = np.full(len(residual), scales.noise)
            mean = float(np.median(residual)) if existing is None else 0.0
            inverse = _inverse(kernel, noise)
            weights = inverse @ (residual - mean)
            variance = 1 / np.diag(inverse)
            strange = np.abs(weights * variance) / np.sqrt(variance)
            noise = scales.noise * np.maximum(1.0, strange / 1.3) ** 3
            return cls(scales=scales, points=points, mean=mean, residual=residual, inverse=_inverse(kernel, noise))

    def predict(self, points: Points) -> tuple[Array, Array]:
        """Return mean and variance of the residual, one a row."""
        kernel = _Likeness(points, self.points).kernel(self.scales)
        mean = self.mean + kernel @ (self.inverse @ (self.residual - self.mean))
        own = self.scales.noise + sum(self.scales.variance.values())
        variance = own - ((kernel @ self.inverse) * kernel).sum(axis=1)
        return np.asarray(mean), np.asarray(np.maximum(variance, self.scales.noise / 10))

    def without(self, groups: Sequence[NDArray[np.intp]]) -> tuple[Array, Array]:
        """Return mean and variance of each row as if its group had not been seen; rows in no group as if they had."""
        mean, variance = self.residual.copy(), np.full(len(self.residual), self.scales.noise)
        for group in groups:
            mean[group], block = self.left_out(group)
            variance[group] = np.diag(block)
        return mean, variance

    def left_out(self, group: NDArray[np.intp]) -> tuple[Array, Matrix]:
        """Return mean and covariance of some of its rows as if none of them had been seen."""
        block = np.linalg.inv(self.inverse[np.ix_(group, group)])
        weights = self.inverse[group] @ (self.residual - self.mean)
        return self.residual[group] - block @ weights, np.asarray(block)

    def joint(self, points: Points) -> tuple[Array, Matrix]:
        """Return mean and covariance of the residuals of rows that were not seen: what one measures tells of the others."""
        kernel = _Likeness(points, self.points).kernel(self.scales)
        own = _Likeness(points, points).kernel(self.scales)
        own[np.diag_indices(len(own))] += self.scales.noise
        mean = self.mean + kernel @ (self.inverse @ (self.residual - self.mean))
        return mean, np.asarray(own - kernel @ self.inverse @ kernel.T)

    def extended(self, points: Points, residual: Array) -> Neighbours:
        """Return the process with more rows, by the inverse of a bordered matrix."""
        border = _Likeness(self.points, points).kernel(self.scales)
        corner = _Likeness(points, points).kernel(self.scales)
        corner[np.diag_indices(len(residual))] += self.scales.noise
        existing = self.inverse @ border
        own = np.linalg.inv(corner - border.T @ existing)
        inverse = np.block([[self.inverse + existing @ own @ existing.T, -existing @ own], [-own @ existing.T, own]])
        return msgspec.structs.replace(
            self,
            points=self.points.joined(points),
            residual=np.concatenate([self.residual, residual]),
            inverse=inverse,
        )


def _inverse(kernel: Matrix, noise: Array) -> Matrix:
    full = kernel.copy()
    full[np.diag_indices(len(noise))] += noise
    return np.asarray(np.linalg.inv(full), dtype=np.float64)
