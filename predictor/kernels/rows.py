"""Measured kernels, from the data of `assay.kernel.measured.v1` events, as columns that a class is fitted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.catalogues.hardware import HardwareSpec
from domain.kernels import DEPTHWISE, LATENCY, SIZES, expanded
from domain.payloads import KernelMeasured, KernelTypes
from domain.performance.roofline import Limits, activation_bytes_per_element, limits_of
from predictor.features.table import Array
from predictor.kernels.columns import ATTENTION, MOVING, MOVING_KINDS, PRODUCT, Columns, device_columns

__all__ = ["KernelRows", "class_of", "kernel_rows", "kernel_rows_of_view"]

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
_GPU = ("cuda", "rocm")


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


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one operator on one device with one software: sizes by name (NaN: absent), and which of them teach."""

    hardware: str
    platform: str
    runtime: str
    precision: str | None
    operator: str
    name: str | None
    phase: str | None
    launch: str | None
    types: KernelTypes
    sizes: dict[str, Array]
    seconds: Array
    teaches: NDArray[np.bool_]

    def size(self, name: str, default: float) -> Array:
        """Return a size of every kernel, with a default where it is absent."""
        values = self.sizes.get(name)
        if values is None:
            return np.full(len(self.seconds), default)
        return np.where(np.isnan(values), default, values)


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
    return _by_class((_of_event(msgspec.convert(data, KernelMeasured)) for data in events), spec_of, each)


def kernel_rows_of_view(rows: Iterable[Mapping[str, Any]], spec_of: SpecOf) -> dict[str, KernelRows]:
    """Return the same of rows of the view `kernels`."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in _OF_GROUP), []).append(row)
    return _by_class(map(_of_view, groups.values()), spec_of, EACH)


_OF_GROUP = (
    "hardware_id",
    "platform",
    "runtime_name",
    "precision",
    "operator",
    "name",
    "phase",
    "launch",
    "type_published",
    "type_weights",
    "type_activations",
    "type_arithmetic",
    "type_kv_cache",
)


def _of_view(rows: Sequence[Mapping[str, Any]]) -> _Group:
    first = rows[0]
    sizes = SIZES[first["operator"]]
    return _Group(
        hardware=first["hardware_id"],
        platform=first["platform"] or "",
        runtime=first["runtime_name"] or "",
        precision=first["precision"],
        operator=first["operator"],
        name=first["name"],
        phase=first["phase"],
        launch=first["launch"],
        types=KernelTypes(
            **{name.removeprefix("type_"): first[name] for name in _OF_GROUP if name.startswith("type_")}
        ),
        sizes={name: _numbers([row[name] for row in rows]) for name in (*sizes.needed, *sizes.optional)},
        seconds=_numbers([row["latency_ms"] for row in rows]) / 1e3,
        teaches=np.array([row["verdict"] != "invalid" for row in rows], dtype=bool),
    )


def _of_event(data: KernelMeasured) -> _Group:
    execution, count = data.execution, data.timings
    columns = {name: expanded(values) for name, values in data.columns.items()}
    sizes = SIZES[data.operator]
    return _Group(
        hardware=data.hardware.id,
        platform=execution.platform,
        runtime=execution.runtime.name if execution.runtime is not None else "",
        precision=execution.precision,
        operator=data.operator,
        name=data.name,
        phase=data.phase,
        launch=None if data.method is None else data.method.launch,
        types=data.types or KernelTypes(),
        sizes={
            name: _numbers(columns.get(name, [data.fixed.get(name)] * count))
            for name in (*sizes.needed, *sizes.optional)
            if name in columns or name in data.fixed
        },
        seconds=_numbers(columns[LATENCY]) / 1e3,
        teaches=np.array([_teaches(mark, data) for mark in columns.get("mark", [None] * count)], dtype=bool),
    )


def _numbers(values: Sequence[Any]) -> Array:
    return np.asarray([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _by_class(groups: Iterable[_Group], spec_of: SpecOf, each: int) -> dict[str, KernelRows]:
    parts: dict[str, dict[tuple[str, str, str], list[_Part]]] = {}
    for group in groups:
        part = _part(group, spec_of)
        if part is not None:
            key = (part.hardware, part.software, group.operator)
            parts.setdefault(_class_of(group), {}).setdefault(key, []).append(part)
    return {name: _joined([_thinned(items, each) for items in made.values()]) for name, made in parts.items()}


def _class_of(group: _Group) -> str:
    """Return the class of a group's kernels; a depthwise convolution moves memory, as it does in a traced model."""
    return MOVING if group.name == DEPTHWISE else _CLASSES[group.operator]


def _part(group: _Group, spec_of: SpecOf) -> _Part | None:
    spec, types = spec_of(group.hardware), group.types
    if group.operator not in _CLASSES or spec is None or (group.phase == "backward" and group.operator != "gemm"):
        return None
    arithmetic = types.arithmetic or group.precision or "fp32"
    limits = limits_of(spec, arithmetic, group.platform)
    if limits is None or not group.teaches.any():
        return None
    bytes_of = {
        "activation": activation_bytes_per_element(types.activations or arithmetic),
        "weight": activation_bytes_per_element(types.weights or arithmetic),
        "cache": activation_bytes_per_element(types.kv_cache or types.activations or arithmetic),
    }
    sizes = _SIZES[_class_of(group)](group, bytes_of)
    whole = [values > 0 for name, values in sizes.items() if name not in _MAY_BE_0]
    usable = group.teaches & np.isfinite(group.seconds) & np.all(whole, axis=0)
    launch = group.launch or "eager"
    return _Part(
        {name: values[usable] for name, values in sizes.items()},
        limits,
        launch if group.platform in _GPU else f"{launch} {group.platform}",
        group.seconds[usable],
        group.hardware,
        f"{group.platform} {group.runtime} {types.published or arithmetic}",
    )


_MAY_BE_0 = ("causal", "kind")


def _teaches(mark: Any, data: KernelMeasured) -> bool:
    return mark is None or (mark not in UNTAUGHT and data.marks[mark].verdict == "suspect")


def _product(group: _Group, bytes_of: Mapping[str, float]) -> dict[str, Array]:
    size = group.size
    if group.operator == "convolution":
        area = size("kernel_height", 1.0) * size("kernel_width", 1.0)
        stride, groups = size("stride", 1.0), size("groups", 1.0)
        named = {
            "batch": groups,
            "m": size("batch", 1.0) * _pixels(group),
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


def _pixels(group: _Group) -> Array:
    """Return the pixels of one image that a convolution makes."""
    size = group.size
    stride, padding = size("stride", 1.0), size("padding", 0.0)
    high = np.floor((size("height", 1.0) + 2 * padding - size("kernel_height", 1.0)) / stride) + 1
    wide = np.floor((size("width", 1.0) + 2 * padding - size("kernel_width", 1.0)) / stride) + 1
    return np.asarray(high * wide, dtype=np.float64)


def _attention(group: _Group, bytes_of: Mapping[str, float]) -> dict[str, Array]:
    size = group.size
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
        "causal": ones * float(group.phase in ("context", "generation")),
        "bytes": ones * bytes_of["activation"],
        "kv_bytes": ones * bytes_of["cache"],
    }


def _moving(group: _Group, bytes_of: Mapping[str, float]) -> dict[str, Array]:
    if group.name == DEPTHWISE:
        return _depthwise(group, bytes_of)
    size, row = group.size, group.size("row_size", 1.0)
    costly = (group.name or "").lower() in _COSTLY
    kind = "costly elementwise" if group.operator == "elementwise" and costly else group.operator
    return {
        "rows": size("rows", 1.0),
        "row": row,
        "moved": row * (size("inputs", 1.0) + 1.0),
        "kind": np.full(len(row), float(MOVING_KINDS.index(kind))),
        "bytes": np.full(len(row), bytes_of["activation"]),
    }


def _depthwise(group: _Group, bytes_of: Mapping[str, float]) -> dict[str, Array]:
    """Return a depthwise convolution as what reads its image and writes its own, a row a channel of an image."""
    size, made = group.size, _pixels(group)
    read = size("height", 1.0) * size("width", 1.0)
    return {
        "rows": size("batch", 1.0) * size("out_channels", 1.0),
        "row": made,
        "moved": made + read * size("in_channels", 1.0) / size("out_channels", 1.0),
        "kind": np.full(len(made), float(MOVING_KINDS.index("elementwise"))),
        "bytes": np.full(len(made), bytes_of["activation"]),
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
