"""Qualcomm AI Hub Models: `perf.yaml` of each model of quic/ai-hub-models, and its figures flattened into a CSV.

New shape: `precisions` → precision → `components` → name → `performance_metrics` → device → runtime → one profile job:
`job_status`, `inference_time_milliseconds`, `estimated_peak_memory_range_mb` {min, max} (2^20 bytes, rounded),
`primary_compute_unit`, `layer_counts` {total, npu, gpu, cpu}, `tool_versions`; of language models `llm_metrics`, a list of
`context_length`, `tokens_per_second`, `time_to_first_token_range_milliseconds` {min, max}, or these members themselves.

Old shape (to 2025): `models` → a list of `name`, `performance_metrics` → a list of `reference_device_info` (name, os, chipset …),
`timestamp` and one member for each way, such as `torchscript_onnx_tflite`: `inference_time` in µs, `throughput`,
`estimated_peak_memory_range` in bytes, `layer_info` {layers_on_npu …, total_layers}, `precision`, `job_status`. `aggregated`
repeats the models and is not read. Words such as 'null' stand for what is missing.

CSV: `model, component, precision, device, runtime, status, latency_ms, mem_min_mb, mem_max_mb, unit, layers_total, layers_npu,
layers_gpu, layers_cpu, qairt, other`; `other` holds `llm_metrics` as JSON. Memory is in 2^20 bytes as in the YAML. A longer one has
`compute_unit, chipset, form_factor, tflite, onnx_runtime, context_length, ttft_min_ms, ttft_max_ms, tokens_per_s` instead of
`unit` and `other`. Parquet: the same with `release, release_date`, a row for each job of each release, whose day is the row's time.

A model is called `ai-hub/<model>` unless the catalogue knows its name, with `/<component>` behind it where that is another
word. The hardware is the device (a phone, a board) with all of its units, so its kind is `other`; which unit did most of the
work is the option `compute_unit` and decides the platform: `qnn` for the NPU, `cpu`, and for the GPU `qnn` or `other`
(TFLite's own). `fallback_share` is the share of layers that are not on the NPU. `float` is fp16 on the NPU, as the old
shape wrote it there, and fp32 on the CPU. The peak is the upper end of its range; ends of 0 are missing. Times to the
first token are of the shortest and the longest prompt: `ttft_ms` where both are one. Jobs that did not pass are failures.
Which statistic the time is AI Hub does not say; it is taken as the mean.

A job profiles one call of the model's input specification, whose batch is 1 (`get_input_spec` of the package qai_hub_models).
The size of that input stands in `ai_hub_inputs.json`, by model, where its manifest states one (`Input resolution`, release
0.65): pixels of a square image, or tokens. Models of several components have none there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from domain.catalogues import models
from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of, precision_of
from ingest.importers.reading import csv_text, number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, hardware_named, header_of, in_bytes
from ingest.importers.tables.parquet_rows import is_parquet, parquet_columns, parquet_rows
from ingest.importers.vendor.ai_hub_yaml import MIB, Job, jobs_of

__all__ = ["AiHub"]

_COLUMNS = {"model", "component", "precision", "device", "runtime", "latency_ms", "layers_npu"}
_UNITS = ("unit", "compute_unit")
_RUNTIMES = {
    "tflite": ("tflite", "tflite"),
    "torchscript_onnx_tflite": ("tflite", "tflite"),
    "onnx": ("onnxruntime", "onnx_runtime"),
    "torchscript_onnx": ("onnxruntime", "onnx_runtime"),
    "precompiled_qnn_onnx": ("onnxruntime", "onnx_runtime"),
    "qnn": ("qairt", "qairt"),
    "qnn_dlc": ("qairt", "qairt"),
    "qnn_context_binary": ("qairt", "qairt"),
    "torchscript_onnx_qnn": ("qairt", "qairt"),
    "genie": ("genie", "genie"),
}
"""Ways of running, as our runtime and the tool whose version is its."""
_ON = {"npu": "qnn", "cpu": "cpu"}
_PASSED = ("passed", "success", "succeeded")
_FAILED_MEMORY = ("out of memory", "out_of_memory", "oom")


class AiHub:
    """AI Hub Models' perf.yaml and its flattened CSV."""

    name = "ai-hub"
    title = "Qualcomm AI Hub Models perf.yaml, or flattened as CSV or Parquet"

    def sniff(self, file: File) -> bool:
        """Return whether header or members are AI Hub's."""
        if file.suffix == ".csv":
            return _known(header_of(file))
        if file.suffix == ".parquet":
            return is_parquet(file) and _known(parquet_columns(file))
        if file.suffix not in (".yaml", ".yml"):
            return False
        head = file.head()
        return "performance_metrics:" in head and any(
            f"\n{member}" in f"\n{head}" for member in ("precisions:", "models:", "aggregated:")
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and failures, and the end of the run; see Importer."""
        document = Document(file, self.name, source="AI Hub Models performance", licence="BSD-3-Clause")
        if file.suffix == ".csv":
            return document.events(csv_drafts(file, document, _of_row))
        if file.suffix == ".parquet":
            return document.events(_of_parquet(file, document))
        return document.events(_of_yaml(file, document))


def _drafts(job: Job) -> Iterator[Draft]:
    unit = (job.unit or "").lower() or None
    runtime, tool = _RUNTIMES.get(job.runtime, (job.runtime, job.runtime))
    on_qnn = runtime in ("qairt", "genie") or "qnn" in job.runtime
    platform = _ON.get(unit or "", "qnn" if on_qnn else "other")
    precision = _precision(job.precision, unit)
    original = {
        **job.original,
        **({"precision": job.precision} if job.precision and job.precision != precision else {}),
    }
    options = {"artifact": job.runtime if job.runtime != runtime else None, "compute_unit": unit}
    low, high = job.memory
    draft = Draft(
        row=job.row,
        model=_model(job.model, job.component),
        workload={"mode": "inference", "scenario": "single_stream", "batch_size": 1, **_inputs().get(job.model, {})},
        execution={
            "platform": platform,
            "runtime": {"name": runtime, "version": job.tools.get(tool)},
            "precision": precision,
            "options": options,
        },
        hardware=hardware_named(job.device, "other"),
        observed={
            "device": job.unit,
            "platform": platform if unit else None,
            "fallback_share": _fallback(job.layers),
            "details": {"layers": dict(job.layers)},
        },
        metrics={
            "latency_ms": {"mean": job.latency_ms},
            "throughput_per_s": job.throughput_per_s,
            "peak_memory_bytes": high,
        },
        environment=_environment(tuple(job.tools.items()), tuple(job.about.items())),
        time=job.time,
        original=original | ({"peak memory, least (B)": low} if low else {}),
    )
    failed = job.status is not None and job.status.lower() not in _PASSED
    if failed:
        said = job.status or ""
        draft.kind, draft.metrics = "failure", {}
        draft.outcome = "skipped" if said.lower() == "skipped" else "failed"
        if any(word in said.lower() for word in _FAILED_MEMORY):
            draft.outcome = "out_of_memory"
        draft.error, draft.message = "ProfileJobFailed", f"the profile job ended as {said!r}"
        yield draft
    elif job.llm:
        yield from (_of_llm(draft, entry) for entry in job.llm)
    elif job.latency_ms is None and not high:
        raise BadRow("inference_time", "neither time nor memory is given, and no status says why")
    else:
        yield draft


@cache
def _inputs() -> dict[str, dict[str, int]]:
    """Return the sizes of the inputs of models."""
    return dict(msgspec.json.decode(files(__package__).joinpath("ai_hub_inputs.json").read_bytes()))


@lru_cache(maxsize=4096)
def _environment(tools: tuple[tuple[str, str], ...], about: tuple[tuple[str, str], ...]) -> dict[str, Any] | None:
    return environment(dict(tools), **dict(about))


def _of_llm(draft: Draft, entry: Mapping[str, Any]) -> Draft:
    """Return the measurement of a language model at one context length."""
    first = entry.get("time_to_first_token_range_milliseconds")
    in_ms = isinstance(first, Mapping)
    within = first if in_ms else entry.get("time_to_first_token_range")
    ends: dict[str, float] = {}
    if isinstance(within, Mapping):
        numbers = {end: number(within, end, unit="ms" if in_ms else "us") for end in ("min", "max")}
        ends = {end: value for end, value in numbers.items() if value is not None}
    item = ends["min"] if len(set(ends.values())) == 1 and len(ends) == 2 else None
    options = {**draft.execution["options"], "context_length": whole(entry, "context_length")}
    return Draft(
        row=draft.row,
        model=draft.model,
        workload=draft.workload,
        execution={**draft.execution, "options": options},
        hardware=draft.hardware,
        observed=draft.observed,
        metrics={"tokens_per_s": number(entry, "tokens_per_second"), "ttft_ms": item},
        environment=draft.environment,
        time=draft.time,
        original=draft.original | {f"time to first token, {end} (ms)": value for end, value in ends.items()},
    )


def _known(columns: Sequence[str]) -> bool:
    return set(columns) >= _COLUMNS and any(unit in columns for unit in _UNITS)


def _of_parquet(file: File, document: Document) -> Iterator[Draft | Refused]:
    for number_of_row, row in parquet_rows(file):
        try:
            yield from _of_row(number_of_row, row)
        except BadRow as bad:
            content = csv_text([list(row), ["" if value is None else value for value in row.values()]])
            yield document.refused(bad.reason, row=number_of_row, field=bad.field, content=content)


def _of_row(line: int, row: Mapping[str, Any]) -> Iterator[Draft]:
    needed = {column: text(row, column) for column in ("model", "device", "runtime")}
    for column, value in needed.items():
        if value is None:
            raise BadRow(column, "is missing")
    name, device, runtime = (str(value) for value in needed.values())
    tools = {name: said for name in ("qairt", "tflite", "onnx_runtime") if (said := text(row, name)) is not None}
    about: dict[str, Any] = {
        name: said for name in ("chipset", "form_factor", "release") if (said := text(row, name)) is not None
    }
    date = text(row, "release_date")
    mem = {end: number(row, f"mem_{end}_mb") for end in ("min", "max")}
    yield from _drafts(
        Job(
            row=line,
            model=name,
            component=text(row, "component") or name,
            precision=text(row, "precision"),
            device=device,
            runtime=runtime,
            status=text(row, "status"),
            latency_ms=number(row, "latency_ms"),
            memory=(in_bytes(row, "mem_min_mb", MIB), in_bytes(row, "mem_max_mb", MIB)),
            unit=text(row, "unit") or text(row, "compute_unit"),
            layers={unit: whole(row, f"layers_{unit}") for unit in ("total", "npu", "gpu", "cpu")},
            tools=tools,
            llm=_llm_of(row.get("other")) or _llm_of_columns(row),
            time=f"{date}T00:00:00+00:00" if date else None,
            original=about | {f"mem_{end}_mb (MiB)": value for end, value in mem.items() if value is not None},
        )
    )


def _llm_of(other: str | None) -> tuple[Mapping[str, Any], ...]:
    if not other:
        return ()
    try:
        said = json.loads(other)
    except (ValueError, RecursionError):
        raise BadRow("other", "is not JSON") from None
    llm_metrics = said.get("llm_metrics") if isinstance(said, dict) else None
    return tuple(entry for entry in llm_metrics if isinstance(entry, dict)) if isinstance(llm_metrics, list) else ()


def _llm_of_columns(row: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return what the columns say of a language model, in the shape of `llm_metrics`."""
    if number(row, "tokens_per_s") is None:
        return ()
    ends = {"min": row.get("ttft_min_ms"), "max": row.get("ttft_max_ms")}
    return (
        {
            "context_length": whole(row, "context_length"),
            "tokens_per_second": row.get("tokens_per_s"),
            "time_to_first_token_range_milliseconds": ends,
        },
    )


def _of_yaml(file: File, document: Document) -> Iterator[Draft | Refused]:
    for row, (alone, job) in enumerate(jobs_of(file), start=1):
        try:
            if isinstance(job, BadRow):
                raise job
            yield from _drafts(job._replace(row=row))
        except BadRow as bad:
            content = yaml.safe_dump(alone, allow_unicode=True, sort_keys=False)
            yield document.refused(bad.reason, row=row, field=bad.field, content=content)


def _fallback(layers: Mapping[str, int | None]) -> float | None:
    """Return the share of the layers that are not on the NPU; None where nobody counted them."""
    total = layers.get("total")
    if not total:
        return None
    return min(max(1 - (layers.get("npu") or 0) / total, 0.0), 1.0)


def _precision(said: str | None, unit: str | None) -> str | None:
    if said is not None and said.lower() == "float" and unit != "cpu":
        return "fp16" if unit == "npu" else "float"
    return precision_of(said)


@lru_cache(maxsize=4096)
def _model(model: str, component: str) -> dict[str, Any]:
    """Return the model: the catalogue's where the whole of it is known there, else AI Hub's own name."""
    whole_model = _plain(model) == _plain(component)
    existing = models.find(model) or models.find(model.replace("_", "-"))
    if existing is not None and whole_model:
        return model_of(existing.id)
    return model_of(f"ai-hub/{model}" if whole_model else f"ai-hub/{model}/{component}")


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
