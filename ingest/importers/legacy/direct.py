"""The earlier framework's direct benchmarks: one model on one platform, in three shapes.

**Direct** (`direct_benchmark_<model>_<platform>_<date>.json`, run_direct_benchmark.py): `batch_results.<batch>` with `avg_latency_ms`,
`throughput_items_per_second`, `memory_mb` (resident memory of the process, in 2^20 bytes), `latencies_ms` (no warm-up before them) and `device`, the one that
did the work. **Estimate** (`benchmark_<model>_<platform>_<date>.json`): `batch_sizes.<batch>` with `throughput`, `latency_ms` and `memory_usage_mb`, all whole
numbers. **List**: rows with `model_name`, `hardware_type`, `device_name`, `precision`, `average_latency_ms`, `throughput_items_per_second`, `memory_peak_mb` and
`metrics` of utilisation in per cent. None says the length of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, precision_of
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    error_of,
    flags_of,
    has_members,
    model_named,
    moment,
    platform_of,
    record_at,
)
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SOURCE", "SeedDirect", "direct_drafts"]

NAME = "seed-direct"
SOURCE = "earlier framework, direct benchmark"


class SeedDirect:
    """Direct benchmarks of one model (JSON)."""

    name = NAME
    title = "earlier framework: direct_benchmark_*.json and its other results of one model on one platform"

    def sniff(self, file: File) -> bool:
        """Return whether the file is one of the three shapes."""
        if has_members(file, "batch_results", "hardware") and not has_members(file, "benchmark_data"):
            return True
        if has_members(file, "batch_sizes", "hardware_key", "model_key"):
            return True
        listed = has_members(file, "model_name", "hardware_type", "average_latency_ms", "warmup_iterations")
        return listed and file.head().lstrip().startswith("[")

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and its rows; see Importer."""
        result = json_document(file)
        if isinstance(result, dict):
            document = Document(file, NAME, source=SOURCE, time=moment(result.get("timestamp")))
            shape = direct_drafts if "batch_results" in result else _estimates
            yield from document.events(shape(document, result, ""))
        elif isinstance(result, list):
            document = Document(file, NAME, source=SOURCE)
            yield from document.events(_listed(document, result))
        else:
            raise BadFile("is neither an object nor a list of results")


def direct_drafts(document: Document, outcome: Mapping[str, Any], place: str) -> Iterator[Draft | Refused]:
    """Yield the rows of one direct benchmark, which may stand inside another file at `place`."""
    batches = outcome.get("batch_results")
    for row, (size, result) in enumerate((batches if isinstance(batches, dict) else {}).items(), start=1):
        where = record_at(place, "batch_results", size)
        try:
            yield _direct(outcome, size, result, where, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=f"{where}/{bad.field}")


def _direct(document: Mapping[str, Any], size: str, result: Any, where: str, row: int) -> Draft:
    platform = platform_of(document.get("hardware"))
    if platform is None or not isinstance(result, dict):
        raise BadRow("hardware", "is not a platform with results")
    device = text(result, "device")
    actual = platform_of((device or "").split(":")[0]) or platform
    draft = Draft(
        model=model_named(document.get("model")),
        workload={
            "mode": "inference",
            "scenario": "single_stream",
            "batch_size": _batch(result.get("batch_size"), size),
        },
        execution={"platform": platform},
        hardware=NOWHERE.hardware(actual),
        observed={"device": device, "platform": actual, "requested": {"platform": platform}} if device else None,
        time=moment(result.get("timestamp")),
        row=row,
        original={"record": where, "memory_mb": result.get("memory_mb")},
        claims={"flags": flags_of(result)},
    )
    if result.get("success") is False:
        return _failed(draft, str(result.get("error") or "no reason is given"))
    taken = result.get("latencies_ms")
    samples = [_sample(value) for value in taken] if isinstance(taken, list) else []
    mean, rate = number(result, "avg_latency_ms"), number(result, "throughput_items_per_second")
    if mean is None and rate is None:
        raise BadRow("avg_latency_ms", "is missing")
    draft.metrics = {"latency_ms": _latency(mean, samples), "throughput_per_s": rate}
    if (memory := number(result, "memory_mb", unit="mib")) is not None:
        draft.metrics["peak_memory_bytes"] = round(memory)
    draft.claims |= {"samples_ms": samples, "clock": [value for value in (mean, rate) if value]}
    return draft


def _batch(said: Any, size: str) -> int:
    batch = whole({"batch_size": size if said is None else said}, "batch_size")
    if batch is None:
        raise BadRow("batch_size", "is missing")
    return batch


def _sample(value: Any) -> float:
    sample = number({"latencies_ms": value}, "latencies_ms")
    if sample is None:
        raise BadRow("latencies_ms", "is not a time")
    return sample


def _latency(mean: float | None, samples: list[float]) -> dict[str, Any] | None:
    if not samples:
        return {"mean": mean} if mean else None
    return {"mean": mean or sum(samples) / len(samples), "min": min(samples), "max": max(samples), "n": len(samples)}


def _failed(draft: Draft, said: str) -> Draft:
    draft.kind, draft.outcome = "failure", "out_of_memory" if "out of memory" in said.lower() else "error"
    draft.error, draft.message = error_of(said)
    return draft


def _estimates(document: Document, outcome: Mapping[str, Any], place: str) -> Iterator[Draft | Refused]:
    batches = outcome.get("batch_sizes")
    for row, (size, result) in enumerate((batches if isinstance(batches, dict) else {}).items(), start=1):
        where = record_at(place, "batch_sizes", size)
        try:
            yield _estimate(outcome, size, result, where, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=f"{where}/{bad.field}")


def _estimate(document: Mapping[str, Any], size: str, result: Any, where: str, row: int) -> Draft:
    platform = platform_of(document.get("hardware_key"))
    if platform is None or not isinstance(result, dict):
        raise BadRow("hardware_key", "is not a platform with results")
    draft = Draft(
        model=model_named(document.get("model_path") or document.get("model"), family=document.get("model_category")),
        workload={"mode": "inference", "scenario": "single_stream", "batch_size": _batch(None, size)},
        execution={"platform": platform},
        hardware=NOWHERE.hardware(platform),
        row=row,
        original={"record": where, "memory_usage_mb": result.get("memory_usage_mb")},
        claims={"flags": flags_of(result)},
    )
    if result.get("success") is False:
        return _failed(draft, str(result.get("error") or "no reason is given"))
    latency, rate = number(result, "latency_ms"), number(result, "throughput")
    memory = number(result, "memory_usage_mb", unit="mib")
    if latency is None and rate is None:
        raise BadRow("latency_ms", "is missing")
    draft.metrics = {"latency_ms": {"mean": latency} if latency else None, "throughput_per_s": rate}
    if memory is not None:
        draft.metrics["peak_memory_bytes"] = round(memory)
    draft.claims["clock"] = [value for value in (latency, rate) if value]
    return draft


def _listed(document: Document, values: list[Any]) -> Iterator[Draft | Refused]:
    for row, result in enumerate(values, start=1):
        try:
            yield _row(result, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=bad.field)


def _row(result: Any, row: int) -> Draft:
    if not isinstance(result, dict):
        raise BadRow("row", "is not an object")
    platform = platform_of(result.get("hardware_type"))
    if platform is None:
        raise BadRow("hardware_type", "is not a platform")
    device = text(result, "device_name")
    latency, rate = number(result, "average_latency_ms"), number(result, "throughput_items_per_second")
    if latency is None and rate is None:
        raise BadRow("average_latency_ms", "is missing")
    draft = Draft(
        model=model_named(result.get("model_name"), modality=result.get("modality")),
        workload={"mode": "inference", "scenario": "single_stream", "batch_size": whole(result, "batch_size")},
        execution={"platform": platform, "precision": precision_of(text(result, "precision"))},
        hardware=hardware_of(device, kind="cpu" if platform == "cpu" else "gpu")
        if device
        else NOWHERE.hardware(platform),
        metrics={
            "latency_ms": {"mean": latency, "n": whole(result, "iterations")} if latency else None,
            "throughput_per_s": rate,
        },
        row=row,
        original={"record": f"[{row - 1}]", "memory_peak_mb": result.get("memory_peak_mb")},
        key=text(result, "test_case"),
        claims={"flags": flags_of(result), "clock": [value for value in (latency, rate) if value]},
    )
    if (memory := number(result, "memory_peak_mb", unit="mib")) is not None:
        draft.metrics["peak_memory_bytes"] = round(memory)
    beside = result.get("metrics")
    busy = (
        number(beside, "cpu_util_percent" if platform == "cpu" else "gpu_util_percent")
        if isinstance(beside, dict)
        else None
    )
    if busy is not None:
        draft.metrics["utilisation"] = busy / 100
    return draft
