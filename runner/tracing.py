"""The operators of one forward pass, as the data of an `assay.model.traced.v1` event.

Nothing is computed and no weight is loaded: the module is built and called on torch's meta device, at batch 1.
Operator rows are per single call; `count` says how many identical calls there are.
"""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import torch

from domain.canonical import digest
from domain.configuration import Workload
from runner.build import Built, build_meta, count_parameters
from runner.inputs import make_inputs, workload_defaults
from runner.operators import Recorder
from runner.sources import ModelSource

__all__ = [
    "TRACER_NAME",
    "TRACER_VERSION",
    "architecture",
    "architecture_digest",
    "record",
    "trace",
    "traced_data",
]

TRACER_NAME = "assay-tracer"
TRACER_VERSION = 1
"""Raised whenever the same model would give other rows."""
_SIZES = ("sequence_length", "image_size", "images", "audio_seconds", "frames")


def trace(source: ModelSource, workload: Workload | None = None) -> dict[str, Any]:
    """Return the data of an `assay.model.traced.v1` event for this model at the workload's sizes.

    Sizes left out are the model's defaults; batch size and mode do not matter, because the trace is that of one
    forward call at batch 1. Takes a second or two and no weights, whatever the model's size. Raises what building
    and inputs raise: UnknownModel, UsageError, PartMissing.
    """
    asked = workload_defaults(source, _forward(workload or Workload(mode="inference")))
    default = workload_defaults(source, Workload(mode="inference"))
    built, rows, totals = _traced(source, asked)
    default_rows = rows if _sizes(asked) == _sizes(default) else _traced(source, default)[1]
    model = {
        "id": source.id,
        "category": source.category,
        "family": source.family,
        "task": source.task,
        "architecture": architecture_digest(default_rows),
    }
    del built
    return traced_data(model, _sizes(asked), rows, totals)


def architecture(source: ModelSource) -> str:
    """Return the name of the model's architecture: 64 hex digits, the same for models that do the same work."""
    return architecture_digest(_traced(source, workload_defaults(source))[1])


def record(module: Any, inputs: dict[str, Any] | tuple[Any, ...]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the operator rows of one forward call and their totals.

    The module's parameters lie on the meta device; inputs are tensors on it, integer ones may be real.
    """
    recorder = Recorder(module)
    with recorder.recording():
        result = module(*inputs) if isinstance(inputs, tuple) else module(**inputs)
    del result
    rows = recorder.rows()
    totals: dict[str, Any] = {
        key: sum(row[key] * row["count"] for row in rows)
        for key in ("flops", "read_elements", "write_elements", "weight_elements")
    }
    totals["operators"] = sum(row["count"] for row in rows)
    totals["parameters"] = count_parameters(module)
    totals["peak_activation_elements"] = recorder.peak_activation_elements
    # Modules hold reference cycles; freeing them here keeps a long run of traces small.
    del recorder
    gc.collect()
    return rows, totals


def architecture_digest(rows: list[dict[str, Any]]) -> str:
    """Return the 64 hex digits that name an architecture: SHA-256 of its operator list at the default workload."""
    return digest(rows).removeprefix("sha256:")


def traced_data(
    model: dict[str, Any], sizes: dict[str, Any], rows: list[dict[str, Any]], totals: dict[str, Any]
) -> dict[str, Any]:
    """Put the parts of an `assay.model.traced.v1` event's data together; `model` holds id, category, family, task."""
    return {
        "model": {**model, "parameters": totals["parameters"]},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, **sizes},
        "tracer": {"name": TRACER_NAME, "version": TRACER_VERSION, "torch": torch.__version__.split("+")[0]},
        "operators": rows,
        "totals": totals,
    }


def _forward(workload: Workload) -> Workload:
    return msgspec.structs.replace(workload, mode="inference", scenario=None, batch_size=1)


def _sizes(workload: Workload) -> dict[str, Any]:
    """The sizes of one item; `sequence_length` and `image_size` stand there even where they are null."""
    found = {name: getattr(workload, name) for name in _SIZES}
    always = ("sequence_length", "image_size")
    return {name: value for name, value in found.items() if value is not None or name in always}


def _traced(source: ModelSource, workload: Workload) -> tuple[Built, list[dict[str, Any]], dict[str, Any]]:
    with torch.inference_mode(False):
        built = build_meta(source, image_size=workload.image_size)
        # Integer inputs stay real: some models compute shapes from their values.
        inputs = {
            name: tensor.to("meta") if tensor.is_floating_point() else tensor
            for name, tensor in make_inputs(built, workload).items()
        }
        rows, totals = record(built.module, inputs)
    return built, rows, totals
