"""sgl-project/sgl-cookbook: what its pages measured of language models, and of image and video models (Apache-2.0).

Language models: `model, gpu, machine_gpus, sglang_version, tensor_parallel, data_parallel, expert_parallel, quantization …`
with the dataset, lengths, concurrency, rates and the percentiles of TTFT, TPOT and end to end. `max_concurrency` is the most
requests under way. Diffusion: latencies in s and the peak memory in MB of `task` t2i or t2v.

The model's own precision is not said unless `quantization` names one, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from domain.catalogues import hardware
from ingest.importers.draft import Draft
from ingest.importers.identity import precision_of
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named, in_bytes, model_named

__all__ = ["SGLANG_COOKBOOK", "SGLANG_DIFFUSION"]

_PLATFORMS = {"MI300X": "rocm", "MI325X": "rocm", "MI350X": "rocm", "MI355X": "rocm"}
_OPTIONS = ("kv_cache_dtype", "attention_backend", "moe_backend", "speculative", "dataset", "cache_dit", "task")


def _execution(row: Row, gpu: str) -> dict[str, Any]:
    options = {name: said for name in _OPTIONS if (said := text(row, name)) is not None}
    dimensions = {name: whole(row, f"{name}_parallel") for name in ("tensor", "data", "expert")}
    return {
        "platform": _PLATFORMS.get(gpu, "cuda"),
        "runtime": {"name": "sglang", "version": text(row, "sglang_version")},
        "precision": precision_of(text(row, "quantization")),
        "parallelism": {name: count for name, count in dimensions.items() if count} or None,
        "options": options or None,
    }


def _hardware(row: Row, gpu: str) -> dict[str, Any]:
    return hardware_named(gpu if hardware.find(gpu) else f"NVIDIA {gpu}", "gpu", _count(row))


def _count(row: Row) -> int:
    """Return how many GPUs worked: what the parallelism says, else those of the machine."""
    tensor, data = whole(row, "tensor_parallel"), whole(row, "data_parallel")
    return (tensor or 1) * (data or 1) if tensor or data else whole(row, "machine_gpus") or 1


def _serving(line: int, row: Row) -> Iterator[Draft]:
    model, gpu = needed(row, "model", "gpu")
    latency = {name: number(row, f"e2e_{name}_ms") for name in ("mean", "p50", "p90", "p99")}
    ttft = number(row, "ttft_p50_ms") or number(row, "ttft_mean_ms")
    tpot = number(row, "tpot_p50_ms") or number(row, "tpot_mean_ms")
    rate = number(row, "output_tok_per_s")
    if not any((*latency.values(), ttft, tpot, rate)):
        raise BadRow("e2e_p50_ms", "no time and no rate is given")
    arrival = text(row, "request_rate")
    requests = whole(row, "num_requests")
    yield Draft(
        row=line,
        model=model_named(model),
        workload={
            "mode": "inference",
            "scenario": "serving",
            "input_tokens": whole(row, "input_len"),
            "output_tokens": whole(row, "output_len"),
            "images": whole(row, "images"),
            "concurrency": whole(row, "max_concurrency"),
            "arrival_rate_per_s": None if arrival in (None, "inf") else number(row, "request_rate"),
        },
        execution=_execution(row, gpu),
        hardware=_hardware(row, gpu),
        metrics={
            "latency_ms": {**latency, "n": requests} if any(latency.values()) else None,
            "throughput_per_s": number(row, "request_per_s"),
            "tokens_per_s": rate,
            "ttft_ms": ttft,
            "tpot_ms": tpot,
        },
        original={name: said for name in ("hardware_text", "source") if (said := text(row, name)) is not None},
    )


def _diffusion(line: int, row: Row) -> Iterator[Draft]:
    model, gpu = needed(row, "model", "gpu")
    latency = {
        name: None if (value := number(row, f"latency_{name}_s")) is None else value * 1000
        for name in ("mean", "p50", "p99")
    }
    if not any(latency.values()):
        raise BadRow("latency_p50_s", "no time is given")
    yield Draft(
        row=line,
        model=model_named(model),
        workload={"mode": "inference", "scenario": "serving", "concurrency": whole(row, "max_concurrency")},
        execution=_execution(row, gpu),
        hardware=_hardware(row, gpu),
        metrics={
            "latency_ms": {**latency, "n": whole(row, "num_requests")},
            "throughput_per_s": number(row, "request_per_s"),
            "peak_memory_bytes": in_bytes(row, "peak_memory_max_mb", 1e6),
        },
        original={name: said for name in ("hardware_text", "source") if (said := text(row, name)) is not None},
    )


SGLANG_COOKBOOK = PublishedTable(
    "sglang-cookbook",
    "SGLang cookbook, language models (sgl-project), as CSV",
    columns={"gpu", "sglang_version", "max_concurrency", "output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms"},
    drafts=_serving,
    licence="Apache-2.0",
    reference="sgl-project/sgl-cookbook",
)
SGLANG_DIFFUSION = PublishedTable(
    "sglang-diffusion",
    "SGLang cookbook, image and video models (sgl-project), as CSV",
    columns={"gpu", "sglang_version", "cache_dit", "latency_mean_s", "peak_memory_max_mb"},
    drafts=_diffusion,
    licence="Apache-2.0",
    reference="sgl-project/sgl-cookbook",
)
