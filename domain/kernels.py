"""Timings of kernels: the sizes that define each operator, the columns of an event, and the number types by their names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from domain.errors import InvalidInput
from domain.payloads import KernelMeasured, KernelRuns, KernelTypes, KernelValue

__all__ = [
    "DEPTHWISE",
    "LATENCY",
    "NUMBER_TYPES",
    "SIZES",
    "TEXTS",
    "Sizes",
    "check_kernels",
    "expanded",
    "unknown_columns",
]

LATENCY = "latency_ms"


class Sizes(NamedTuple):
    """Names of the sizes that an operator needs, and of those that may be absent."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()


SIZES: Mapping[str, Sizes] = MappingProxyType(
    {
        "gemm": Sizes(("m", "n", "k")),
        "bmm": Sizes(("batch", "m", "n", "k")),
        "attention": Sizes(
            ("batch", "query_tokens", "heads", "head_dim"), ("cached_tokens", "kv_heads", "window_size")
        ),
        "convolution": Sizes(
            ("batch", "in_channels", "out_channels", "height", "width", "kernel_height", "kernel_width"),
            ("stride", "padding", "groups"),
        ),
        "moe": Sizes(
            ("tokens", "hidden_size", "inner_size", "experts", "top_k"), ("tensor_parallel", "expert_parallel")
        ),
        "collective": Sizes(("ranks", "elements")),
        "softmax": Sizes(("rows", "row_size")),
        "norm": Sizes(("rows", "row_size")),
        "elementwise": Sizes(("rows", "row_size"), ("inputs",)),
        "other": Sizes((), ("elements",)),
    }
)
"""Sizes by operator, integers from 0. Of a product, m × k times k × n: k is what is summed over. A convolution's image is
`height` × `width`. A norm, a softmax and an element-wise operator work on `rows` of `row_size` elements, of `inputs` tensors.
`elements` of a collective are those of the message, whatever their bytes."""
DEPTHWISE = "depthwise"
"""The name of a convolution with a group for each channel: it does so little arithmetic that only its traffic counts."""
COUNTS = ("samples_n", "calls", "model_batch", "model_sequence")
"""Whole numbers that any operator may have: samples behind a time; calls of it in one call of the model that it is part of,
and that model's batch and sequence."""
TIMES = ("latency_stddev_ms", "latency_min_ms")
TEXTS = ("kernel", "shape", "distribution", "split", "part_of", "mode", "mark")
"""Words that any operator may have: the kernel that ran, the tensors' shapes, how tokens fall on experts, the source's own
division of its rows, the model that the operator is part of and its mode, and the mark that says why the time is not valid."""

NUMBER_TYPES: Mapping[str, KernelTypes] = MappingProxyType(
    {
        name: KernelTypes(published=name, weights=weights, activations=activations, arithmetic=arithmetic)
        for names, weights, activations, arithmetic in (
            (("bfloat16",), "bf16", "bf16", "bf16"),
            (("float16", "half"), "fp16", "fp16", "fp16"),
            (("float32",), "fp32", "fp32", "fp32"),
            (("fp8", "fp8_static", "fp8_ootb", "fp8_block"), "fp8", "fp8", "fp8"),
            (("nvfp4",), "fp4", "fp4", "fp4"),
            (("int8",), "int8", "int8", "int8"),
            (("sq",), "int8", "int8", "int8"),
            (("int8_wo",), "int8", "fp16", "fp16"),
            (("int4_wo",), "int4", "fp16", "fp16"),
            (("w4afp8",), "int4", "fp8", "fp8"),
            (("w4a16_mxfp4",), "fp4", "fp16", "fp16"),
            (("w4a8_mxfp4_mxfp8",), "fp4", "fp8", "fp8"),
        )
        for name in names
    }
)
"""Number types by the words of aiconfigurator and PyTorch: `sq` is SmoothQuant, `wo` quantises the weights only."""


def expanded(column: Sequence[KernelValue] | KernelRuns) -> list[KernelValue]:
    """Return a column value by value."""
    if isinstance(column, KernelRuns):
        pairs = zip(column.values, column.runs, strict=True)
        return list(itertools.chain.from_iterable(itertools.repeat(value, count) for value, count in pairs))
    return list(column)


def check_kernels(data: KernelMeasured) -> None:
    """Raise InvalidInput, naming the column, where columns are missing, differ in length, or hold what they cannot."""
    needed, optional = SIZES[data.operator]
    if isinstance(data.columns.get(LATENCY), KernelRuns):
        # So that a short event never becomes more rows than it has characters.
        raise _invalid("times are a list, never runs.", f"columns.{LATENCY}")
    for name in (*needed, LATENCY):
        if name not in data.columns and (name == LATENCY or name not in data.fixed):
            raise _invalid(f"required of {data.operator}, and missing.", f"columns.{name}")
    for name, column in data.columns.items():
        _check_length(name, column, data.timings)
        if name in data.fixed:
            raise _invalid("is in columns as well.", f"fixed.{name}")
        values = column.values if isinstance(column, KernelRuns) else column
        _check_values(name, values, f"columns.{name}", whole=name in (*needed, *optional, *COUNTS), needed=needed)
    for name, value in data.fixed.items():
        _check_values(name, [value], f"fixed.{name}", whole=name in (*needed, *optional, *COUNTS), needed=needed)
    _check_marks(data)
    if data.provenance.origin == "measured" and data.observed is None:
        raise InvalidInput(
            "required of measured timings.",
            field="observed",
            remedy="Observe the device, platform and precision that did the work.",
        )


def _check_length(name: str, column: Sequence[KernelValue] | KernelRuns, timings: int) -> None:
    if isinstance(column, KernelRuns):
        if len(column.values) != len(column.runs):
            raise _invalid(f"has {len(column.values)} values and {len(column.runs)} runs.", f"columns.{name}")
        length = sum(column.runs)
    else:
        length = len(column)
    if length != timings:
        raise _invalid(f"has {length} values where timings says {timings}.", f"columns.{name}")


def _check_values(name: str, values: Sequence[KernelValue], field: str, *, whole: bool, needed: Sequence[str]) -> None:
    if name == LATENCY:
        wrong = any(not _number(value) or not 0 < value < math.inf for value in values)  # type: ignore[operator]
        meaning = "times above 0 in ms"
    elif whole:
        nulls = name not in needed
        wrong = any(not (nulls if value is None else _whole(value)) for value in values)
        meaning = "whole numbers from 0"
    elif name in TIMES:
        wrong = any(value is not None and not (_number(value) and value >= 0) for value in values)  # type: ignore[operator]
        meaning = "times from 0 in ms"
    elif name in TEXTS:
        wrong = any(not isinstance(value, str | None) for value in values)
        meaning = "texts"
    else:
        return
    if wrong:
        raise _invalid(f"holds other values than {meaning}.", field)


def _number(value: KernelValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: KernelValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _check_marks(data: KernelMeasured) -> None:
    column = data.columns.get("mark")
    marked: dict[str, int] = {}
    for value, count in _runs(column) if column is not None else ():
        if isinstance(value, str):
            marked[value] = marked.get(value, 0) + count
    for name, count in marked.items():
        mark = data.marks.get(name)
        if mark is None or mark.timings != count:
            said = "nothing" if mark is None else str(mark.timings)
            raise _invalid(f"{count} timings bear this mark, and marks says {said}.", f"marks.{name}")
    for name in data.marks.keys() - marked.keys():
        raise _invalid("no timing bears this mark.", f"marks.{name}")


def _runs(column: Sequence[KernelValue] | KernelRuns) -> Iterator[tuple[KernelValue, int]]:
    if isinstance(column, KernelRuns):
        return zip(column.values, column.runs, strict=True)
    return ((value, 1) for value in column)


def _invalid(detail: str, field: str) -> InvalidInput:
    return InvalidInput(detail, field=field, remedy="docs/events.md names the columns of each operator.")


def unknown_columns(data: Mapping[str, Any]) -> list[str]:
    """Return the ends of the paths of columns and fixed values of an event's data that its operator does not have."""
    sizes = SIZES[data["operator"]]
    existing = {*sizes.needed, *sizes.optional, *COUNTS, *TIMES, *TEXTS, LATENCY}
    return [
        f".{member}.{name}"
        for member in ("columns", "fixed")
        for name in sorted(data.get(member) or {})
        if name not in existing
    ]
