"""Operator traces in memory: the rows of `assay.model.traced.v1` as arrays, and where to find them by model and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.roofline import OPERATOR_CLASSES

__all__ = ["Trace", "TraceBook", "trace_from_data"]

Array = NDArray[np.float64]
_CLASS_INDEX = {name: index for index, name in enumerate(OPERATOR_CLASSES)}


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One model at one input size, traced at batch 1; arrays have one entry per distinct operator call."""

    model: str
    family: str | None
    category: str | None
    architecture: str
    parameters: float | None
    image_size: int | None
    sequence_length: int | None
    mode: str
    operators: tuple[Mapping[str, Any], ...]
    totals: Mapping[str, Any]
    class_index: NDArray[np.intp]
    count: Array
    flops: Array
    activations: Array
    weights: Array
    written: Array
    inner: Array
    kernel: Array
    stride: Array
    groups: Array


def _side(value: Any) -> float:
    """A kernel or a stride comes as one number or as one a dimension; the longest counts, unknown is 0."""
    if isinstance(value, list | tuple):
        return float(max(value, default=0))
    return float(value or 0)


def trace_from_data(data: Mapping[str, Any]) -> Trace:
    """Return the trace of a `model.traced` event's data."""
    model, workload = data["model"], data["workload"]
    rows = [row for row in data["operators"] if row["count"] > 0]

    def column(name: str) -> Array:
        return np.array([_side(row.get(name)) for row in rows], dtype=np.float64)

    return Trace(
        model=model["id"],
        family=model.get("family"),
        category=model.get("category"),
        architecture=model.get("architecture") or model["id"],
        parameters=model.get("parameters"),
        image_size=workload.get("image_size"),
        sequence_length=workload.get("sequence_length"),
        mode=workload.get("mode") or "inference",
        operators=tuple(rows),
        totals=data.get("totals") or {},
        class_index=np.array([_CLASS_INDEX.get(row["class"], len(_CLASS_INDEX) - 1) for row in rows], dtype=np.intp),
        count=column("count"),
        flops=column("flops"),
        activations=column("read_elements") + column("write_elements"),
        weights=column("weight_elements"),
        written=column("write_elements"),
        inner=column("inner"),
        kernel=column("kernel"),
        stride=column("stride"),
        groups=column("groups"),
    )


class TraceBook:
    """Traces by model and input size; of several of the same size the last one given counts."""

    def __init__(self, traces: Iterable[Trace] = ()) -> None:
        """Take the traces in the order of the log."""
        self._by_key: dict[tuple[str, int | None, int | None], Trace] = {}
        self._by_model: dict[str, dict[tuple[int | None, int | None], Trace]] = {}
        for trace in traces:
            self.add(trace)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Any:
        return iter(self._by_key.values())

    def add(self, trace: Trace) -> None:
        """Take one more trace; it replaces an earlier one of the same model and size."""
        size = (trace.image_size, trace.sequence_length)
        self._by_key[(trace.model, *size)] = trace
        self._by_model.setdefault(trace.model, {})[size] = trace

    def of_model(self, model: str) -> list[Trace]:
        """Return the traces of a model, in the order of their sizes."""
        sizes = self._by_model.get(model, {})
        return [sizes[size] for size in sorted(sizes, key=lambda size: (size[0] or 0, size[1] or 0))]

    def find(self, model: str, image_size: int | None, sequence_length: int | None) -> Trace | None:
        """Return the trace at these sizes. A size that is not stated, or that the model has none of, does not count."""
        exact = self._by_key.get((model, image_size, sequence_length))
        if exact is not None:
            return exact
        fitting = [
            trace
            for trace in self.of_model(model)
            if (image_size is None or trace.image_size in (None, image_size))
            and (sequence_length is None or trace.sequence_length in (None, sequence_length))
        ]
        return fitting[0] if fitting else None
