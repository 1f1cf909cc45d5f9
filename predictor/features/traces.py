"""Operator traces in memory: the rows of `assay.model.traced.v1` as arrays, and where to find them by model and size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.calls import Pipeline, parts_of, window_of
from domain.catalogues.models import default_workload
from domain.performance.roofline import OPERATOR_CLASSES
from predictor.features.dataset import Row

__all__ = ["GUIDED", "USUAL_STEPS", "Trace", "TraceBook", "joined", "trace_from_data"]

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
GUIDED, USUAL_STEPS = "guided", "usual_steps"
"""Totals of the trace of a pipeline's text encoders: whether steps also run without the prompt, and how many are usual."""


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One model at one input size, traced at batch 1; arrays have one entry per distinct operator call."""

    model: str
    family: str | None
    category: str | None
    task: str | None = None
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
        return np.fromiter((row.get(name) or 0.0 for row in rows), dtype=np.float64, count=len(rows))

    def sides(name: str) -> Array:
        return np.array([_side(value) if (value := row.get(name)) else 0.0 for row in rows], dtype=np.float64)

    written = column("write_elements")

    return Trace(
        model=model["id"],
        family=model.get("family"),
        category=model.get("category"),
        task=model.get("task"),
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
        activations=column("read_elements") + written,
        weights=column("weight_elements"),
        written=written,
        inner=column("inner"),
        kernel=sides("kernel"),
        stride=sides("stride"),
        groups=column("groups"),
    )


_ARRAYS = (
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
_OF_ITEMS = ("flops", "activations", "written")
"""What grows with the items of a batch."""


def joined(parts: Sequence[tuple[Trace, float, int]], *, modules: bool = False) -> Trace:
    """Return the work of one call of several phases: (trace, times, items of a batch each time), in their order.

    It is named after the first, or after the forward pass where the phases are `modules` of a pipeline, whose parameters
    add up. A phase that never runs is left out.
    """
    running = [part for part in parts if part[1] > 0]
    if len(running) == 1 and running[0][1:] == (1, 1):
        return running[0][0]
    arrays = {name: np.concatenate([getattr(trace, name) for trace, _, _ in running]) for name in _ARRAYS}
    times = np.concatenate([np.full(len(trace.count), float(count)) for trace, count, _ in running])
    items = np.concatenate([np.full(len(trace.count), float(number)) for trace, _, number in running])
    arrays["count"] = arrays["count"] * times
    arrays |= {name: arrays[name] * items for name in _OF_ITEMS}
    operators = tuple(_times(row, count, number) for trace, count, number in running for row in trace.operators)
    changed: dict[str, Any] = {**arrays, "operators": operators, "phase": "image" if modules else "generation"}
    if not modules:
        return msgspec.structs.replace(running[0][0], **changed)
    peaks = [float(trace.totals.get("peak_activation_elements") or 0) * number for trace, _, number in running]
    parameters = sum(trace.parameters or 0 for trace, _, _ in running)
    changed["totals"] = {"parameters": parameters, "peak_activation_elements": max(peaks)}
    main = next(trace for trace, *_ in running if trace.phase == "forward")
    return msgspec.structs.replace(main, parameters=parameters, **changed)


def _times(row: Mapping[str, Any], times: float, items: int) -> Mapping[str, Any]:
    """Return an operator row of so many calls, each with so many items of a batch."""
    scaled = {name: row[name] * items for name in ("flops", "read_elements", "write_elements") if row.get(name)}
    return {**row, **(scaled if items > 1 else {}), "count": row["count"] * times}


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
        """Return the work of a row: a call or a training step; None where not traced."""
        sizes = {name: getattr(row, name) for name in _SIZES}
        if row.scenario in (None, "single_stream", "offline"):
            sizes |= {"output_tokens": row.output_tokens, "steps": row.steps}
        return self.work(row.model, row.mode, sizes)

    def work(self, model: str, mode: str, sizes: Mapping[str, Any]) -> Trace | None:
        """Return the work of one call of these sizes, None where a phase of it was not traced.

        A training step that was not traced as such is a forward pass, which counts three times in its prior.
        """
        if mode == "training":
            forward = {**sizes, "gradient_checkpointing": None}
            return self.find(model, "training", **sizes) or self.find(model, **forward)
        key = (model, "call", *(sizes.get(name) for name in (*_SIZES, "output_tokens", "steps")))
        if key not in self._found:
            self._found[key] = self._call(model, mode, sizes)
        return self._found[key]

    def _call(self, model: str, mode: str, sizes: Mapping[str, Any]) -> Trace | None:
        family = self.family(model)
        pipeline = self.pipeline(model)
        parts = parts_of(mode, sizes, family=family, guided=pipeline is not None and pipeline.guided)
        window = window_of(family)
        at = {**sizes, "audio_seconds": window} if window and sizes.get("audio_seconds") else sizes
        traces = [self.find(model, part.phase, **at) for part in parts if part.times]
        if None in traces:
            return None
        running = [part for part in parts if part.times]
        called = [(trace, part.times, part.items) for trace, part in zip(traces, running, strict=True) if trace]
        return joined(called, modules=bool(sizes.get("steps")))

    def traces(self, model: str) -> Iterator[Trace]:
        """Yield every trace of a model."""
        for sizes in self._by_model.get(model, {}).values():
            yield from sizes.values()

    def traced(self, model: str) -> bool:
        """Return whether anything of a model is traced."""
        return any(True for _ in self.traces(model))

    def family(self, model: str) -> str | None:
        """Return the family of a model by its traces."""
        return next((trace.family for trace in self.traces(model)), None)

    def pipeline(self, model: str) -> Pipeline | None:
        """Return how a diffusion pipeline makes an image, as its trace says it; None where the model is none."""
        totals = next((trace.totals for trace in self.of_model(model, "text_encoder")), None)
        return None if totals is None else Pipeline(steps=int(totals[USUAL_STEPS]), guided=bool(totals[GUIDED]))
