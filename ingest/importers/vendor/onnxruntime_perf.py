"""onnxruntime's two benchmarks: onnxruntime_perf_test (its log and its `-r`/`-t` result file) and transformers/benchmark.py.

**Log** (stdout of onnxruntime_perf_test): lines `Session creation time cost: … s`, `First inference time cost: … ms`,
`Average inference time cost: … ms`, `Total inference requests: …`, `Peak working set size: … bytes`, `P50 Latency: … s` (older:
`Average time cost:… ms`, `Total iterations:…`, `P50 Latency is … sec`). It names neither model nor provider: both are taken from
the command (`onnxruntime_perf_test -e cuda … model.onnx`) where the log holds it, as `set -x` writes it; the provider is the
CPU's where the command names none. Without a command the model is the name of the log, and the platform `other`.

**Result file**: no header, a line for each call, `model,seconds,peak working set in bytes,CPU usage,run`; a new series begins
at run 0, and the statistics of the log may follow. Versions before 2019 wrote nanoseconds, as whole numbers. The
statistics are taken from the calls themselves, with the percentiles that so many calls support. The model is the folder of the
model's file, as the tool has it. Neither provider nor device is said.

**benchmark.py** (onnxruntime/python/tools/transformers): `benchmark_detail_….csv` has a row for each configuration, times in ms,
`QPS` items a second; its `latency_variance` is rounded to nothing and not taken. `datetime` has no offset: it tells rows apart
and is no `time`. Summaries (`b1_s128` …) repeat the averages of the details and are read only where one is named itself;
`benchmark_fusion_….csv` counts fused operators, which is no measurement. Files are appended to, so headers repeat.

Calls a second are no throughput where nobody says the batch; they are kept in `imported.original`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from domain.statistics import latency_summary
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of, precision_of, runtime_of
from ingest.importers.reading import BadFile, number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, header_of, model_named

__all__ = ["OnnxRuntimePerf"]

_LOG = re.compile(r"^(?:Average inference time cost|Average time cost|First inference time cost|P999 Latency)", re.M)
_LINE = re.compile(
    r"(?P<name>[A-Z][A-Za-z0-9 ]*?)(?: total)?(?: is |:)\s*(?P<value>[0-9.eE+-]+)\s*(?P<unit>sec|s|ms|bytes|%)?\s*"
)
_LATENCIES = {
    "Min Latency": "min",
    "Max Latency": "max",
    "P50 Latency": "p50",
    "P90 Latency": "p90",
    "P95 Latency": "p95",
    "P99 Latency": "p99",
}
_MEANS = ("Average inference time cost", "Average time cost")
_COUNTS = ("Total inference requests", "Total iterations", "Runs")
_BEGINS = (*_MEANS, "Session creation time cost", "First inference time cost", "Total time cost")
"""Figures of which a run has one: where one appears again, another run begins."""
_KEPT = ("Number of inferences per second", "Avg CPU usage", "P999 Latency")
_SERIES = re.compile(
    r"(?P<model>[^,\n]+),(?P<time>[0-9.]+(?:[eE][-+]?\d+)?),(?P<memory>\d{1,18}),(?P<cpu>-?\d+),(?P<run>\d+)\s*"
)
_DETAIL = {"engine", "version", "device", "model_name", "average_latency_ms", "test_times", "QPS"}
_SUMMARY = re.compile(r"b(?P<batch>\d+)(?:_s(?P<length>\d+))?")
_PLATFORMS = {
    "cpu": "cpu",
    "dnnl": "cpu",
    "xnnpack": "cpu",
    "acl": "cpu",
    "armnn": "cpu",
    "cuda": "cuda",
    "tensorrt": "cuda",
    "nvtensorrtrtx": "cuda",
    "rocm": "rocm",
    "migraphx": "rocm",
    "openvino": "openvino",
    "qnn": "qnn",
    "webgpu": "webgpu",
    "dml": "directml",
    "coreml": "coreml",
    "nnapi": "nnapi",
    "vitisai": "vitisai",
}
_KINDS = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu", "directml": "gpu", "webgpu": "gpu"}
_TAKES_VALUE = frozenset("ebmrtpScxyufFoidTCRX")
"""Options of the command that are followed by a value."""
_NO_NAMES = {"", "log", "out", "output", "stdout", "perf", "perf_test", "result", "results", "onnxruntime_perf_test"}


class OnnxRuntimePerf:
    """onnxruntime_perf_test logs and result files, transformers/benchmark.py tables."""

    name = "onnxruntime-perf"
    title = "onnxruntime_perf_test log or result file, transformers benchmark.py CSV"

    def sniff(self, file: File) -> bool:
        """Return whether it is one of them; summaries and counts of fusions only where one is named itself."""
        head = file.head()
        if file.suffix in (".log", ".txt", "") and _LOG.search(head):
            return "Latency" in head or "Session creation time cost" in head or "Total time cost" in head
        if file.suffix not in (".csv", ".txt", ""):
            return False
        first = _SERIES.fullmatch(head.partition("\n")[0])
        if first is not None:
            return first["run"] == "0"
        kind = _table(header_of(file))
        return kind == "detail" or (file.given and kind is not None)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        document = Document(file, self.name, source="onnxruntime benchmark")
        return document.events(_drafts(file, document))


def _table(header: list[str]) -> str | None:
    """Return which of benchmark.py's tables has this header."""
    if set(header) >= _DETAIL:
        return "detail"
    if "model_filename" in header and "transformers" in header:
        return "fusion"
    named = {"model_name", "engine", "device", "precision"} <= set(header)
    return "summary" if named and any(_SUMMARY.fullmatch(column) for column in header) else None


def _drafts(file: File, document: Document) -> Iterator[Draft | Refused]:
    first = file.head().partition("\n")[0]
    if _SERIES.fullmatch(first):
        return _of_series(file, document)
    kind = _table(header_of(file))
    if kind == "fusion":
        raise BadFile("counts fused operators, which is no measurement")
    if kind is not None:
        return csv_drafts(file, document, _of_detail if kind == "detail" else _of_summary, repeated="engine")
    return _of_log(file, document)


def _of_log(file: File, document: Document) -> Iterator[Draft | Refused]:
    """Yield a measurement of each run of the tool that the log shows: one begins where a figure appears again."""
    values: dict[str, tuple[float, str]] = {}
    command: list[str] | None = None
    start = 1
    with file.open_text() as opened:
        for line_number, line in enumerate(opened, start=1):
            named = _command(line)
            figure = _LINE.fullmatch(line.strip())
            name = figure["name"].strip() if figure else ""
            if values and (named is not None or (name in values and name in _BEGINS)):
                yield from _of_figures(file, document, values, command, start)
                values = {}
            command = named or command
            if figure is not None:
                start = line_number if not values else start
                value = _figure(figure["value"])
                if value is None:
                    yield document.refused("is not a number", row=line_number, field=name)
                else:
                    values.setdefault(name, (value, figure["unit"] or ""))
    if values:
        yield from _of_figures(file, document, values, command, start)


def _figure(written: str) -> float | None:
    """Return a figure, or None where it can be none."""
    try:
        value = float(written)
    except ValueError:
        return None
    return value if 0 <= value < 1e18 else None


def _of_figures(
    file: File, document: Document, values: dict[str, tuple[float, str]], command: list[str] | None, line: int
) -> Iterator[Draft | Refused]:
    if not any(name in values for name in (*_MEANS, *_LATENCIES)):
        return
    options, path = _options(command or [])
    parts = PureWindowsPath(path).parts
    stem = PureWindowsPath(parts[-1]).stem if parts else PurePosixPath(file.base).stem
    if stem.lower() == "model" and len(parts) > 2:
        stem = parts[-2]
    if stem.lower() in _NO_NAMES:
        reason = "names no model: name the file after the model, or keep the command in the log"
        yield document.refused(reason, row=line, field="model")
        return
    provider = (options.get("e", "cpu").lower() if command else None) or None
    platform = _PLATFORMS.get(provider or "", "other")
    together = whole(options, "c") or 1
    latency: dict[str, Any] = {short: _ms(values, name) for name, short in _LATENCIES.items()}
    latency["mean"] = next((_ms(values, name) for name in _MEANS if name in values), None)
    latency["n"] = next((int(values[name][0]) for name in _COUNTS if values.get(name, (0.0, ""))[0] >= 1), None)
    memory = values.get("Peak working set size", (0.0, ""))[0]
    yield Draft(
        row=line,
        model=model_of(stem),
        workload={
            "mode": "inference",
            "scenario": "single_stream" if together == 1 else "server",
            "concurrency": together if together > 1 else None,
        },
        execution=_execution(platform, provider, whole(options, "x")),
        hardware=_hardware(platform),
        metrics={
            "latency_ms": latency,
            "load_ms": _ms(values, "Session creation time cost"),
            "first_run_ms": _ms(values, "First inference time cost"),
            "peak_memory_bytes": int(memory) or None,
        },
        original={f"{name} ({values[name][1] or '1'})": values[name][0] for name in _KEPT if name in values},
    )


def _execution(platform: str, provider: str | None, threads: int | None) -> dict[str, Any]:
    shown = provider if provider is not None and provider != platform else None
    return {
        "platform": platform,
        "runtime": {"name": "onnxruntime"},
        "threads": threads,
        "options": {"provider": shown},
    }


def _hardware(platform: str) -> dict[str, Any]:
    kind = _KINDS.get(platform)
    return {"id": f"unknown-{kind}" if kind else "unknown", "kind": kind or "other", "count": 1}


def _ms(values: dict[str, tuple[float, str]], name: str) -> float | None:
    value, unit = values.get(name, (0.0, "s"))
    return (value if unit == "ms" else value * 1000.0) or None


def _command(line: str) -> list[str] | None:
    """Return the words of a line that runs the tool."""
    if "onnxruntime_perf_test" not in line:
        return None
    try:
        words = shlex.split(line.strip().lstrip("+$> "), posix="\\" not in line)
    except ValueError:
        words = line.split()
    at = next((at for at, word in enumerate(words) if "onnxruntime_perf_test" in PureWindowsPath(word).name), None)
    return None if at is None else words[at + 1 :]


def _options(words: list[str]) -> tuple[dict[str, str], str]:
    """Return the options by their letter, and the path of the model (the first word that is nobody's value)."""
    options: dict[str, str] = {}
    paths: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("-") and len(word) > 1:
            options[word.lstrip("-")] = next(rest, "") if word.lstrip("-")[:1] in _TAKES_VALUE else ""
        else:
            paths.append(word)
    return options, next((path for path in paths if path.endswith((".onnx", ".ort"))), paths[0] if paths else "")


def _of_series(file: File, document: Document) -> Iterator[Draft | Refused]:
    """Yield a measurement of each series of calls."""
    name, start = "", 1
    samples: list[float] = []
    memory = 0
    with file.open_text() as opened:
        for line_number, line in enumerate(opened, start=1):
            figure = _SERIES.fullmatch(line)
            if figure is None:
                if line.strip() and not _LINE.fullmatch(line.strip()):
                    yield document.refused("is no call of a series", row=line_number, content=line)
                continue
            if samples and (figure["run"] == "0" or figure["model"] != name):
                yield _series(name, samples, memory, start)
                samples, memory, start = [], 0, line_number
            name, memory = figure["model"], max(memory, int(figure["memory"]))
            seconds = (_figure(figure["time"]) or 0.0) * (
                1e-9 if figure["time"].isdigit() and len(figure["time"]) > 3 else 1.0
            )
            if 0 < seconds < 1e9:
                samples.append(seconds * 1000.0)
    if samples:
        yield _series(name, samples, memory, start)


def _series(name: str, samples: list[float], memory: int, line: int) -> Draft:
    return Draft(
        row=line,
        model=model_of(PureWindowsPath(name).name),
        workload={"mode": "inference", "scenario": "single_stream"},
        execution=_execution("other", None, None),
        hardware=_hardware("other"),
        metrics={
            "latency_ms": msgspec.to_builtins(latency_summary(samples)),
            "peak_memory_bytes": memory or None,
        },
    )


def _of_detail(line: int, row: dict[str, str]) -> Iterator[Draft]:
    draft = _of_row(line, row)
    draft.workload |= {"batch_size": whole(row, "batch_size"), "sequence_length": whole(row, "sequence_length")}
    draft.metrics = {
        "latency_ms": {
            "mean": number(row, "average_latency_ms"),
            "p90": number(row, "latency_90_percentile"),
            "p95": number(row, "latency_95_percentile"),
            "p99": number(row, "latency_99_percentile"),
            "n": whole(row, "test_times"),
        },
        "throughput_per_s": number(row, "QPS"),
    }
    if all(value is None for name, value in draft.metrics["latency_ms"].items() if name != "n"):
        raise BadRow("average_latency_ms", "is missing")
    when = text(row, "datetime")
    draft.key = when
    draft.original = {"datetime": when} if when else {}
    yield draft


def _of_summary(line: int, row: dict[str, str]) -> Iterator[Draft]:
    for column in row:
        match = _SUMMARY.fullmatch(column)
        mean = number(row, column) if match else None
        if match is None or mean is None:
            continue
        draft = _of_row(line, row)
        draft.workload |= {
            "batch_size": whole(match.groupdict(), "batch"),
            "sequence_length": whole(match.groupdict(), "length"),
        }
        draft.metrics = {"latency_ms": {"mean": mean}}
        yield draft


def _of_row(line: int, row: dict[str, str]) -> Draft:
    """Return what details and summaries say alike."""
    name, engine = text(row, "model_name"), text(row, "engine")
    if name is None or engine is None:
        raise BadRow("model_name" if name is None else "engine", "is missing")
    provider = text(row, "providers")
    device = (text(row, "device") or "").partition(":")[0].lower()
    platform = _PLATFORMS.get((provider or device).lower(), "other")
    kept = {column: text(row, column) for column in ("optimizer", "io_binding", "inputs", "custom_layer_num")}
    options: dict[str, Any] = {column: value for column, value in kept.items() if value is not None}
    if provider is not None and provider != platform:
        options["provider"] = provider
    if engine in ("torchscript", "torch2"):
        options["engine"] = engine
    threads = text(row, "threads")
    return Draft(
        row=line,
        model=model_named(name),
        workload={"mode": "inference", "scenario": "single_stream"},
        execution={
            "platform": platform,
            "runtime": runtime_of("torch" if engine in ("torchscript", "torch2") else engine, text(row, "version")),
            "precision": precision_of((text(row, "precision") or "").removeprefix("Precision.")),
            "compiled": True if engine in ("torchscript", "torch2") else None,
            "threads": None if threads is None or threads.startswith("-") else whole(row, "threads"),
            "options": options,
        },
        hardware=_hardware(platform),
    )
