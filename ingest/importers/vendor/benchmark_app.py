"""OpenVINO's benchmark_app: the report that `-report_type` writes, as `benchmark_report.csv` or (`-json_stats`) `.json`.

Written by samples/cpp/benchmark_app and tools/benchmark_tool of openvinotoolkit/openvino. The CSV has no header: three
blocks, each under a line with its title (`Command line parameters`, `Configuration setup`, `Execution results`) and ended by
an empty line, hold `name;value` lines; a fourth (`Group Latencies`) has one line for each data shape. The JSON has the
blocks as `cmd_options`, `configuration_setup`, `execution_results`, with names of its own, and is written by the C++ tool
(the Python one fails to). Names differ by version: `Median latency (ms)`, `latency (ms)`, `latency (90 percentile) (ms)`.
Times are in ms, `throughput` is items a second over all requests; a run that failed has `error` among its results.

A report says which device was asked for (CPU, GPU, NPU, AUTO:…), not what it is: the hardware is `unknown-cpu` and so on. It
rarely says the precision: `-infer_precision` does. The model is the file that was measured, because the topology is
mostly `main_graph`. Requests in flight (`nireq`) are the concurrency; with more than one the scenario is `server`. Reports of
type average_counters or detailed_counters come from a profiled run, which is slower: the option `profiled` says so.
Their files of counters by layer (`benchmark_…_counters_report`) name no model and hold no measurement of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PureWindowsPath
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of, precision_of
from ingest.importers.reading import BadFile, json_document, number, text, text_lines, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["BenchmarkApp"]

_TITLES = {
    "Command line parameters": "cmd_options",
    "Configuration setup": "configuration_setup",
    "Execution results": "execution_results",
    "Group Latencies": "groups",
}
_NAMES = {
    "target device": "target_device",
    "API": "api",
    "batch size": "batch_size",
    "number of parallel infer requests": "nireq",
    "benchmark mode": "benchmark_mode",
    "read model time (ms)": "read_model_time",
    "read network time (ms)": "read_model_time",
    "compile model time (ms)": "load_model_time",
    "load network time (ms)": "load_model_time",
    "import model time (ms)": "import_model_time",
    "first inference time (ms)": "first_inference_time",
    "total number of iterations": "iterations_num",
    "Median latency (ms)": "latency_median",
    "latency (ms)": "latency_median",
    "Percentile boundary": "percentile_boundary",
    "Average latency (ms)": "latency_avg",
    "avg latency": "latency_avg",
    "Min latency (ms)": "latency_min",
    "min latency": "latency_min",
    "Max latency (ms)": "latency_max",
    "max latency": "latency_max",
}
"""Names of the CSV reports, as those of the JSON report."""
_PERCENTILE = re.compile(r"latency \((\d+) percentile\) \(ms\)")
_STREAMS = re.compile(r"number of (.+) streams|(.+)_streams_num")
_SAYS_NOTHING = {"undefined", "dynamic", "unspecified", "mixed", "element::undefined", "element::dynamic"}
_NO_NAMES = {"", "main_graph", "torch_jit", "torch-jit-export", "model", "model0", "openvino_model", "saved_model"}
_KINDS = {"CPU": "cpu", "GPU": "gpu", "NPU": "npu"}
_HEAD = re.compile(r"layerName[;,]execStatus[;,]")

Blocks = dict[str, dict[str, Any]]


class BenchmarkApp:
    """Reports of OpenVINO's benchmark_app (CSV, JSON)."""

    name = "benchmark-app"
    title = "OpenVINO benchmark_app benchmark_report.csv or .json"

    def sniff(self, file: File) -> bool:
        """Return whether it is a report; files of counters are recognised, and refused, only where one is named itself."""
        head = file.head().lstrip()
        if file.suffix == ".json":
            return '"execution_results"' in head and ('"cmd_options"' in head or '"configuration_setup"' in head)
        if file.suffix != ".csv":
            return False
        return head.partition("\n")[0].strip() in _TITLES or (file.given and _HEAD.match(head) is not None)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurement, one of each group of shapes, and the end of the run; see Importer."""
        document = Document(file, self.name, source="OpenVINO benchmark_app report")
        return document.events(self._drafts(file, document))

    def _drafts(self, file: File, document: Document) -> Iterator[Draft | Refused]:
        if file.suffix != ".json" and _HEAD.match(file.head().lstrip()):
            raise BadFile("holds counters of layers and names no model: import the benchmark_report beside it")
        blocks, groups = _of_json(file) if file.suffix == ".json" else _of_csv(file)
        try:
            yield _draft(blocks)
            for group in groups:
                yield _draft(blocks, group)
        except BadRow as bad:
            yield document.refused(bad.reason, row=1, field=bad.field, content=_content(file))


def _content(file: File) -> str | None:
    """Return the report itself: it is one record."""
    with file.open_text() as opened:
        return opened.read(1 << 16) if file.size() <= 1 << 16 else None


def _of_csv(file: File) -> tuple[Blocks, list[dict[str, Any]]]:
    blocks: Blocks = {name: {} for name in _TITLES.values()}
    groups: list[dict[str, Any]] = []
    block = ""
    with file.open_text() as opened:
        for line in text_lines(opened):
            name, _, value = line.strip().partition(";")
            if line.strip() in _TITLES:
                block = _TITLES[line.strip()]
            elif block == "groups":
                fields = value.split(";")
                if name != "Data shape" and len(fields) == 4:
                    groups.append({"data_shape": name} | dict(zip(_GROUP, fields, strict=True)))
            elif block and name:
                percentile = _PERCENTILE.fullmatch(name)
                if percentile:
                    blocks[block] |= {"latency_median": value, "percentile_boundary": percentile[1]}
                else:
                    # Python's tool repeats `avg latency` for each group of shapes: the first is that of the whole run.
                    blocks[block].setdefault(_NAMES.get(name, name), value)
    return blocks, groups


_GROUP = ("latency_median", "latency_average", "latency_min", "latency_max")


def _of_json(file: File) -> tuple[Blocks, list[dict[str, Any]]]:
    document = json_document(file)
    if not isinstance(document, dict):
        raise BadFile("is no report of benchmark_app")
    blocks = {name: document.get(name) or {} for name in _TITLES.values()}
    if not all(isinstance(block, dict) for block in blocks.values()):
        raise BadFile("is no report of benchmark_app: its blocks are not objects")
    groups = blocks["execution_results"].get("group_latencies") or []
    return blocks, [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []


def _draft(blocks: Blocks, group: dict[str, Any] | None = None) -> Draft:
    command = {name.lstrip("-"): value for name, value in blocks["cmd_options"].items()}
    setup, results = blocks["configuration_setup"], blocks["execution_results"]
    device = text(setup, "target_device") or _first(command, "d", "target_device", "device") or "CPU"
    requests, batch = whole(setup, "nireq"), whole(setup, "batch_size") if group is None else None
    api = text(setup, "api") or _first(command, "api", "api_type")
    alone = requests == 1 or (requests is None and api == "sync")
    draft = Draft(
        row=1,
        model=_model(command, setup),
        workload={
            "mode": "inference",
            "scenario": "single_stream" if alone else "server",
            "batch_size": batch,
            "concurrency": None if alone else requests,
        },
        execution={
            "platform": "openvino",
            "runtime": {"name": "openvino"},
            "precision": _precision(command, setup),
            "threads": whole(command, "nthreads") or whole(command, "number_threads"),
            "streams": _streams(setup),
            "options": {
                "device": None if device.partition(".")[0].upper() in _KINDS else device,
                "hint": _first(command, "hint", "perf_hint"),
                "shape": text(group, "data_shape") if group else _first(command, "shape", "data_shape"),
                "profiled": True if (_first(command, "report_type") or "no_counters") != "no_counters" else None,
            },
        },
        hardware=_hardware(device),
        observed={"requested": {"device": device[:200], "platform": "openvino"}},
    )
    if group is None:
        _add_results(draft, results)
    else:
        draft.metrics["latency_ms"] = _latency(group | {"latency_avg": group.get("latency_average")}, results)
    return draft


def _add_results(draft: Draft, results: dict[str, Any]) -> None:
    draft.metrics = {
        "latency_ms": _latency(results, results) | {"n": whole(results, "iterations_num")},
        "throughput_per_s": number(results, "throughput"),
        "load_ms": number(results, "read_model_time") or number(results, "import_model_time"),
        "compile_ms": number(results, "load_model_time"),
        "first_run_ms": number(results, "first_inference_time"),
    }
    if not any(draft.metrics["latency_ms"].get(name) for name in ("p50", "p90", "p95", "p99", "mean", "min", "max")):
        del draft.metrics["latency_ms"]
    message = text(results, "error")
    if message is not None:
        draft.kind, draft.error, draft.message = "failure", "RuntimeError", message
        draft.outcome = "out_of_memory" if "memory" in message.lower() and "alloc" in message.lower() else "error"
        done = [name for name in ("load_ms", "compile_ms", "first_run_ms") if draft.metrics[name] is not None]
        draft.stage = {"load_ms": "compile", "compile_ms": "first_run", "first_run_ms": "run"}.get(
            done[-1] if done else "", "load"
        )


def _latency(said: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return the latency; the percentile is the median unless `-latency_percentile` named another."""
    percentile = f"p{whole(results, 'percentile_boundary') or 50}"
    numbers = {
        "mean": number(said, "latency_avg"),
        "min": number(said, "latency_min"),
        "max": number(said, "latency_max"),
    }
    if percentile in ("p50", "p90", "p95", "p99"):
        numbers[percentile] = number(said, "latency_median")
    return numbers


def _first(block: dict[str, Any], *names: str) -> str | None:
    return next((result for name in names if (result := text(block, name)) is not None), None)


def _model(command: dict[str, Any], setup: dict[str, Any]) -> dict[str, Any]:
    """Return the model by its file's name, by the topology, or by its folder's name, whichever says something first."""
    parts = PureWindowsPath(_first(command, "m", "path_to_model", "model") or "").parts
    # A folder at the root or in somebody's home is no model's.
    folder = parts[-2] if len(parts) > 3 and parts[-3].lower() not in ("home", "users") else ""
    stem = PureWindowsPath(parts[-1]).stem if parts else ""
    named = [name for name in (stem, text(setup, "topology") or "", folder) if name.lower() not in _NO_NAMES]
    if not named:
        raise BadRow("m", "names no model: neither the model's file nor the topology says which it is")
    return model_of(named[0])


def _precision(command: dict[str, Any], setup: dict[str, Any]) -> str | None:
    """Return the inference precision that was asked for (`f16`, or `GPU:f16`), or that of the setup where it says one."""
    first = _first(command, "infer_precision")
    if first is not None and "," not in first:
        return precision_of(first.rpartition(":")[2])
    said = text(setup, "precision")
    return None if said is None or said.lower() in _SAYS_NOTHING else precision_of(said)


def _streams(setup: dict[str, Any]) -> int | None:
    """Return the streams where one device has some."""
    matching_setup = [name for name in setup if _STREAMS.fullmatch(name)]
    return (
        whole(setup, matching_setup[0])
        if len(matching_setup) == 1 and str(setup[matching_setup[0]]).isdigit()
        else None
    )


def _hardware(device: str) -> dict[str, Any]:
    kind = _KINDS.get(device.partition(".")[0].upper())
    return {"id": f"unknown-{kind}" if kind else "unknown", "kind": kind or "other", "count": 1}
