"""Operator traces in memory: the rows of `assay.model.traced.v1` as arrays, and where to find them by model and size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.catalogues.models import default_workload
from domain.performance.roofline import OPERATOR_CLASSES
from predictor.features.dataset import Row

__all__ = ["Trace", "TraceBook", "generation", "trace_from_data"]

Array = NDArray[np.float64]
_SIZES = (
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "gradient_checkpointing",
)
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
    phase: str
    sizes: Mapping[str, Any]
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
        phase=workload.get("phase") or "forward",
        sizes={name: workload[name] for name in _SIZES if workload.get(name)},
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


def generation(prefill: Trace, decode: Trace, output_tokens: int) -> Trace:
    """Return the work of one generation: the prompt gives the first token, and each further one is a step."""
    if output_tokens <= 1:
        return prefill
    steps = np.concatenate([np.ones(len(prefill.count)), np.full(len(decode.count), float(output_tokens - 1))])
    joined = {
        name: np.concatenate([getattr(prefill, name), getattr(decode, name)])
        for name in (
            "class_index",
            "count",
            "flops",
            "activations",
            "weights",
            "written",
            "inner",
            "kernel",
            "stride",
            "groups",
        )
    }
    joined["count"] = joined["count"] * steps
    operators = [
        {**row, "count": row["count"] * step}
        for row, step in zip((*prefill.operators, *decode.operators), steps.tolist(), strict=True)
    ]
    return msgspec.structs.replace(prefill, phase="generation", operators=tuple(operators), **joined)


def _is_usual(trace: Trace) -> bool:
    usual = default_workload(trace.category or "")
    return all(trace.sizes.get(name, size) == size for name, size in msgspec.structs.asdict(usual).items() if size)


class TraceBook:
    """Traces by model, phase and input size; of several of the same size the last one given counts."""

    def __init__(self, traces: Iterable[Trace] = ()) -> None:
        """Take the traces in the order of the log."""
        self._by_model: dict[str, dict[str, dict[tuple[Any, ...], Trace]]] = {}
        self._found: dict[tuple[Any, ...], Trace | None] = {}
        for trace in traces:
            self.add(trace)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Trace]:
        for phases in self._by_model.values():
            for sizes in phases.values():
                yield from sizes.values()

    def add(self, trace: Trace) -> None:
        """Take one more trace; it replaces an earlier one of the same model, phase and sizes."""
        sizes = self._by_model.setdefault(trace.model, {}).setdefault(trace.phase, {})
        sizes[tuple(trace.sizes.get(name) for name in _SIZES)] = trace
        self._found.clear()

    def of_model(self, model: str, phase: str = "forward") -> list[Trace]:
        """Return the traces of a model in a phase, in the order of their sizes."""
        sizes = self._by_model.get(model, {}).get(phase, {})
        return [sizes[key] for key in sorted(sizes, key=lambda key: [float(size or 0) for size in key])]

    def find(self, model: str, phase: str = "forward", **sizes: Any) -> Trace | None:
        """Return the trace at these sizes. A size that is not stated, or that the trace has none of, does not count.

        Where several traces are left, one at the usual sizes of the model's category goes first, and then the smallest.
        """
        key = (model, phase, *(sizes.get(name) for name in _SIZES))
        if key not in self._found:
            self._found[key] = self._nearest(model, phase, sizes)
        return self._found[key]

    def _nearest(self, model: str, phase: str, sizes: Mapping[str, Any]) -> Trace | None:
        stated = {name: size for name in _SIZES if (size := sizes.get(name))}
        checkpointing = bool(stated.pop("gradient_checkpointing", False))
        fitting = [
            trace
            for trace in self.of_model(model, phase)
            if bool(trace.sizes.get("gradient_checkpointing")) == checkpointing
            and all(trace.sizes.get(name, size) == size for name, size in stated.items())
        ]
        return max(fitting, key=lambda trace: (len(trace.sizes.keys() & stated.keys()), _is_usual(trace)), default=None)

    def find_for(self, row: Row) -> Trace | None:
        """Return the work of a row: a forward pass, a training step, or a whole generation; None where not traced."""
        sizes = {name: getattr(row, name) for name in _SIZES}
        generates = row.scenario in (None, "single_stream", "offline")
        return self.work(row.model, row.mode, sizes, row.output_tokens if generates else None)

    def work(self, model: str, mode: str, sizes: Mapping[str, Any], output_tokens: int | None = None) -> Trace | None:
        """Return the work of one call, None where it was not traced.

        A training step that was not traced as such is a forward pass, which counts three times in its prior.
        """
        if mode == "training":
            forward = {**sizes, "gradient_checkpointing": None}
            return self.find(model, "training", **sizes) or self.find(model, **forward)
        if output_tokens:
            return self._generation(model, sizes, output_tokens)
        return self.find(model, **sizes)

    def _generation(self, model: str, sizes: Mapping[str, Any], output_tokens: int) -> Trace | None:
        key = (model, "generation", output_tokens, *(sizes.get(name) for name in _SIZES))
        if key not in self._found:
            prefill, decode = self.find(model, "prefill", **sizes), self.find(model, "decode", **sizes)
            existing = prefill is not None and decode is not None
            self._found[key] = generation(prefill, decode, output_tokens) if existing else None  # type: ignore[arg-type]
        return self._found[key]
