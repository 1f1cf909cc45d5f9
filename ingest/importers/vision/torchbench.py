"""PyTorch's benchmarks: the metrics JSON of pytorch/benchmark and the tables of pytorch's benchmarks/dynamo.

**JSON** (`.userbenchmark/<name>/metrics-<yyyyMMddHHmmss>.json`): `name` of the benchmark, `environ` (`pytorch_git_version`,
`device`: the name of the GPU, `pytorch_version` …) and `metrics`, name → value. The names say what was measured, in one of
three ways, and those of one configuration become one measurement:

* test_bench: `model=…, test=eval, device=cuda, bs=None, extra_args=[], metric=latencies` (`cpu_peak_mem`, `gpu_peak_mem`,
  `accuracy`); a value that is a word (`failed`, `not_implemented`, an error) is a failure, accuracy a test;
* torch-nightly: `test_eval[resnet50-cuda-eager]_latency`, `…_cmem`, `…_gmem`;
* cpu: `resnet50-eval_latency`, `…_throughput`, `…_cmem`.

Latency is a median in ms; peaks are in GB of 2^30 bytes (the cpu benchmark's latency is the mean of its instances, and
its throughput their sum). `test` is `eval` or `train`. Scores and metrics of other benchmarks name no model and are refused.
`yyyyMMddHHmmss` is local time without an offset, and is not taken.

**Tables** (CSV): `dev, name, batch_size` and either `speedup, abs_latency` (median of the compiled model in ms),
`compilation_latency` in s, `eager_peak_mem, dynamo_peak_mem` (10^9 bytes), graph counts; or `accuracy`, a test. On a CPU the
peaks are a percentage of the memory times its bytes, a hundred times too large: they are not taken. The file's name
says the rest: `<compiler>_<suite>_<dtype>_<mode>_<device>_<performance|accuracy>.csv`, with `_` or `-` between. What eager took is
the speed-up times the compiled latency, which nobody wrote down as measured, and is kept as `speedup`. A latency of 0 or a
batch of 0 is how a model that failed is written: a failure.

TorchBench's names (`hf_Bert`, `llama` …) are models of its own sizes: they are called `torchbench/<name>`, those of the suite
`timm_models` as in timm. Where nobody names the device it is `unknown-gpu` or `unknown-cpu`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, precision_of
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, header_of, in_bytes, model_named

__all__ = ["TorchBench"]

_GIB = 2**30
_MODES = {"eval": "inference", "train": "training", "inference": "inference", "training": "training"}
_PLATFORMS = {
    "cuda": "cuda",
    "cpu": "cpu",
    "mps": "mps",
    "xpu": "xpu",
    "hpu": "hpu",
    "xla": "tpu",
    "privateuseone": "other",
}
_ALONE = re.compile(
    r"model=(?P<model>.+?), test=(?P<test>\w+), device=(?P<device>\w+), bs=(?P<batch>\w+),"
    r" extra_args=(?P<extra>.*), metric=(?P<metric>\w+)"
)
_NIGHTLY = re.compile(
    r"test_(?P<test>eval|train)\[(?P<model>.+)-(?P<device>[a-z]+)-(?P<engine>[a-z]+)\]_(?P<metric>\w+)"
)
_CPU = re.compile(r"(?P<model>.+)-(?P<test>eval|train)_(?P<metric>latency|throughput|cmem)")
_METRICS = {
    "latencies": "latency",
    "latency": "latency",
    "throughput": "throughput",
    "throughputs": "throughput",
    "cpu_peak_mem": "cmem",
    "cmem": "cmem",
    "gpu_peak_mem": "gmem",
    "gmem": "gmem",
    "accuracy": "accuracy",
}
_DTYPES = "amp_bf16|amp_fp16|amp|bfloat16|float16|float32|float64|fp16|bf16|fp32|int8|no_amp|none|notset"
_TABLE = re.compile(
    r"(?P<compiler>.+?)_(?P<suite>torchbench|huggingface|timm_models|timm)"
    rf"(?:_(?P<dtype>{_DTYPES}))?_(?P<mode>inference|training)(?:_(?P<device>[a-z]+))?(?:_.*)?"
)
_AMP = {"amp_bf16": "amp-bf16", "amp_fp16": "amp-fp16", "amp": "amp"}
"""`amp` alone is whatever type autocast takes by default, which differs by device: the word stays."""
_SAYS_NOTHING = {"no_amp", "none", "notset"}
_COLUMNS = {"dev", "name", "batch_size"}
_COUNTED = ("graph_breaks", "unique_graphs", "calls_captured", "cudagraph_skips")
_EXACT = ("pass", "pass_due_to_skip")


class TorchBench:
    """pytorch/benchmark metrics (JSON), benchmarks/dynamo tables (CSV)."""

    name = "torchbench"
    title = "TorchBench userbenchmark metrics JSON, benchmarks/dynamo CSV"

    def sniff(self, file: File) -> bool:
        """Return whether members or header are theirs."""
        if file.suffix == ".csv":
            header = header_of(file)
            return header[:3] == ["dev", "name", "batch_size"] and bool(
                {"speedup", "abs_latency", "accuracy"} & set(header)
            )
        head = file.head()
        return file.suffix == ".json" and all(f'"{member}"' in head for member in ("name", "environ", "metrics"))

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements, failures and tests, and the end of the run; see Importer."""
        if file.suffix == ".csv":
            document = Document(file, self.name, source="PyTorch benchmarks/dynamo table", licence="BSD-3-Clause")
            return document.events(_of_table(file, document))
        result = json_document(file)
        environ = result.get("environ") if isinstance(result, dict) else None
        metrics = result.get("metrics") if isinstance(result, dict) else None
        if not isinstance(environ, dict) or not isinstance(metrics, dict):
            raise BadFile("is no metrics file of TorchBench: `environ` or `metrics` is no object")
        document = Document(
            file,
            self.name,
            source=f"TorchBench {text(result, 'name') or 'userbenchmark'}",
            environment=_environment(environ),
        )
        return document.events(_of_json(result, environ, metrics, document))


def _environment(environ: Mapping[str, Any]) -> dict[str, Any] | None:
    version, commit = text(environ, "pytorch_version"), text(environ, "pytorch_git_version")
    said = {"torch": version or (f"git-{commit[:12]}" if commit else None)}
    cuda = text(environ, "cuda_version") or text(environ, "pytorch_cuda_version")
    return environment({name: value for name, value in (said | {"cuda": cuda}).items() if value})


def _of_json(
    row: Mapping[str, Any], environ: Mapping[str, Any], metrics: Mapping[str, Any], document: Document
) -> Iterator[Draft | Refused]:
    """Yield one row for each configuration, in the order in which they appear."""
    together: dict[tuple[str, ...], dict[str, Any]] = {}
    for place, (name, value) in enumerate(metrics.items(), start=1):
        match = _ALONE.fullmatch(name) or _NIGHTLY.fullmatch(name) or _CPU.fullmatch(name)
        metric = _METRICS.get(match["metric"]) if match else None
        if match is None or metric is None:
            alone = json.dumps({**row, "metrics": {name: value}})
            reason = "names no model and test that were measured"
            yield document.refused(reason, row=place, field=f"metrics.{name[:80]}", content=alone)
            continue
        said = match.groupdict()
        key = tuple(said.get(part) or "" for part in ("model", "test", "device", "batch", "extra", "engine"))
        together.setdefault(key, {"place": place, "said": said, "names": []})
        together[key].setdefault(metric, value)
        together[key]["names"].append(name)
    for group in together.values():
        try:
            yield from _of_group(group, environ)
        except BadRow as bad:
            alone = json.dumps({**row, "metrics": {name: metrics[name] for name in group["names"]}})
            yield document.refused(bad.reason, row=group["place"], field=bad.field, content=alone)


def _of_group(group: dict[str, Any], environ: Mapping[str, Any]) -> Iterator[Draft]:
    said = group["said"]
    device, batch, extra = said.get("device") or "cpu", said.get("batch"), (said.get("extra") or "").strip("[]")
    row: dict[str, Any] = {
        "row": group["place"],
        "model": model_named(f"torchbench/{said['model']}"),
        "workload": {
            "mode": _MODES.get(said["test"], said["test"]),
            "scenario": "single_stream" if said["test"] == "eval" else None,
            "batch_size": whole(said, "batch") if (batch or "").isdecimal() else None,
        },
        "execution": _execution(device, extra),
        "hardware": _hardware(device, text(environ, "device") if device == "cuda" else None),
    }
    if "accuracy" in group:
        yield _test(row, str(group["accuracy"]))
    words = [value for name in ("latency", "throughput", "cmem", "gmem") if isinstance(value := group.get(name), str)]
    measured = {name: value for name, value in group.items() if not isinstance(value, str)}
    latency_ms, throughput = number(measured, "latency"), number(measured, "throughput")
    memory, on_device = in_bytes(measured, "cmem", _GIB), in_bytes(measured, "gmem", _GIB)
    if words and latency_ms is None:
        yield Draft(**row, **_failure(words[0]))
    elif any((latency_ms, throughput, memory, on_device)):
        metrics = {
            "latency_ms": {"p50" if _is_median(said) else "mean": latency_ms},
            "throughput_per_s": throughput,
            "peak_memory_bytes": memory,
            "device_memory_bytes": on_device,
        }
        yield Draft(**row, metrics=metrics)
    elif "accuracy" not in group:
        raise BadRow(group["names"][0][:80], "is missing")


def _is_median(said: Mapping[str, Any]) -> bool:
    """Return whether the latency is a median: that of the cpu benchmark, which names no device, is a mean of instances."""
    return bool(said.get("device"))


def _failure(word: str) -> dict[str, Any]:
    said = word.lower()
    outcome = "error"
    if "not_implemented" in said:
        outcome = "unsupported"
    elif "skip" in said:
        outcome = "skipped"
    elif "out of memory" in said or "oom" in said.split("_"):
        outcome = "out_of_memory"
    elif "timeout" in said or "timed out" in said:
        outcome = "timeout"
    return {"kind": "failure", "outcome": outcome, "error": "TorchBenchError", "message": word}


def _test(row: dict[str, Any], word: str) -> Draft:
    """Return the accuracy check: `pass`, `eager_1st_run_fail`, `fail_accuracy`, `OOM`, `model_fail_to_load` …"""
    said = word.strip().lower()
    if said in _EXACT:
        document: dict[str, Any] = {"outcome": "passed"}
    elif said.startswith("fail_accuracy") or said == "fail":
        document = {"outcome": "failed", "error": "AccuracyMismatch", "message": word}
    else:
        document = _failure(word)
        document["outcome"] = "unsupported" if said.startswith("model_fail_to_load") else document["outcome"]
    return Draft(**row, **(document | {"kind": "test"}), test="accuracy", stage="verify", original={"accuracy": word})


def _execution(device: str, extra: str = "") -> dict[str, Any]:
    return {
        "platform": _PLATFORMS.get(device, "other"),
        "runtime": {"name": "torch"},
        "options": {"extra_args": " ".join(word.strip(" '\"") for word in extra.split(","))} if extra else None,
    }


def _hardware(device: str, name: str | None = None) -> dict[str, Any]:
    if name is not None:
        return hardware_of(name, kind="gpu")
    kind = {"cpu": "cpu", "xla": "tpu", "hpu": "other"}.get(device, "gpu")
    return {"id": f"unknown-{kind}" if kind != "other" else "unknown", "kind": kind, "count": 1}


def _of_table(file: File, document: Document) -> Iterable[Draft | Refused]:
    stem = file.base.rpartition(".")[0].replace("-", "_")
    named = _TABLE.fullmatch(stem)
    if named is None:
        raise BadFile(
            "the name does not say suite and mode, such as inductor_torchbench_amp_inference_cuda_performance.csv"
        )
    return csv_drafts(file, document, partial(_of_row, named.groupdict()), repeated="dev")


def _of_row(named: dict[str, Any], line: int, row: dict[str, str]) -> Iterator[Draft]:
    name, device = text(row, "name"), text(row, "dev") or named["device"]
    if name is None or device is None:
        raise BadRow("name" if name is None else "dev", "is missing")
    dtype = named["dtype"]
    said: dict[str, Any] = {
        "row": line,
        "model": model_named(f"timm/{name}" if named["suite"].startswith("timm") else f"torchbench/{name}"),
        "workload": {
            "mode": named["mode"],
            "scenario": "single_stream" if named["mode"] == "inference" else None,
            "batch_size": whole(row, "batch_size"),
        },
        "execution": _execution(device)
        | {
            "precision": None if dtype in (None, *_SAYS_NOTHING) else _AMP.get(dtype) or precision_of(dtype),
            "compiled": named["compiler"] not in ("eager", "no_compile"),
            "options": {"compiler": named["compiler"], "tag": text(row, "tag")},
        },
        "hardware": _hardware(device),
    }
    accuracy = text(row, "accuracy")
    if accuracy is not None:
        yield _test(said, accuracy)
        return
    latency_ms = number(row, "abs_latency")
    if latency_ms is None:
        yield Draft(**said, **_failure("no latency was measured"))
        return
    compile_s = number(row, "compilation_latency")
    yield Draft(
        **said,
        metrics={
            "latency_ms": {"p50": latency_ms},
            "compile_ms": None if compile_s is None else compile_s * 1000.0,
            "device_memory_bytes": in_bytes(row, "dynamo_peak_mem", 1e9) if device == "cuda" else None,
        },
        original={
            "speedup": number(row, "speedup"),
            "compilation_latency (s)": compile_s,
            "dynamo_peak_mem": number(row, "dynamo_peak_mem"),
            **{column: number(row, column) for column in _COUNTED},
        },
    )
