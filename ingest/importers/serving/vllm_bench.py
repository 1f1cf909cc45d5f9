"""Results of `vllm bench serve|latency|throughput` (vllm-project/vllm, 0.6 to 0.11, before that benchmarks/*.py).

serve: one object `{"date": "20261122-065959", "endpoint_type"|"backend", "model_id", "num_prompts", "request_rate": 4.0
or "inf", "burstiness", "max_concurrency", "duration" (s), "completed", "failed", "total_input_tokens",
"total_output_tokens", "request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
"mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms", the same of tpot, itl and e2el …}`; with --append-result
one a line; `--metadata KEY=VALUE` adds members, of which those that name the device, the engine, its parallelism and
precision are read. latency: `{"avg_latency" (s), "std_latency", "latencies", "percentiles": {"10": …}}`. throughput:
`{"elapsed_time" (s), "num_requests", "total_num_tokens", "requests_per_second", "tokens_per_second"}`.

The last two name no model. What ran is in `<name>.pytorch.json` beside the file (vLLM writes it with
SAVE_TO_PYTORCH_BENCHMARK_FORMAT; it holds the arguments) or `<name>.commands` (vLLM's own nightly: the command line and
`gpu_type`); otherwise the model is `benchmark/<name of the file>`, to be mapped by `assay model alias`; `_tp4` in the
name means four devices. A `.pytorch.json` is read by itself where the file that it belongs to is not there.

`ttft_ms` and `tpot_ms` are medians where there are any, else means; `latency_ms` is e2el (client's end to end). Input
and output tokens are means per completed request, rounded. `tokens_per_second` counts input tokens too and stays in
`original`. The date has no offset and is read as UTC. Without a word on the device it is `unknown`, and the platform
`other`; the runtime is vLLM where backend or command say so, because the client drives other servers as well. Not
taken: per-request lists, generated texts, inter-token latencies (kept in `original`), errors' texts, speculative
decoding.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, model_of, precision_of, runtime_of
from ingest.importers.members import (
    UNKNOWN,
    UNKNOWN_CPU,
    UNKNOWN_GPU,
    as_said,
    beside,
    count,
    first_word,
    items,
    latency_of,
    members,
    model_name,
    moment,
    quantity,
    series,
    within,
    word,
)
from ingest.importers.reading import BadFile, json_document, json_lines
from ingest.importers.refusals import BadRow, Refused

__all__ = ["VllmBench"]

_SERVE = ("request_throughput", "num_prompts", "model_id")
_LATENCY = ("avg_latency", "latencies", "percentiles")
_THROUGHPUT = ("elapsed_time", "num_requests", "requests_per_second")
_PYTORCH = ".pytorch.json"
_E2E = {
    "mean": "mean_e2el_ms",
    "stddev": "std_e2el_ms",
    "p50": "median_e2el_ms",
    "p90": "p90_e2el_ms",
    "p95": "p95_e2el_ms",
    "p99": "p99_e2el_ms",
}
_DEVICES = ("gpu_type", "gpu", "gpu_name", "accelerator", "hardware", "device_name")
_COUNTED = re.compile(r"(?P<count>\d{1,5})\s*[xX×]\s*(?P<name>\S.*)")
_PARALLEL = {
    "tensor": ("tensor_parallel_size", "tp", "tp_size"),
    "pipeline": ("pipeline_parallel_size", "pp", "pp_size"),
    "data": ("data_parallel_size", "dp", "dp_size"),
}
_TP = re.compile(r"[_-]tp(\d{1,3})(?=[_.-]|$)", re.IGNORECASE)
_ENGINES = ("vllm", "sglang", "tensorrt-llm", "tgi", "lmdeploy", "deepspeed-mii", "llama.cpp", "scalellm")
_KEPT = re.compile(
    r"(?:mean|median|std|p[\d.]+)_(?:ttft|tpot|itl)_ms|total_(?:input|output)_tokens|total_token_throughput|failed|num_prompts|max_concurrent_requests"
)


class VllmBench:
    """Results of vLLM's benchmarks (JSON)."""

    name = "vllm-bench"
    title = "vLLM vllm bench serve, latency and throughput (JSON)"

    def sniff(self, file: File) -> bool:
        """Return whether it has the members of one of the three, or is their records in PyTorch's format."""
        if file.suffix not in (".json", ".jsonl"):
            return False
        head = file.head().lstrip()
        if file.base.endswith(_PYTORCH):
            return '"vLLM benchmark"' in head and beside(file, file.base.removesuffix(_PYTORCH) + ".json") is None
        return head.startswith("{") and any(
            all(f'"{name}"' in head for name in names) for names in (_SERVE, _LATENCY, _THROUGHPUT)
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        results = _results(file)
        first = list(itertools.islice(results, 1))  # what is no such file at all makes no run
        document = Document(file, self.name, source="vllm bench")
        yield from document.events(_rows(document, itertools.chain(first, results)))


class _Said(NamedTuple):
    """A result with what is known of how it was run: `arguments` are arguments and metadata, `name` stands for the model."""

    result: dict[str, Any]
    arguments: dict[str, Any]
    name: str


def _rows(document: Document, results: Iterable[tuple[int, _Said | Refused]]) -> Iterator[Draft | Refused]:
    for at, said in results:
        if isinstance(said, Refused):
            yield said
            continue
        try:
            yield _draft(said, at)
        except BadRow as bad:
            content = json.dumps({**said.arguments, **said.result})
            yield document.refused(bad.reason, row=at, field=bad.field, content=content)


def _results(file: File) -> Iterator[tuple[int, _Said | Refused]]:
    """Yield the results of a file: one, one a line, or those of PyTorch's records."""
    name = file.base.removesuffix(file.suffix).removesuffix(".pytorch")
    if file.base.endswith(_PYTORCH):
        told_beside, result = _of_records(json_document(file))
        yield 1, _Said(result, told_beside, name)
        return
    told_beside = _told_beside(file, name)
    try:
        document = json_document(file)
    except BadFile as error:
        if error.row is None:
            raise
        yield from _lines(file, told_beside, name)
        return
    if not isinstance(document, dict):
        raise BadFile("is not an object")
    yield 1, _Said(document, told_beside, name)


def _lines(file: File, document: dict[str, Any], name: str) -> Iterator[tuple[int, _Said | Refused]]:
    for line, result in json_lines(file):
        if isinstance(result, BadFile):
            yield line, Refused(path=file.name, row=line, reason=result.reason)
        elif not isinstance(result, dict):
            yield line, Refused(path=file.name, row=line, reason="is not an object")
        else:
            yield line, _Said(result, document, name)


def _of_records(outcome: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments and result of PyTorch's records: one a metric, with what has no record of its own beside it."""
    document: dict[str, Any] = {}
    result: dict[str, Any] = {}
    for record in outcome if isinstance(outcome, list) else []:
        values = within(record, "metric.benchmark_values")
        args, extra, name = (
            within(record, path) for path in ("benchmark.extra_info.args", "metric.extra_info", "metric.name")
        )
        document |= args if isinstance(args, dict) else {}
        result |= extra if isinstance(extra, dict) else {}
        if isinstance(name, str) and isinstance(values, list) and values:
            result["latencies" if name == "latency" else name] = values if name == "latency" else values[0]
        document.setdefault("model", within(record, "model.name"))
    if not result:
        raise BadFile("holds no records of vLLM's benchmarks")
    return document, result


def _told_beside(file: File, name: str) -> dict[str, Any]:
    """Return the arguments that the files beside it tell, empty where there are none."""
    document: dict[str, Any] = {}
    records = beside(file, name + _PYTORCH)
    if records is not None:
        document = _of_records(json_document(records))[0]
    commands = beside(file, f"{name}.commands")
    if commands is not None:
        result = json_document(commands)
        document |= _of_commands(result) if isinstance(result, dict) else {}
    return document


def _of_commands(row: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of command lines as `--name value` gives them, and the device."""
    document: dict[str, Any] = {"gpu_type": row.get("gpu_type")}
    for kind in ("client_command", "server_command", "latency_command", "throughput_command"):
        command = word(row, kind)
        try:
            parts = shlex.split(command or "")
        except ValueError:
            continue
        if kind == "server_command" and any("vllm" in part for part in parts[:4]):
            document["engine"] = "vllm"
        for part, after in zip(parts, [*parts[1:], "--"], strict=False):
            if part.startswith("--"):
                key, _, value = part[2:].partition("=")
                document[key.replace("-", "_")] = value or (after if not after.startswith("--") else True)
    return {name: value for name, value in document.items() if value is not None}


def _draft(said: _Said, at: int) -> Draft:
    result, document = said.result, {**said.arguments, **said.result}
    if "request_throughput" in result:
        draft = _serve(result)
    elif "avg_latency" in result:
        draft = _latency(result, document)
    elif "requests_per_second" in result:
        draft = _offline(result, document)
    else:
        raise BadRow("request_throughput", "is missing, and so is every other result of vLLM's benchmarks")
    name = first_word(document, ("model_id", "model"))
    draft.model = (
        model_of(model_name(name), category="text_generation" if "output_throughput" in result else None)
        if name
        else {"id": f"benchmark/{re.sub(r'[^A-Za-z0-9_.-]+', '-', said.name)[:180]}"}
    )
    tensor = _TP.search(said.name)
    parallelism = {
        kind: next((outcome for item in names if (outcome := count(document, item))), None)
        for kind, names in _PARALLEL.items()
    }
    if tensor and parallelism["tensor"] is None:
        parallelism["tensor"] = int(tensor[1]) or None
    if draft.kind == "measurement" and not any(draft.metrics.values()):
        raise BadRow("result", "has no figure that Assay has a metric for")
    draft.row = at
    draft.hardware, platform = _where(document, parallelism)
    draft.execution = {
        "platform": platform,
        "runtime": _runtime(result, document),
        "precision": _precision(document),
        "parallelism": parallelism if any((size or 1) > 1 for size in parallelism.values()) else None,
        "options": draft.execution or None,
    }
    draft.time = moment(result.get("date"), "date")
    version = first_word(document, ("vllm_version", "engine_version"))
    draft.environment = environment({"vllm": version} if version else None)
    return draft


def _blank(**said: Any) -> Draft:
    """Return a draft whose model, hardware and execution are still to be filled in; `execution` holds its options."""
    return Draft(model={}, execution={}, hardware={}, **said)


def _serve(result: dict[str, Any]) -> Draft:
    completed, rate = count(result, "completed"), quantity(result, "request_rate")
    each = {name: quantity(result, f"total_{name}_tokens") for name in ("input", "output")}
    sizes = {f"{name}_tokens": max(1, round(total / completed)) for name, total in each.items() if total and completed}
    workload = {
        "mode": "inference",
        "scenario": "serving",
        **sizes,
        "concurrency": count(result, "max_concurrency"),
        "arrival_rate_per_s": rate,
    }
    original = {name: as_said(value) for name, value in result.items() if value is not None and _KEPT.fullmatch(name)}
    burstiness = quantity(result, "burstiness")
    options = {"burstiness": burstiness} if rate and burstiness not in (None, 1.0) else {}
    if completed is None:
        draft = _blank(
            workload=workload, kind="failure", outcome="error", error="no-request-completed", original=original
        )
        draft.message = f"none of {count(result, 'num_prompts') or 'the'} requests completed"
        return draft
    latency, left_out = latency_of(result, _E2E, unit="ms", n=completed)
    metrics = {
        "latency_ms": latency or None,
        "throughput_per_s": quantity(result, "request_throughput"),
        "tokens_per_s": quantity(result, "output_throughput"),
        "ttft_ms": _typical(result, "ttft"),
        "tpot_ms": _typical(result, "tpot"),
        "goodput_per_s": next(
            (
                outcome
                for name in ("request_goodput", "request_goodput:")
                if (outcome := quantity(result, name, zero=True)) is not None
            ),
            None,
        ),
    }
    draft = _blank(workload=workload, metrics=metrics, original=original | left_out)
    draft.execution = options
    return draft


def _typical(result: dict[str, Any], name: str) -> float | None:
    median = quantity(result, f"median_{name}_ms")
    return quantity(result, f"mean_{name}_ms") if median is None else median


def _latency(result: dict[str, Any], document: dict[str, Any]) -> Draft:
    existing = series(items(result, "latencies"), "latencies", "s")
    n = len(existing) or None
    latency, original = latency_of(result, {"mean": "avg_latency", "stddev": "std_latency"}, unit="s", n=n)
    tails, more = latency_of(
        members(result, "percentiles"), {"p50": "50", "p90": "90", "p99": "99"}, unit="s", n=n, where="percentiles."
    )
    if existing:
        latency |= {"min": min(existing), "max": max(existing)}
    workload = {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": count(document, "batch_size"),
        "input_tokens": count(document, "input_len"),
        "output_tokens": count(document, "output_len"),
    }
    return _blank(
        workload=workload,
        metrics={"latency_ms": {**latency, **tails}},
        original=original | more,
        claims={"samples_ms": existing},
    )


def _offline(result: dict[str, Any], document: dict[str, Any]) -> Draft:
    rate, made = quantity(result, "requests_per_second"), count(document, "output_len")
    random = word(document, "dataset_name") in (None, "random") and word(document, "dataset_path") is None
    sizes = {"input_tokens": count(document, "input_len"), "output_tokens": made} if random else {}
    original = {
        f"{name} ({unit})": as_said(result[name])
        for name, unit in (
            ("tokens_per_second", "input and output tokens/s"),
            ("elapsed_time", "s"),
            ("num_requests", "requests"),
            ("total_num_tokens", "tokens"),
        )
        if result.get(name) is not None
    }
    return _blank(
        workload={"mode": "inference", "scenario": "offline", **sizes},
        metrics={"throughput_per_s": rate, "tokens_per_s": rate * made if rate and made and random else None},
        original=original,
    )


def _where(document: dict[str, Any], parallelism: dict[str, int | None]) -> tuple[dict[str, Any], str]:
    """Return hardware and platform, as far as metadata or arguments tell."""
    sizes = [size or 1 for size in parallelism.values()]
    devices = sizes[0] * sizes[1] * sizes[2]
    device = (first_word(document, ("device",)) or "").lower().partition(":")[0]
    said = first_word(document, _DEVICES)
    if said is None:
        if device == "cpu":
            return UNKNOWN_CPU, "cpu"
        if device in ("cuda", "rocm", "xpu"):
            return {**UNKNOWN_GPU, "count": devices}, device
        return {**UNKNOWN, "count": devices}, device if device in ("tpu", "hpu") else "other"
    counted = _COUNTED.fullmatch(said)
    name, number_ = (counted["name"], int(counted["count"]) or 1) if counted else (said, devices)
    hardware = hardware_of(name.replace("_", " "), count=number_)
    if device in ("cpu", "cuda", "rocm", "xpu", "hpu", "tpu"):
        return hardware, device
    return hardware, _platform_of(hardware)


def _platform_of(hardware: dict[str, Any]) -> str:
    if hardware.get("kind") == "cpu":
        return "cpu"
    platforms = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "google": "tpu"}
    return platforms.get(hardware["id"].partition("-")[0], "other")


def _runtime(result: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    if "request_throughput" not in result:
        backend = word(document, "backend") or "vllm"
        return runtime_of("vllm" if backend.startswith("vllm") else "torch", word(document, "vllm_version"))
    said = first_word(document, ("engine", "backend", "endpoint_type")) or ""
    engine = next((name for name in _ENGINES if said.lower().startswith(name)), None)
    return runtime_of(engine, first_word(document, ("engine_version", f"{engine}_version")))


def _precision(document: dict[str, Any]) -> str | None:
    said = first_word(document, ("quantization", "precision", "dtype"))
    return precision_of(said) if said not in (None, "auto") else None
