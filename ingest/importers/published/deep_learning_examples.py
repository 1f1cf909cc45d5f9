"""NVIDIA/DeepLearningExamples: the performance tables of its READMEs (Apache-2.0 or BSD by folder, column `licence`).

Columns: `framework, task, model, variant, mode, serving, device, device_memory_gb, system, nodes, gpus, precision, batch,
batch_scope, sequence, concurrency, throughput, throughput_unit, latency_*_ms, backend, accelerator, model_format, instances,
container, licence, source_file, source_line` and more. `amp` is mixed precision with fp16. Training has throughput alone.
`serving` triton goes through a server with so many requests at once, the queue and the network within the latency. A rate in
tokens is our `tokens_per_s`; of frames, audio samples, molecules it stands under `original`, because no item of work is
that. `latency_unstated_ms` has no statistic, and stands there too. `gpus` is per node where `nodes` is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.importers.draft import Draft
from ingest.importers.identity import model_of, precision_of, runtime_of
from ingest.importers.published.published_table import PublishedTable, Row, needed, percentiles
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["DEEP_LEARNING_EXAMPLES"]

_ITEMS = ("inferences/s", "images/s", "samples/s", "sequences/s", "sentences/s", "items/s")
_MODES = {"inference": "inference", "training": "training", "evaluation": "inference"}
_TASKS = {"classification": "vision", "segmentation": "vision", "detection": "vision", "languagemodeling": "embedding"}
_KEPT = ("section", "other", "source_file", "source_line", "latency_unstated_ms")


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    framework, model, mode, device = needed(row, "framework", "model", "mode", "device")
    if mode not in _MODES:
        raise BadRow("mode", f"is none of {', '.join(_MODES)}")
    rate, unit = number(row, "throughput"), text(row, "throughput_unit")
    latency = percentiles(row, **{name: f"latency_{name}_ms" for name in ("mean", "p50", "p90", "p95", "p99", "max")})
    metrics: dict[str, Any] = {"latency_ms": latency}
    original: dict[str, Any] = {name: said for name in _KEPT if (said := text(row, name)) is not None}
    if rate is not None and unit in _ITEMS:
        metrics["throughput_per_s"] = rate
    elif rate is not None and unit == "tokens/s":
        metrics["tokens_per_s"] = rate
    elif rate is not None:
        original[f"throughput ({unit or 'unit not said'})"] = text(row, "throughput")
    if not any(metrics.values()):
        raise BadRow("throughput", "no latency, and no rate of items or tokens")
    count = (whole(row, "gpus") or 1) * (whole(row, "nodes") or 1)
    batch = whole(row, "batch")
    served = text(row, "serving") == "triton"
    yield Draft(
        row=line,
        model=_model(row, model),
        workload={
            "mode": _MODES[mode],
            "scenario": "server" if served else "offline" if latency is None else "single_stream",
            "batch_size": batch * count if batch and row.get("batch_scope") == "per GPU" else batch,
            "sequence_length": whole(row, "sequence"),
            "concurrency": whole(row, "concurrency"),
        },
        execution=_execution(row, framework, mode, served, count),
        hardware=hardware_named(_device(row, device), "gpu", count),
        metrics=metrics,
        original=original,
    )


def _execution(row: Row, framework: str, mode: str, served: bool, count: int) -> dict[str, Any]:
    backend = text(row, "backend")
    options = {
        name: said
        for name in ("container", "accelerator", "model_format", "instances", "system")
        if (said := text(row, name)) is not None
    }
    if served:
        options["server"] = "triton"
    if mode == "evaluation":
        options["phase"] = "evaluation"
    name = {"NVIDIA TensorRT": "tensorrt", "ONNX Runtime": "onnxruntime"}.get(backend or "", backend or framework)
    return {
        "platform": "cuda",
        "runtime": runtime_of(name),
        "precision": precision_of(text(row, "precision")),
        "parallelism": {"data": count} if count > 1 else None,
        "options": options or None,
    }


def _model(row: Row, model: str) -> dict[str, Any]:
    """Return the model under the repository's own name: a folder's network, and the variant of it."""
    variant, task = text(row, "variant"), text(row, "task")
    name = "/".join(part.replace(" ", "-").lower() for part in (model.replace("ConvNets/", ""), variant) if part)
    category = _TASKS.get((task or "").lower())
    return model_of(f"deep-learning-examples/{name}", category=category, task=None)


def _device(row: Row, device: str) -> str:
    """Return the device with its memory and form where the table says them."""
    memory, system = text(row, "device_memory_gb"), text(row, "system") or ""
    form = " SXM" if "DGX" in system and device in ("V100", "A100") else ""
    if device in ("V100", "A100") and form and memory:
        return f"NVIDIA {device}-SXM{'2' if device == 'V100' else '4'}-{memory.removesuffix('.0')}GB"
    return f"NVIDIA {device}"


DEEP_LEARNING_EXAMPLES = PublishedTable(
    "deep-learning-examples",
    "DeepLearningExamples README tables (NVIDIA), as CSV",
    columns={
        "framework",
        "task",
        "batch_scope",
        "throughput_unit",
        "latency_unstated_ms",
        "source_file",
        "source_line",
    },
    drafts=_drafts,
    licence="Apache-2.0 OR BSD-3-Clause",
    reference="NVIDIA/DeepLearningExamples",
)
