"""Summaries of NVIDIA AIPerf (ai-dynamo/aiperf, 0.1 to 0.13) and of GenAI-Perf before it: `profile_export_*.json`.

One object a run of load against a server: a metric a member, `{"unit": "ms", "avg", "min", "max", "std", "p1" … "p99",
"count"}` with only `unit` and `avg` where it is one figure, beside `input_config`, `start_time`, `end_time`,
`aiperf_version`, `error_summary`, `telemetry_data` (GPUs by endpoint, with metrics of the same shape). The unit in the
file decides. GenAI-Perf's early files write numbers as text, times in ns, and `num_input_token` for
`input_sequence_length`. Where a config names model and load differs: `endpoint.model_names` and `loadgen` (AIPerf to
0.7), `models.items` and `phases` (later), `model` and `concurrency`, later `model_names` and `perf_analyzer.stimulus`
(GenAI-Perf).

`latency_ms` is a request's, `ttft_ms` and `tpot_ms` (inter_token_latency: the rest of the request over the rest of its
tokens) are medians where there are any, else averages. Input and output tokens are the averages of what was sent and
came back, rounded. Hardware is that of the telemetry, the GPUs that were busy; without telemetry it is `unknown`,
because the client sees a server only. A run of several models at once is refused: its figures are no configuration's.

Not taken: raw records (`profile_export.jsonl`, `inputs.json`), the aggregates of several runs, time slices, warm-up,
energy of the whole run, host names and addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of, runtime_of
from ingest.importers.members import (
    UNKNOWN,
    as_said,
    count,
    first_word,
    gpus_of,
    items,
    latency_of,
    members,
    model_name,
    moment,
    quantity,
    within,
    word,
)
from ingest.importers.reading import UNITS, BadFile, json_document
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Aiperf"]

_METRIC = re.compile(r'"request_(?:throughput|latency|count)"\s*:\s*\{\s*"(?:unit|avg)"')
_MODELS = ("endpoint.model_names", "model_names", "model", "models.model_names", "models.modelNames")
_LOADS = ("", "loadgen.", "perf_analyzer.stimulus.", "input.")
_STATISTICS = {name: name for name in ("min", "max", "p50", "p90", "p95", "p99")} | {"mean": "avg", "stddev": "std"}
_POWER = ("nvidia_power_usage", "amd_power_usage", "gpu_power_usage", "power_usage")
_BUSY = ("nvidia_gpu_utilization", "amd_gpu_utilization", "gpu_utilization")
_MEMORY = ("nvidia_gpu_memory_used", "amd_gpu_memory_used", "gpu_memory_used")
_KEPT = ("time_to_first_token", "inter_token_latency", "time_to_second_token", "output_token_throughput_per_user")
_ENGINES = ("vllm", "tensorrtllm", "sglang", "trtllm")


class Aiperf:
    """Summaries of AIPerf and GenAI-Perf (JSON)."""

    name = "aiperf"
    title = "NVIDIA AIPerf and GenAI-Perf profile_export_*.json"

    def sniff(self, file: File) -> bool:
        """Return whether it has a request's metrics beside a config or a version of AIPerf."""
        if file.suffix != ".json":
            return False
        head = file.head()
        ours = '"input_config"' in head or '"aiperf_version"' in head or "profile_export" in file.base
        return ours and _METRIC.search(head) is not None and '"timeslices"' not in head

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its one measurement and the end of the run; see Importer."""
        result = json_document(file)
        if not isinstance(result, dict):
            raise BadFile("is not an object")
        version = word(result, "aiperf_version")
        document = Document(file, self.name, source=f"AIPerf {version}" if version else "AIPerf or GenAI-Perf")
        yield from document.events(_rows(document, result))


def _rows(document: Document, row: dict[str, Any]) -> Iterator[Draft | Refused]:
    try:
        yield _draft(row)
    except BadRow as bad:
        yield document.refused(bad.reason, row=1, field=bad.field, content=json.dumps(row))


def _draft(row: dict[str, Any]) -> Draft:
    gpus = _gpus(row)
    hardware = gpus_of(word(gpu, "gpu_name") or "" for gpu in gpus) if gpus else UNKNOWN
    config = members(row, "input_config")
    failed = _average(row, "error_request_count")
    original: dict[str, Any] = {
        f"{name}.{part} ({_unit(row, name)})": as_said(said)
        for name in _KEPT
        for part, said in members(row, name).items()
        if part in ("avg", "p50", "p90", "p95", "p99") and said is not None
    }
    original |= {"error_request_count": failed} if failed else {}
    original |= {"was_cancelled": True} if row.get("was_cancelled") is True else {}
    draft = Draft(
        model=model_of(model_name(_model(config)), category=_category(row)),
        workload=_workload(row, config),
        execution={
            "platform": _platform(gpus),
            "runtime": _runtime(config),
            "options": {"streaming": True} if within(config, "endpoint.streaming") or config.get("streaming") else None,
        },
        hardware=hardware,
        environment=environment({"aiperf": version} if (version := word(row, "aiperf_version")) else None),
        time=moment(row.get("start_time"), "start_time"),
        row=1,
        original=original,
    )
    latency, changed = _latency(row)
    if not latency and failed:
        draft.kind, draft.outcome, draft.error = "failure", "error", "no-request-completed"
        draft.message = _message(row)
        return draft
    draft.metrics = _metrics(row, latency, gpus)
    draft.original |= changed
    if all(value is None for value in draft.metrics.values()):
        raise BadRow("request_latency", "is missing, and so is every other metric that Assay has")
    return draft


def _model(config: dict[str, Any]) -> str:
    named: list[str] = []
    for path in _MODELS:
        said = within(config, path)
        named += [
            item for item in (said if isinstance(said, list) else [said]) if isinstance(item, str) and item.strip()
        ]
    listed = items(config, "models.items") if isinstance(config.get("models"), dict) else []
    named += [name for item in listed if (name := word(item, "name"))]
    different = list(dict.fromkeys(named))
    if not different:
        raise BadRow("input_config", "names no model")
    if len(different) > 1:
        raise BadRow(
            "input_config", f"names {len(different)} models: figures of several at once are of no configuration"
        )
    return different[0]


def _category(row: dict[str, Any]) -> str | None:
    return "text_generation" if "output_token_throughput" in row else None


def _unit(row: dict[str, Any], name: str) -> str:
    return (word(row, f"{name}.unit") or "").lower()


def _average(row: dict[str, Any], *names: str, part: str = "avg") -> float | None:
    return next((value for name in names if (value := quantity(row, f"{name}.{part}")) is not None), None)


def _time_unit(row: dict[str, Any], name: str) -> str:
    unit = _unit(row, name) or "ms"
    if UNITS.get(unit, ("", 0))[0] != "ms":
        raise BadRow(f"{name}.unit", f"is {unit!r}, which is no unit of time")
    return unit


def _typical(row: dict[str, Any], name: str) -> float | None:
    """Return the median of a metric of time in ms, or its average."""
    if name not in row:
        return None
    unit = _time_unit(row, name)
    median = quantity(row, f"{name}.p50", unit=unit)
    return quantity(row, f"{name}.avg", unit=unit) if median is None else median


def _latency(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    said = members(row, "request_latency")
    if not said:
        return {}, {}
    requests = count(said, "count") or count(row, "request_count.avg")
    return latency_of(said, _STATISTICS, unit=_time_unit(row, "request_latency"), n=requests, where="request_latency.")


def _load(row: dict[str, Any], config: dict[str, Any]) -> tuple[int | None, float | None]:
    """Return concurrency and requests a second as they were asked for."""
    phases = (
        [item for item in items(config, "phases") if isinstance(item, dict)]
        if isinstance(config.get("phases"), list)
        else []
    )
    profiling = [phase for phase in phases if "profiling" in (phase.get("kind"), phase.get("name"))] or phases[:1]
    loads = [*profiling[:1], *(members(config, path.rstrip(".")) if path else config for path in _LOADS)]
    flat = [load for load in loads if isinstance(load, dict)]
    concurrency = next(
        (size for load in flat if isinstance(load.get("concurrency"), int) and (size := count(load, "concurrency"))),
        None,
    )
    rates = [
        rate
        for load in flat
        for name in ("request_rate", "rate")
        if isinstance(load.get(name), int | float) and (rate := quantity(load, name))
    ]
    values = within(row, "run_info.variation_values")
    for path, value in values.items() if isinstance(values, dict) else ():
        if path.endswith("concurrency") and isinstance(value, int) and not isinstance(value, bool):
            concurrency = value
    return concurrency, rates[0] if rates else None


def _workload(row: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    concurrency, rate = _load(row, config)
    sent = _average(row, "input_sequence_length", "num_input_token")
    made = _average(row, "output_sequence_length", "num_output_token")
    return {
        "mode": "inference",
        "scenario": "serving",
        "input_tokens": max(1, round(sent)) if sent else None,
        "output_tokens": max(1, round(made)) if made else None,
        "concurrency": concurrency,
        "arrival_rate_per_s": rate,
    }


def _metrics(row: dict[str, Any], latency: dict[str, Any], gpus: list[dict[str, Any]]) -> dict[str, Any]:
    power = [watts for gpu in gpus if (watts := _average(members(gpu, "metrics"), *_POWER)) is not None]
    busy = [share for gpu in gpus if (share := _average(members(gpu, "metrics"), *_BUSY)) is not None]
    goodput = [members(row, name) for name in ("goodput", "request_goodput") if name in row]
    return {
        "latency_ms": latency or None,
        "throughput_per_s": _average(row, "request_throughput"),
        "tokens_per_s": _average(row, "output_token_throughput"),
        "ttft_ms": _typical(row, "time_to_first_token"),
        "tpot_ms": _typical(row, "inter_token_latency"),
        "goodput_per_s": quantity(goodput[0], "avg", zero=True) if goodput else None,
        "power_w": sum(power) if power else None,
        "utilisation": sum(busy) / len(busy) / 100 if busy else None,
        "device_memory_bytes": _device_memory(gpus),
    }


def _device_memory(gpus: list[dict[str, Any]]) -> int | None:
    sizes = []
    for gpu in gpus:
        metrics = members(gpu, "metrics")
        name = next((name for name in _MEMORY if name in metrics), None)
        unit = _unit(metrics, name) if name else ""
        if name and unit in UNITS and UNITS[unit][0] == "B":
            sizes.append(quantity(metrics, f"{name}.max", unit=unit))
    matching_sizes = [size for size in sizes if size is not None]
    return round(sum(matching_sizes)) if matching_sizes and len(matching_sizes) == len(gpus) else None


def _gpus(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs of the telemetry that were busy; all of them where it does not say."""
    endpoints = members(row, "telemetry_data.endpoints") if isinstance(row.get("telemetry_data"), dict) else {}
    every = [
        gpu for endpoint in endpoints.values() for gpu in members(endpoint, "gpus").values() if isinstance(gpu, dict)
    ]
    existing = [(gpu, _average(members(gpu, "metrics"), *_BUSY)) for gpu in every]
    return [gpu for gpu, share in existing if share] or every


def _platform(gpus: list[dict[str, Any]]) -> str:
    names = " ".join(f"{word(gpu, 'platform') or ''} {word(gpu, 'gpu_name') or ''}" for gpu in gpus).lower()
    return "rocm" if "amd" in names or "instinct" in names else "cuda" if gpus else "other"


def _runtime(config: dict[str, Any]) -> dict[str, Any] | None:
    said = (first_word(config, ("backend", "endpoint.backend")) or "").lower().replace("-", "").replace("_", "")
    engine = next((name for name in _ENGINES if name in said), None)
    return runtime_of({"tensorrtllm": "tensorrt-llm", "trtllm": "tensorrt-llm"}.get(engine or "", engine))


def _message(row: dict[str, Any]) -> str:
    """Return the first error that requests ended with."""
    summary = row.get("error_summary")
    first = summary[0] if isinstance(summary, list) and summary else {}
    details = [word(first, f"error_details.{part}") for part in ("type", "message")]
    return ": ".join(part for part in details if part) or "no request completed"
