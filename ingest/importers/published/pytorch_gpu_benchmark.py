"""lamikr/pytorch-gpu-benchmark: torchvision's image classifiers on AMD and NVIDIA GPUs, inference and training (MIT).

Columns: `device, vendor, gpus, model, mode, precision, batch, batch_source, mean_ms, p10_ms, p50_ms, p90_ms, min_ms, max_ms,
repeats, torch, rocm, cuda`. Images have 224 × 224 pixels; a time holds the copy of the batch to the GPU, and of training
the forward and the backward pass without an optimizer. `fp16` is the model cast to half, `fp64` real double precision. On
several GPUs the batch is split by torch's DataParallel; whether the published number is that of all or of each is not said,
and the row keeps it under `original` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.importers.document import environment
from ingest.importers.draft import Draft
from ingest.importers.identity import model_of, precision_of
from ingest.importers.published.published_table import PublishedTable, Row, needed, percentiles
from ingest.importers.reading import text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["PYTORCH_GPU_BENCHMARK"]

_MODES = {"inference": "inference", "train": "training"}
_PLATFORMS = {"AMD": "rocm", "NVIDIA": "cuda"}


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    device, vendor, model, mode, precision = needed(row, "device", "vendor", "model", "mode", "precision")
    if mode not in _MODES:
        raise BadRow("mode", f"is neither inference nor train but {mode!r}")
    count, batch = whole(row, "gpus") or 1, whole(row, "batch")
    latency = percentiles(row, mean="mean_ms", p50="p50_ms", p90="p90_ms", min="min_ms", max="max_ms")
    if latency is None:
        raise BadRow("p50_ms", "no time is given")
    original: dict[str, Any] = {"batch": batch} if count > 1 and batch else {}
    if text(row, "batch_source") == "assumed":
        original["batch_source"] = "assumed"
    options: dict[str, Any] = {"copy": "included"}
    if mode == "train":
        options["optimizer_step"] = False
    if device.endswith("_NO_OPT"):
        options["tuning"] = "off"
    yield Draft(
        row=line,
        model=model_of(f"torchvision/{model}", category="vision", task="image-classification"),
        workload={
            "mode": _MODES[mode],
            "scenario": "single_stream",
            "batch_size": batch if count == 1 else None,
            "image_size": 224,
        },
        execution={
            "platform": _PLATFORMS.get(vendor.upper(), "other"),
            "runtime": {"name": "torch", "version": text(row, "torch")},
            "precision": precision_of(precision),
            "parallelism": {"data": count} if count > 1 else None,
            "options": options,
        },
        hardware=hardware_named(_device(device, vendor), "gpu", count),
        metrics={"latency_ms": {**latency, "n": whole(row, "repeats")}},
        environment=environment({name: said for name in ("rocm", "cuda") if (said := text(row, name))}),
        original=original,
    )


def _device(name: str, vendor: str) -> str:
    """Return the name of a device as its vendor writes it."""
    words = re.sub(r"_(NO_OPT|V2)$", "", name).replace("_", " ")
    return words if words.upper().startswith(vendor.upper()) else f"{vendor} {words}"


PYTORCH_GPU_BENCHMARK = PublishedTable(
    "pytorch-gpu-benchmark",
    "pytorch-gpu-benchmark results (lamikr), as CSV",
    columns={"device", "vendor", "gpus", "batch_source", "p10_ms", "p50_ms", "repeats", "rocm", "cuda"},
    drafts=_drafts,
    licence="MIT",
    reference="lamikr/pytorch-gpu-benchmark",
)
