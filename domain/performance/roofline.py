"""The roofline: how fast physics allows a model to run, operator by operator.

Each operator takes the longer of its arithmetic at peak and its traffic at full bandwidth, and each call costs a
launch. No efficiency is assumed: the sum is a floor, and what real software adds to it is learned elsewhere.
Operator rows are those of `assay.model.traced.v1`: figures of one call at batch 1, `count` identical calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from domain.vocabulary import PRECISION_BITS

__all__ = [
    "ARITHMETIC_CLASSES",
    "LAUNCH_S",
    "OPERATOR_CLASSES",
    "TRAINING_PASSES",
    "Limits",
    "MemoryEstimate",
    "Roofline",
    "activation_bytes_per_element",
    "limits_of",
    "memory_estimate",
    "roofline",
    "roofline_share",
    "weight_bytes_per_element",
]

OPERATOR_CLASSES = (
    "conv",
    "conv1x1",
    "depthwise",
    "grouped",
    "mm",
    "bmm",
    "attention",
    "softmax",
    "norm",
    "elementwise",
    "reduce",
    "copy",
    "embedding",
    "other",
)
ARITHMETIC_CLASSES = OPERATOR_CLASSES[:7]
"""Classes whose floating-point operations are counted; the others only move memory."""

LAUNCH_S = {"cpu": 2e-6, "openvino": 1e-6, "cuda": 4e-6, "rocm": 5e-6, "mps": 1e-5, "xpu": 5e-6, "hpu": 5e-6}
"""Seconds that one operator call costs apart from its work, by platform; orders of magnitude, not measurements."""
DEFAULT_LAUNCH_S = 1e-5

TRAINING_PASSES = 3.0
"""A training step counts as three forward passes (forward, gradients of inputs, gradients of weights)."""


class _Spec(Protocol):
    """What is read of a `domain.catalogues.hardware.HardwareSpec`."""

    @property
    def memory_bandwidth_bytes_per_s(self) -> Any: ...

    @property
    def cache_bytes(self) -> Any: ...

    @property
    def memory_bytes(self) -> Any: ...

    @property
    def cores(self) -> Any: ...

    @property
    def clock_hz(self) -> Any: ...

    @property
    def power_w(self) -> Any: ...

    @property
    def year(self) -> int | None: ...

    @property
    def maker(self) -> str | None: ...

    @property
    def sustained_flops(self) -> Mapping[str, Any]: ...

    @property
    def sustained_bandwidth_bytes_per_s(self) -> Any: ...

    def peak(self, precision: str, platform: str) -> Any: ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a device can do at one precision on one platform; FLOP/s, bytes/s, bytes, seconds, hertz, watts.

    `units` are the cores that work is spread over, `power_w` is what the device is rated for.
    """

    peak_flops: float
    bandwidth_bytes_per_s: float
    launch_s: float
    activation_bytes: float
    weight_bytes: float
    cache_bytes: float | None = None
    memory_bytes: float | None = None
    units: float | None = None
    clock_hz: float | None = None
    power_w: float | None = None
    year: int | None = None
    maker: str | None = None


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """A floor for the time of one call, in ms: the total, its parts, and what bounds it.

    `compute_bound_ms` is the arithmetic of the operators that take longer over it than over their traffic; with the
    launches it leaves the time of the others, which traffic decides.
    """

    latency_ms: float
    compute_ms: float
    compute_bound_ms: float
    memory_ms: float
    launch_ms: float
    by_class_ms: dict[str, float]
    bound: str


class MemoryEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that one call needs at least: weights (and their gradients and moments), and live activations."""

    weights_bytes: float
    activations_bytes: float

    @property
    def total_bytes(self) -> float:
        """Weights and activations together, without the runtime's own."""
        return self.weights_bytes + self.activations_bytes


def activation_bytes_per_element(precision: str) -> float:
    """Return the bytes of a stored activation; an unknown precision counts as 4."""
    return PRECISION_BITS.get("amp-fp16" if precision == "amp" else precision, 32) / 8


def weight_bytes_per_element(precision: str) -> float:
    """Return the bytes of a stored weight: under mixed precision the weights stay in fp32."""
    return 4.0 if precision.startswith("amp") else activation_bytes_per_element(precision)


def _number(figure: Any) -> float | None:
    return None if figure is None else float(figure.value)


def limits_of(spec: _Spec, precision: str, platform: str) -> Limits | None:
    """Return the limits of a device, or None where its peak or its bandwidth is not known.

    Data sheet figures come first, because predictors are trained on them; what a probe reached stands in for a missing one.
    """
    peak = _number(spec.peak(precision, platform) or spec.sustained_flops.get(precision))
    bandwidth = _number(spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s)
    if peak is None or bandwidth is None:
        return None
    return Limits(
        peak_flops=peak,
        bandwidth_bytes_per_s=bandwidth,
        launch_s=LAUNCH_S.get(platform, DEFAULT_LAUNCH_S),
        activation_bytes=activation_bytes_per_element(precision),
        weight_bytes=activation_bytes_per_element(precision),
        cache_bytes=_number(spec.cache_bytes),
        memory_bytes=_number(spec.memory_bytes),
        units=_number(spec.cores),
        clock_hz=_number(spec.clock_hz),
        power_w=_number(spec.power_w),
        year=spec.year,
        maker=spec.maker,
    )


def roofline(
    operators: Iterable[Mapping[str, Any]], limits: Limits, *, batch_size: int, mode: str = "inference"
) -> Roofline:
    """Return the floor for one call of `batch_size` items; floating-point work and activations grow with the batch."""
    passes = TRAINING_PASSES if mode == "training" else 1.0
    compute = memory = launch = total = compute_bound = 0.0
    by_class: dict[str, float] = {}
    for row in operators:
        count = row["count"] * passes
        arithmetic = row["flops"] * batch_size / limits.peak_flops
        elements = (row["read_elements"] + row["write_elements"]) * batch_size
        traffic = (
            elements * limits.activation_bytes + row["weight_elements"] * limits.weight_bytes
        ) / limits.bandwidth_bytes_per_s
        took = count * (max(arithmetic, traffic) + limits.launch_s)
        compute += count * arithmetic
        memory += count * traffic
        launch += count * limits.launch_s
        compute_bound += count * arithmetic if arithmetic > traffic else 0.0
        by_class[row["class"]] = by_class.get(row["class"], 0.0) + took * 1e3
        total += took
    shares = {"compute": compute_bound, "memory": total - launch - compute_bound, "launch": launch}
    return Roofline(
        latency_ms=total * 1e3,
        compute_ms=compute * 1e3,
        compute_bound_ms=compute_bound * 1e3,
        memory_ms=memory * 1e3,
        launch_ms=launch * 1e3,
        by_class_ms=by_class,
        bound=max(shares, key=lambda name: shares[name]),
    )


def roofline_share(
    operators: Iterable[Mapping[str, Any]],
    limits: Limits | None,
    *,
    batch_size: int,
    mode: str = "inference",
    measured_ms: float,
) -> float | None:
    """Return the share of the measured time of one call that its arithmetic and its traffic need at the least.

    The cost of launches is left out, because it is an order of magnitude and not a figure of the device. None where
    the device's limits are not known or no operator was traced. Above 1 the limits are too low or the trace has work
    that did not happen; the value stays as it is, so that it can be seen.
    """
    rows = list(operators)
    if limits is None or not rows:
        return None
    floor = roofline(rows, msgspec.structs.replace(limits, launch_s=0.0), batch_size=batch_size, mode=mode)
    return floor.latency_ms / measured_ms


def memory_estimate(
    totals: Mapping[str, Any], *, precision: str, batch_size: int, mode: str = "inference"
) -> MemoryEstimate | None:
    """Return the bytes that a call needs at least, or None where the trace lacks parameters or peak activations.

    A training step keeps gradients and two moments beside each weight, all in fp32, and every written activation.
    """
    parameters, peak = totals.get("parameters"), totals.get("peak_activation_elements")
    if parameters is None or peak is None:
        return None
    per_activation = activation_bytes_per_element(precision)
    if mode == "training":
        kept = max(float(totals.get("write_elements") or 0.0), float(peak))
        return MemoryEstimate(weights_bytes=16.0 * parameters, activations_bytes=kept * batch_size * per_activation)
    return MemoryEstimate(
        weights_bytes=parameters * weight_bytes_per_element(precision),
        activations_bytes=peak * batch_size * per_activation,
    )
