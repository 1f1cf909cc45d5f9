"""The operators of an ONNX file, as the data of an `assay.model.traced.v1` event: no torch, and no weights are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domain.catalogues.models import WorkloadDefaults, default_workload
from domain.configuration import Workload
from domain.errors import AssayError, UnsupportedWorkload, Untraceable, UsageError
from runner.tracing.onnx_graph import Shape, load, shaped, unreadable
from runner.tracing.onnx_operators import Counted, count
from runner.tracing.operator_rows import architecture_digest, rows_of, sums_of

__all__ = ["TRACER_NAME", "TRACER_VERSION", "trace_onnx"]

TRACER_NAME = "assay-onnx-tracer"
TRACER_VERSION = 1
"""Raised whenever the same file would give other rows."""
_IMAGE_CHANNELS = (1, 3, 4)
_INTEGERS = (6, 7)
"""ONNX's numbers of int32 and int64, which token ids have."""
_DIGITS = 8


class _Input(NamedTuple):
    """One input of the graph: sides are numbers, names, or None where the file says nothing."""

    name: str
    integer: bool
    sides: tuple[int | str | None, ...]


class _Sizes(NamedTuple):
    """The sizes that a graph was bound to; None where it has no such side."""

    sequence_length: int | None
    image_size: int | None


def trace_onnx(path: Path, workload: Workload | None = None) -> dict[str, Any]:
    """Return the data of an `assay.model.traced.v1` event for this file at the workload's sizes.

    Named sides are bound by what they are: the batch to 1, a cache's past to 0, tokens to `sequence_length` and pixels
    to `image_size`, both the category's usual one where it is not asked for. The model's id is `local/`, the file's name
    and the beginning of its architecture's digest, so that another file of the same name is another model; its
    family is not known. `tracer.unknown` lists operators that were counted by their elements alone.

    Raises UsageError for a file that cannot be read, or a side that no size says; UnsupportedWorkload for training;
    Untraceable with the node where a shape does not follow; PartMissing without the package onnx.
    """
    request = workload or Workload(mode="inference")
    if request.mode == "training":
        raise UnsupportedWorkload(
            "an ONNX file holds the forward pass alone.", field="mode", remedy="Ask for --mode inference."
        )
    path = Path(path).expanduser()
    model = load(path)
    try:
        return _data(model, request, path)
    except AssayError:
        raise
    except Exception as error:  # What a damaged file holds can be wrong in any way.
        reason = f"it does not hold together ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        raise unreadable(path, reason) from error


def _data(model: Any, workload: Workload, path: Path) -> dict[str, Any]:
    inputs = _inputs(model)
    category = _category(inputs, tuple(value.name for value in model.graph.output))
    usual = default_workload(category or "embedding")
    default, rows, totals, counted = _counted(model, inputs, Workload(mode="inference"), usual, path)
    architecture = architecture_digest(rows)
    sizes = default
    if (
        _Sizes(workload.sequence_length or default.sequence_length, workload.image_size or default.image_size)
        != default
    ):
        sizes, rows, totals, counted = _counted(model, inputs, workload, usual, path)
    return {
        "model": {
            "id": f"local/{'-'.join(path.stem.split())}-{architecture[:_DIGITS]}",
            "category": category,
            "family": None,
            "task": None,
            "architecture": architecture,
            "parameters": totals["parameters"],
        },
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, **sizes._asdict()},
        "tracer": {"name": TRACER_NAME, "version": TRACER_VERSION, "unknown": list(counted.unknown)},
        "operators": rows,
        "totals": totals,
    }


def _counted(
    model: Any, inputs: list[_Input], workload: Workload, usual: WorkloadDefaults, path: Path
) -> tuple[_Sizes, list[dict[str, Any]], dict[str, Any], Counted]:
    binding = _Binding(workload, usual)
    shapes = {item.name: binding.shape(item) for item in inputs}
    binding.refuse_unused()
    try:
        graph = shaped(model, shapes, binding.symbols, path.parent)
    except Untraceable as stopped:
        taken = ", ".join(f"{name} {'×'.join(map(str, shape)) or 'one number'}" for name, shape in shapes.items())
        raise Untraceable(
            f"{stopped.detail} Inputs were taken as {taken}.", field=stopped.field, remedy=stopped.remedy
        ) from stopped
    counted = count(graph)
    rows = rows_of(counted.operators)
    totals = {
        **sums_of(rows),
        "parameters": sum(graph.weights.values()),
        "peak_activation_elements": counted.peak_activation_elements,
    }
    return binding.sizes(shapes, inputs), rows, totals, counted


def _inputs(model: Any) -> list[_Input]:
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs: list[_Input] = []
    for value in model.graph.input:
        if value.name in stored:
            continue
        tensor_type = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor_type.HasField("shape"):
            raise UsageError(
                f"input {value.name!r} of the file has no shape.",
                field="model",
                remedy="Export it with its inputs' shapes; sides that vary may have names.",
            )
        sides = tuple(_side(side) for side in tensor_type.shape.dim)
        inputs.append(_Input(value.name, tensor_type.elem_type in _INTEGERS, sides))
    return inputs


def _side(document: Any) -> int | str | None:
    """Return a side as a number or a name; exporters write -1 and `?` for one without either."""
    if document.HasField("dim_value"):
        return int(document.dim_value) if document.dim_value > 0 else None
    return document.dim_param if re.search(r"\w", document.dim_param) else None


def _category(inputs: list[_Input], outputs: tuple[str, ...]) -> str | None:
    """Return the category that the inputs tell of; None where they do not."""
    pictures = any(_is_picture(item) for item in inputs)
    words = any(item.integer and len(item.sides) == 2 for item in inputs)
    if pictures:
        return "multimodal" if words else "vision"
    if words:
        return "text_generation" if any(name.startswith("present") for name in outputs) else "embedding"
    return None


def _is_picture(item: _Input) -> bool:
    return len(item.sides) == 4 and not item.integer and not item.name.startswith("past")


def _pixels(item: _Input) -> tuple[int, int]:
    """Return where height and width stand: behind the channels, or before them."""
    last = item.sides[3] in _IMAGE_CHANNELS and item.sides[1] not in _IMAGE_CHANNELS
    return (1, 2) if last else (2, 3)


class _Binding:
    """Gives every open side of the inputs a number, the same one to the same name."""

    def __init__(self, workload: Workload, usual: WorkloadDefaults) -> None:
        self._asked = {"sequence_length": workload.sequence_length, "image_size": workload.image_size}
        self._usual = {"sequence_length": usual.sequence_length or 128, "image_size": usual.image_size or 224}
        self._fixed: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self.symbols: dict[str, int] = {}

    def shape(self, item: _Input) -> Shape:
        """Return the shape of an input. Raises UsageError for a side that no size says, or a batch that is fixed."""
        if item.sides and isinstance(item.sides[0], int) and item.sides[0] > 1 and self._has_items(item):
            raise UsageError(
                f"input {item.name!r} is fixed to a batch of {item.sides[0]}, and a trace is that of one item.",
                field="model",
                remedy="Export it at batch 1, or with a first side that varies.",
            )
        return tuple(self._side(item, axis, side) for axis, side in enumerate(item.sides))

    def refuse_unused(self) -> None:
        """Raise UsageError where a size was asked for that the file fixes to another value."""
        for name, fixed in self._fixed.items():
            request = self._asked[name]
            if request is not None and request != fixed:
                raise UsageError(
                    f"the file is fixed to {name.replace('_', ' ')} {fixed}, and {request} is asked for.",
                    field=name,
                    remedy=f"Leave it out, or export the file with a {name.replace('_', ' ')} that varies.",
                )

    def sizes(self, shapes: Mapping[str, Shape], inputs: list[_Input]) -> _Sizes:
        """Return the sizes that the inputs have now; a picture that is not square has no `image_size`."""
        words = [shapes[item.name][1] for item in inputs if item.integer and len(item.sides) == 2]
        sides = {shapes[item.name][axis] for item in inputs if _is_picture(item) for axis in _pixels(item)}
        return _Sizes(
            max(words) if words else self._bound.get("sequence_length"), sides.pop() if len(sides) == 1 else None
        )

    @staticmethod
    def _has_items(item: _Input) -> bool:
        return _is_picture(item) or (item.integer and len(item.sides) == 2)

    def _side(self, item: _Input, axis: int, side: int | str | None) -> int:
        meaning = self._meaning(item, axis, side)
        if isinstance(side, int):
            if meaning in self._asked:
                self._fixed.setdefault(meaning, side)
            return side
        if side in self.symbols:
            return self.symbols[side]
        number = self._number(side, meaning)
        if number is None:
            raise UsageError(
                f"input {item.name!r} leaves its side {axis}{f' ({side})' if side else ''} open, and no size says it.",
                field="model",
                remedy="Export the file with this side fixed; a batch, tokens, and pixels of a picture may stay open.",
            )
        if side:
            self.symbols[side] = number
        return number

    def _number(self, side: str | None, meaning: str) -> int | None:
        if side and "+" in side:
            parts = [self._number(part.strip(), _by_name(part) or meaning) for part in side.split("+")]
            return sum(part for part in parts if part is not None)
        if side and side.isdigit():
            return int(side)
        existing = {"batch": 1, "past": 0}
        if meaning in existing or meaning not in self._asked:
            return existing.get(meaning)
        self._bound[meaning] = self._asked[meaning] or self._usual[meaning]
        return self._bound[meaning]

    def _meaning(self, item: _Input, axis: int, side: int | str | None) -> str:
        named = _by_name(side) if isinstance(side, str) else ""
        if named:
            return named
        if axis == 0:
            return "batch"
        if _is_picture(item):
            return "image_size" if axis in _pixels(item) else ""
        return "sequence_length" if axis == 1 and (len(item.sides) == 3 or item.integer) else ""


def _by_name(side: str) -> str:
    """Return what the name of a side says that it counts; empty where it says nothing."""
    words = set(re.split(r"[^a-z]+", side.lower()))
    if words & {"batch", "bs", "n"}:
        return "batch"
    if "past" in words and "+" not in side:
        return "past"
    if words & {"height", "width", "h", "w"}:
        return "image_size"
    return "sequence_length" if words & {"sequence", "seq", "length", "len", "tokens", "seqlen"} else ""
