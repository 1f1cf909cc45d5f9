"""The earlier framework's web platform results, in four shapes.

**Result** (`<model>_<platform>_<date>/result.json`, web_platform_testing.py): `model_name`, `platform` (webnn, webgpu), `status`, `implementation_type`
(`REAL_WEBGPU` also where `is_simulation` is true), and `metrics` with `inference_time_ms`, `load_time_ms`, `memory_mb` and
`throughput_items_per_second`. **Comparison**: `results_by_modality.<modality>`, a list of models with `webnn` and `webgpu`, each `time_ms`, `memory_mb`, `success`,
`implementation`, `error`. **Sizes**: `<size>.<platform>.<modality>` with `model_name`, `initialization_type` and `performance` (`avg_inference_time_ms`, minimum,
maximum, deviation, `iterations`). **Loading**: `<kind>.with_parallel` and `without_parallel`, with `initialization_time_ms`, `first_inference_time_ms` and `performance`;
they do not name a platform but count shaders, so that they are webgpu. None says a batch size or the device. Averages over models are not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    error_of,
    flags_of,
    has_members,
    model_named,
    moment,
    platform_of,
    record_at,
    simulated_platforms,
)
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedWeb"]

NAME = "seed-web"


class SeedWeb:
    """Web platform results (JSON)."""

    name = NAME
    title = "earlier framework: result.json of web platforms, comparisons and loading tests"

    def sniff(self, file: File) -> bool:
        """Return whether the file is one of the four shapes."""
        return (
            has_members(file, "model_name", "platform", "browser_opened", "metrics")
            or has_members(file, "results_by_modality", "webnn", "webgpu")
            or has_members(file, "initialization_type", "model_modality", "performance")
            or has_members(file, "with_parallel", "without_parallel")
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and its rows; see Importer."""
        result = json_document(file)
        if not isinstance(result, dict):
            raise BadFile("is not an object of web results")
        document = Document(file, NAME, source="earlier framework, web platforms", time=moment(result.get("timestamp")))
        yield from document.events(_drafts(document, result))


def _drafts(document: Document, result: dict[str, Any]) -> Iterator[Draft | Refused]:
    row = 0
    for where, read, record in _records(result):
        row += 1
        try:
            draft = read(record)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=record_at(where, bad.field))
            continue
        draft.row = row
        draft.original["record"] = where
        if draft.execution["platform"] in simulated_platforms(result):
            draft.claims["flags"] = {**draft.claims.get("flags", {}), "simulated_hardware": "simulated"}
        yield draft


def _records(row: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield where each record stands, the function that reads it, and the record with what its place says of it."""
    if "metrics" in row and "platform" in row:
        yield "", _result, row
    for modality, models in _members(row.get("results_by_modality")):
        for index, model in enumerate(models if isinstance(models, list) else []):
            for word in ("webnn", "webgpu"):
                if isinstance(model, dict) and isinstance(model.get(word), dict):
                    where = record_at("results_by_modality", modality, f"[{index}]", word)
                    yield (
                        where,
                        _compared,
                        {**model[word], "model": model.get("model"), "platform": word, "modality": modality},
                    )
    for outer, inner in _members(row):
        for side in ("with_parallel", "without_parallel"):
            if isinstance(inner, dict) and isinstance(inner.get(side), dict):
                yield record_at(outer, side), _loaded, inner[side]
        for word, modalities in _members(inner):
            for modality, model in _members(modalities):
                if isinstance(model, dict) and "initialization_type" in model:
                    yield record_at(outer, word, modality), _sized, model


def _members(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _draft(record: Mapping[str, Any], name: Any, platform: str | None, modality: Any) -> Draft:
    if platform is None:
        raise BadRow("platform", "is not a platform")
    return Draft(
        model=model_named(name, modality=modality),
        workload={"mode": "inference", "scenario": "single_stream"},
        execution={"platform": platform},
        hardware=NOWHERE.hardware(platform),
        claims={"flags": flags_of(record)},
    )


def _failed(draft: Draft, said: str | None) -> Draft:
    draft.kind, draft.outcome, draft.metrics = "failure", "unsupported" if said else "error", {}
    draft.error, draft.message = error_of(said or "no reason is given")
    return draft


def _result(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("model_name"), platform_of(record.get("platform")), record.get("modality"))
    metrics = record.get("metrics")
    if not isinstance(metrics, dict) or text(record, "status") not in ("success", "completed"):
        return _failed(draft, text(record, "error") or text(record, "status"))
    latency, memory = number(metrics, "inference_time_ms"), number(metrics, "memory_mb", unit="mib")
    draft.metrics = {
        "latency_ms": {"mean": latency} if latency else None,
        "throughput_per_s": number(metrics, "throughput_items_per_second"),
        "load_ms": number(metrics, "load_time_ms", zero=True),
        "peak_memory_bytes": round(memory) if memory else None,
    }
    draft.original = {"memory_mb": metrics.get("memory_mb")}
    draft.claims["clock"] = [value for value in (latency, draft.metrics["load_ms"]) if value]
    return draft


def _compared(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("model"), platform_of(record["platform"]), record.get("modality"))
    if record.get("success") is not True:
        return _failed(draft, text(record, "error"))
    latency, memory = number(record, "time_ms"), number(record, "memory_mb", unit="mib")
    draft.metrics = {
        "latency_ms": {"mean": latency} if latency else None,
        "peak_memory_bytes": round(memory) if memory else None,
    }
    draft.original = {"memory_mb": record.get("memory_mb")}
    draft.claims["clock"] = [latency] if latency else []
    return draft


def _sized(record: dict[str, Any]) -> Draft:
    draft = _draft(record, record.get("model_name"), platform_of(record.get("platform")), record.get("model_modality"))
    if record.get("success") is not True:
        return _failed(draft, text(record, "error"))
    draft.metrics = {"latency_ms": _latency(record.get("performance"))}
    return draft


def _loaded(record: dict[str, Any]) -> Draft:
    said = text(record, "implementation_type") or ""
    draft = _draft(record, record.get("model_name"), "webnn" if "WEBNN" in said else "webgpu", None)
    draft.execution["options"] = {"parallel_loading": record.get("parallel_loading_enabled") is True}
    if record.get("success") is not True:
        return _failed(draft, text(record, "error"))
    draft.metrics = {
        "latency_ms": _latency(record.get("performance")),
        "load_ms": number(record, "initialization_time_ms", zero=True),
        "first_run_ms": number(record, "first_inference_time_ms", zero=True),
    }
    inside = record.get("performance_metrics")
    compiled = number(inside, "shader_compilation_ms") if isinstance(inside, dict) else None
    if compiled is not None:
        draft.metrics["compile_ms"] = compiled
        draft.claims["clock"] = [compiled]
    return draft


def _latency(performance: Any) -> dict[str, Any]:
    if not isinstance(performance, dict):
        raise BadRow("performance", "is missing")
    latency = {
        "mean": number(performance, "avg_inference_time_ms"),
        "min": number(performance, "min_inference_time_ms"),
        "max": number(performance, "max_inference_time_ms"),
        "stddev": number(performance, "std_dev_ms", zero=True),
        "n": whole(performance, "iterations"),
    }
    if latency["mean"] is None:
        raise BadRow("avg_inference_time_ms", "is missing")
    return latency
