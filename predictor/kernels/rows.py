"""Measured kernels, from the data of `assay.kernel.measured.v1` events, as columns that a class is fitted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from domain.kernels import LATENCY, expanded
from numpy.typing import NDArray

from domain.catalogues.hardware import HardwareSpec
from domain.payloads import KernelMeasured
from domain.performance.roofline import Limits, activation_bytes_per_element, limits_of
from predictor.features.table import Array
from predictor.kernels.columns import ATTENTION, MOVING, MOVING_KINDS, PRODUCT, Columns, device_columns

__all__ = ["KernelRows", "class_of", "kernel_rows"]

SpecOf = Callable[[str], HardwareSpec | None]
EACH = 3000
"""Kernels of an operator on a device with a software that teach at the most, chosen at random but always alike."""
UNTAUGHT = ("two-speeds",)
"""Marks of suspect kernels that teach nothing; other suspect ones lie within what caches explain."""
_CLASSES = {
    **dict.fromkeys(("gemm", "bmm", "convolution"), PRODUCT),
    "attention": ATTENTION,
    **dict.fromkeys(("softmax", "norm", "elementwise"), MOVING),
}
_COSTLY = ("gelu", "tanh", "erf", "exp", "sigmoid", "silu", "selu", "softplus", "pow", "powu")
_GPU = ("cuda", "rocm", "xpu")


class KernelRows(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Kernels of one class: their columns, measured seconds, and by kernel the device and the software."""

    columns: Columns
    seconds: Array
    hardware: NDArray[np.str_]
    software: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, chosen: NDArray[Any]) -> KernelRows:
        """Return the chosen kernels, by indexes or by a mask."""
        return KernelRows(
            columns=self.columns.take(chosen),
            seconds=self.seconds[chosen],
            hardware=self.hardware[chosen],
            software=self.software[chosen],
        )


class _Part(msgspec.Struct, frozen=True):
    sizes: dict[str, Array]
    limits: Limits
    regime: str
    seconds: Array
    hardware: str
    software: str


def class_of(operator: str) -> str | None:
    """Return the class that an operator of an event is modelled in, None where it is in none."""
    return _CLASSES.get(operator)


def kernel_rows(events: Iterable[Mapping[str, Any]], spec_of: SpecOf, each: int = EACH) -> dict[str, KernelRows]:
    """Return the kernels of `assay.kernel.measured.v1` data by class; devices without figures and invalid ones stay out."""
    parts: dict[str, dict[tuple[str, str, str], list[_Part]]] = {}
    for data in events:
        payload = msgspec.convert(data, KernelMeasured)
        part = _part(payload, spec_of)
        if part is not None:
            name = _CLASSES[payload.operator]
            key = (part.hardware, part.software, payload.operator)
            parts.setdefault(name, {}).setdefault(key, []).append(part)
    return {name: _joined([_thinned(items, each) for items in groups.values()]) for name, groups in parts.items()}


def _part(data: KernelMeasured, spec_of: SpecOf) -> _Part | None:
    execution, spec = data.execution, spec_of(data.hardware.id)
    if data.operator not in _CLASSES or spec is None or (data.phase == "backward" and data.operator != "gemm"):
        return None
    types = data.types
    arithmetic = (types.arithmetic if types is not None else None) or execution.precision or "fp32"
    limits = limits_of(spec, arithmetic, execution.platform)
    if limits is None:
        return None
    columns = {name: expanded(values) for name, values in data.columns.items()}
    count = data.timings
    taught = np.array([_teaches(mark, data) for mark in columns.get("mark", [None] * count)], dtype=bool)
    if not taught.any():
        return None

    def size(name: str, default: float) -> Array:
        values = columns.get(name, [data.fixed.get(name)] * count)
        return np.asarray([default if value is None else float(value) for value in values], dtype=np.float64)[taught]

    bytes_of = {
        "activation": activation_bytes_per_element((types and types.activations) or arithmetic),
        "weight": activation_bytes_per_element((types and types.weights) or arithmetic),
        "cache": activation_bytes_per_element(
            (types and types.kv_cache) or (types and types.activations) or arithmetic
        ),
    }
    sizes = _SIZES[_CLASSES[data.operator]](data, size, bytes_of)
    latency = np.asarray(columns[LATENCY], dtype=np.float64)[taught] / 1e3
    usable = np.isfinite(latency) & np.all(
        [values > 0 for name, values in sizes.items() if name not in _MAY_BE_0], axis=0
    )
    launch = (data.method.launch if data.method is not None else None) or "eager"
    runtime = execution.runtime.name if execution.runtime is not None else ""
    return _Part(
        {name: values[usable] for name, values in sizes.items()},
        limits,
        launch if execution.platform in _GPU else f"{launch} {execution.platform}",
        latency[usable],
        data.hardware.id,
        f"{execution.platform} {runtime} {(types and types.published) or arithmetic}",
    )


_MAY_BE_0 = ("causal", "kind")


def _teaches(mark: Any, data: KernelMeasured) -> bool:
    return mark is None or (mark not in UNTAUGHT and data.marks[mark].verdict == "suspect")


def _product(
    data: KernelMeasured, size: Callable[[str, float], Array], bytes_of: Mapping[str, float]
) -> dict[str, Array]:
    if data.operator == "convolution":
        area = size("kernel_height", 1.0) * size("kernel_width", 1.0)
        stride, padding, groups = size("stride", 1.0), size("padding", 0.0), size("groups", 1.0)
        high = np.floor((size("height", 1.0) + 2 * padding - size("kernel_height", 1.0)) / stride) + 1
        wide = np.floor((size("width", 1.0) + 2 * padding - size("kernel_width", 1.0)) / stride) + 1
        named = {
            "batch": groups,
            "m": size("batch", 1.0) * high * wide,
            "n": size("out_channels", 1.0) / groups,
            "k": size("in_channels", 1.0) / groups * area,
            "area": np.maximum(area / stride**2, 1.0),
        }
    else:
        named = {name: size(name, 1.0) for name in ("batch", "m", "n", "k")}
        named["area"] = np.ones(len(named["m"]))
    ones = np.ones(len(named["m"]))
    return named | {
        "left_bytes": ones * bytes_of["activation"],
        "right_bytes": ones * bytes_of["weight"],
        "out_bytes": ones * max(2.0, bytes_of["activation"]),
    }


def _attention(
    data: KernelMeasured, size: Callable[[str, float], Array], bytes_of: Mapping[str, float]
) -> dict[str, Array]:
    queries, cached = size("query_tokens", 1.0), size("cached_tokens", 0.0)
    heads, window = size("heads", 1.0), size("window_size", 0.0)
    kv_heads = size("kv_heads", 0.0)
    keys = queries + cached
    ones = np.ones(len(queries))
    return {
        "batch": size("batch", 1.0),
        "heads": heads,
        "kv_heads": np.where(kv_heads > 0, kv_heads, heads),
        "queries": queries,
        "keys": np.where(window > 0, np.minimum(keys, window + queries), keys),
        "width": size("head_dim", 64.0),
        "causal": ones * float(data.phase in ("context", "generation")),
        "bytes": ones * bytes_of["activation"],
        "kv_bytes": ones * bytes_of["cache"],
    }


def _moving(
    data: KernelMeasured, size: Callable[[str, float], Array], bytes_of: Mapping[str, float]
) -> dict[str, Array]:
    row = size("row_size", 1.0)
    costly = (data.name or "").lower() in _COSTLY
    kind = "costly elementwise" if data.operator == "elementwise" and costly else data.operator
    return {
        "rows": size("rows", 1.0),
        "row": row,
        "moved": row * (size("inputs", 1.0) + 1.0),
        "kind": np.full(len(row), float(MOVING_KINDS.index(kind))),
        "bytes": np.full(len(row), bytes_of["activation"]),
    }


_SIZES: dict[str, Callable[..., dict[str, Array]]] = {PRODUCT: _product, ATTENTION: _attention, MOVING: _moving}


def _thinned(parts: Sequence[_Part], each: int) -> tuple[Sequence[_Part], NDArray[np.intp]]:
    count = sum(len(part.seconds) for part in parts)
    if count <= each:
        return parts, np.arange(count)
    return parts, np.sort(np.random.default_rng(0).choice(count, each, replace=False))


def _joined(groups: Sequence[tuple[Sequence[_Part], NDArray[np.intp]]]) -> KernelRows:
    made: list[KernelRows] = []
    for parts, chosen in groups:
        lengths = [len(part.seconds) for part in parts]
        limits = [parts[place].limits for place in np.repeat(np.arange(len(parts)), lengths)[chosen]]
        rows = KernelRows(
            columns=Columns(
                sizes={name: np.concatenate([part.sizes[name] for part in parts])[chosen] for name in parts[0].sizes},
                device=device_columns(limits),
                regime=np.repeat([part.regime for part in parts], lengths)[chosen],
            ),
            seconds=np.concatenate([part.seconds for part in parts])[chosen],
            hardware=np.repeat([part.hardware for part in parts], lengths)[chosen],
            software=np.repeat([part.software for part in parts], lengths)[chosen],
        )
        made.append(rows)
    return KernelRows(
        columns=Columns(
            sizes={name: np.concatenate([rows.columns.sizes[name] for rows in made]) for name in made[0].columns.sizes},
            device={
                name: np.concatenate([rows.columns.device[name] for rows in made]) for name in made[0].columns.device
            },
            regime=np.concatenate([rows.columns.regime for rows in made]),
        ),
        seconds=np.concatenate([rows.seconds for rows in made]),
        hardware=np.concatenate([rows.hardware for rows in made]),
        software=np.concatenate([rows.software for rows in made]),
    )
