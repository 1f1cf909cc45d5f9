"""NVIDIA/DeepLearningExamples: the performance tables of its READMEs (Apache-2.0 or BSD by folder, column `licence`).

Columns: `framework, task, model, variant, mode, serving, device, device_memory_gb, system, nodes, gpus, precision, batch,
batch_scope, sequence, concurrency, throughput, throughput_unit, latency_*_ms, backend, accelerator, model_format, instances,
container, licence, source_file, source_line` and more. `amp` is mixed precision with fp16. Training has throughput alone.
`serving` triton goes through a server with so many requests at once, the queue and the network within the latency. A rate in
tokens is our `tokens_per_s`; of frames, audio samples, molecules it stands under `original`, because no item of work is
that. `latency_unstated_ms` has no statistic, and stands there too. `gpus` is per node where `nodes` is set.

The model is `deep-learning-examples/` and the folder, with the variant that the row, its section (`Base model`), `other`
(`Dimension=3`, `Resolution=380x380`) or the heading above its table says. BERT is large but where the heading says base; its
fine-tuning for SQuAD, and its copies behind Triton, read 384 tokens, as the README of each says. Jasper and QuartzNet are
timed on 2, 7 and 16.7 s of audio, a column of the READMEs that the file has not: five rows each, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
_SQUARE = re.compile(r"Resolution=(\d+)x\1(?:x1)?$")
_SQUAD_TOKENS = 384
_SECONDS, _BATCHES = (2.0, 7.0, 16.7), 5
"""Lengths of audio, and in how many batch sizes each was timed."""
_BASE_TABLES = {"TensorFlow2/LanguageModeling/BERT/README.md": (8, (858, 871, 916, 929, 975, 988, 1033, 1047))}
"""Tables below the heading `BERT-Base`: how many rows each has, and the lines of their first ones."""
_AUDIO_TABLES = {
    "PyTorch/SpeechRecognition/Jasper/README.md": (15, (706, 728, 750, 772, 794)),
    "PyTorch/SpeechRecognition/QuartzNet/README.md": (15, (631, 663)),
}
_FOLDERS = {"efficientnet-b0": "efficientnet", "efficientnet-b4": "efficientnet"}
"""Folders of variants that another folder has as well."""
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
            "concurrency": whole(row, "concurrency"),
            **_sizes(row, model),
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
    variant, task = text(row, "variant") or _variant(row, model), text(row, "task")
    folder = _FOLDERS.get(variant or "", model.replace("ConvNets/", ""))
    name = "/".join(part.replace(" ", "-").lower() for part in (folder, variant) if part)
    category = _TASKS.get((task or "").lower())
    return model_of(f"deep-learning-examples/{name}", category=category, task=None)


def _variant(row: Row, model: str) -> str | None:
    """Return the variant that a row says elsewhere than in its column."""
    section, other = text(row, "section") or "", text(row, "other") or ""
    if model == "BERT":
        return "base" if _in_tables(row, _BASE_TABLES) is not None else "large"
    if model == "Transformer-XL":
        return "large" if "Large model" in section else "base"
    if model == "nnUNet":
        return "2d" if "Dimension=2" in other else "3d"
    if model == "SSD" and text(row, "framework") == "TensorFlow":
        return "resnet50-fpn-320"
    if model == "ConvNets/efficientnet_v1":
        return "efficientnet-b4" if "380" in other else "efficientnet-b0"
    return None


def _sizes(row: Row, model: str) -> dict[str, Any]:
    """Return the sizes of the inputs."""
    sequence, square = whole(row, "sequence"), _SQUARE.search(text(row, "other") or "")
    triton = model.startswith("BERT/") and text(row, "serving") == "triton"
    if sequence is None and (triton or (model == "BERT" and "Fine-tuning" in (text(row, "section") or ""))):
        sequence = _SQUAD_TOKENS
    place = _in_tables(row, _AUDIO_TABLES)
    seconds = None if place is None else _SECONDS[place // _BATCHES]
    return {
        "sequence_length": sequence,
        "image_size": int(square.group(1)) if square else None,
        "audio_seconds": seconds,
    }


def _in_tables(row: Row, tables: Mapping[str, tuple[int, tuple[int, ...]]]) -> int | None:
    """Return which row of a table of these this is, None where it stands in none of them."""
    length, starts = tables.get(text(row, "source_file") or "", (0, ()))
    line = whole(row, "source_line") or 0
    return next((line - start for start in starts if start <= line < start + length), None)


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
