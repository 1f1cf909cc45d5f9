"""MLflow runs: through MLflow's client from a tracking address, or from files of runs in its REST API's shape.

`assay import mlflow sqlite:///mlflow.db`, `file:./mlruns`, `http://host:5000` asks the store for all runs of all experiments (that are
not deleted). A file is the answer of `runs/search` (`{"runs": [{"info", "data"}]}`) or one run a line, with `params`, `metrics` and `tags` as
lists of `{key, value}` or as objects. `info` has `run_id`, `status`, `start_time` and `end_time` (ms since 1970).

MLflow gives names no meaning, so meaning is read from well-known names, whatever their case, with `-`, `.`, `/` and spaces as
`_`: PARAMETERS (looked for in params, then in tags), TIMES and SIZES with a unit behind them (`latency_ms`, `load_time_s`,
`peak_memory_mb`), RATES, and FIGURES. A latency or memory without a unit says nothing, and neither does what is not in these tables:
both are left alone. Metrics are the last value that was logged, as MLflow gives them. The mode is what `mode` says, else
`training` where only training rates are there, else `inference`.

A run without a model's name, that is still going on, or that holds no such metric is refused; one that MLflow calls FAILED and
that has a model is a failure. User names, hosts and addresses of artifacts are not taken.
"""

from __future__ import annotations

import importlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from domain.errors import AssayError, PartMissing, ServiceUnavailable, UsageError
from domain.scrub import scrub
from domain.vocabulary import PLATFORMS
from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, model_of, precision_of, runtime_of
from ingest.importers.members import UNKNOWN, UNKNOWN_CPU, UNKNOWN_GPU, as_said, members, model_name, moment
from ingest.importers.reading import BadFile, json_document, json_lines, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["FIGURES", "PARAMETERS", "RATES", "SIZES", "TIMES", "MLflow", "runs_at"]

PARAMETERS: dict[str, tuple[str, ...]] = {
    "model": (
        "model",
        "model_name",
        "model_id",
        "model_name_or_path",
        "pretrained_model_name_or_path",
        "base_model",
        "_name_or_path",
        "checkpoint",
    ),
    "hardware": (
        "hardware",
        "hardware_id",
        "gpu",
        "gpu_name",
        "gpu_type",
        "device_name",
        "accelerator_name",
        "accelerator",
    ),
    "cpu": ("cpu", "cpu_name"),
    "count": ("gpu_count", "num_gpus", "n_gpu", "num_devices", "world_size"),
    "platform": ("platform", "device", "backend", "accelerator"),
    "precision": ("precision", "dtype", "torch_dtype", "data_type", "quantization"),
    "runtime": ("runtime", "framework", "engine"),
    "runtime_version": ("runtime_version", "framework_version", "engine_version"),
    "mode": ("mode",),
    "scenario": ("scenario",),
    "batch_size": ("batch_size", "inference_batch_size", "per_device_eval_batch_size", "eval_batch_size"),
    "training_batch_size": ("batch_size", "per_device_train_batch_size", "train_batch_size"),
    "sequence_length": ("sequence_length", "seq_length", "seq_len", "max_seq_length", "max_sequence_length"),
    "image_size": ("image_size", "img_size"),
    "input_tokens": ("input_tokens", "input_len", "prompt_tokens", "prompt_length"),
    "output_tokens": ("output_tokens", "output_len", "max_new_tokens", "new_tokens"),
    "concurrency": ("concurrency", "num_concurrent_requests", "max_concurrency"),
    "optimizer": ("optimizer", "optim", "optimizer_name"),
}
"""What is taken of params and tags, and the names under which it is looked for, in this order."""
TIMES: dict[str, str] = {
    **dict.fromkeys(
        ("latency", "mean_latency", "latency_mean", "avg_latency", "latency_avg", "step_time"), "latency_ms.mean"
    ),
    **dict.fromkeys(("latency_p50", "p50_latency", "median_latency", "latency_median"), "latency_ms.p50"),
    **{f"{name}_latency": f"latency_ms.{name}" for name in ("p90", "p95", "p99", "min", "max")},
    **{f"latency_{name}": f"latency_ms.{name}" for name in ("p90", "p95", "p99", "min", "max")},
    **dict.fromkeys(("latency_std", "latency_stddev", "std_latency"), "latency_ms.stddev"),
    **dict.fromkeys(("ttft", "time_to_first_token", "mean_ttft", "ttft_mean", "avg_ttft"), "ttft_ms"),
    **dict.fromkeys(("tpot", "time_per_output_token", "mean_tpot", "tpot_mean", "avg_tpot"), "tpot_ms"),
    **dict.fromkeys(("load_time", "model_load_time", "load"), "load_ms"),
    **dict.fromkeys(("compile_time", "compilation_time", "compile"), "compile_ms"),
    **dict.fromkeys(("convert_time", "conversion_time", "convert"), "convert_ms"),
    **dict.fromkeys(("first_run_time", "first_run", "first_inference_time"), "first_run_ms"),
    **{
        name: f"{name.removesuffix('_time')}_ms"
        for name in ("preprocess_time", "postprocess_time", "forward_time", "backward_time", "optimizer_time")
    },
}
"""Times by their names without a unit, which has to follow: `_ms`, `_s`, `_us`, `_seconds` …"""
SIZES: dict[str, str] = {
    **dict.fromkeys(("peak_memory", "max_memory", "peak_rss", "peak_memory_usage"), "peak_memory_bytes"),
    **dict.fromkeys(
        (
            "peak_gpu_memory",
            "gpu_peak_memory",
            "max_memory_allocated",
            "max_gpu_memory",
            "device_memory",
            "peak_device_memory",
            "gpu_memory_peak",
        ),
        "device_memory_bytes",
    ),
}
"""Amounts of memory by their names without a unit, which has to follow: `_bytes`, `_mb`, `_gb`, `_mib` …"""
RATES: dict[str, str] = {
    **dict.fromkeys(
        (
            "throughput_per_s",
            "samples_per_second",
            "samples_per_sec",
            "inference_samples_per_second",
            "eval_samples_per_second",
            "images_per_second",
            "images_per_sec",
            "requests_per_second",
            "qps",
            "fps",
            "items_per_second",
        ),
        "throughput_per_s",
    ),
    **dict.fromkeys(("train_samples_per_second", "training_samples_per_second"), "throughput_per_s"),
    **dict.fromkeys(
        (
            "tokens_per_s",
            "tokens_per_second",
            "tokens_per_sec",
            "output_tokens_per_second",
            "output_throughput_tokens_per_second",
        ),
        "tokens_per_s",
    ),
}
FIGURES: dict[str, str] = {
    "energy_j": "energy_j",
    "energy_joules": "energy_j",
    "power_w": "power_w",
    "mean_power_w": "power_w",
    "average_power_w": "power_w",
    "realtime_factor": "realtime_factor",
}
_TIME_UNITS = {
    "ms": "ms",
    "milliseconds": "ms",
    "s": "s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "us": "us",
    "ns": "ns",
}
_SIZE_UNITS = {unit: unit for unit in ("bytes", "b", "kb", "mb", "gb", "kib", "mib", "gib")} | {"megabytes": "mb"}
_TRAINING = re.compile(r"^train(?:ing)?_")
_OURS = re.compile(r"^(?:eval|test|benchmark|bench|inference)_(?=.*(?:latency|ttft|tpot|memory))")
_PAGE = 1000
_ANSWER_S = 10.0
_FILE_SHAPE = ('"info"', '"data"', '"artifact_uri"')


class MLflow:
    """Runs of an MLflow tracking store."""

    name = "mlflow"
    title = "MLflow runs, from a tracking address (sqlite:///…, file:…, http://…) or as JSON of its REST API"
    remote = True

    def sniff(self, file: File) -> bool:
        """Return whether the head looks like runs in the shape of MLflow's REST API."""
        head = file.head()
        return file.suffix in (".json", ".jsonl", ".ndjson") and all(name in head for name in _FILE_SHAPE)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run with what its MLflow runs measured; see Importer."""
        document = Document(file, self.name, source="MLflow runs")
        yield from document.events(_drafts(file, document))

    def fetch(self, address: str) -> Iterator[dict[str, Any] | Refused]:
        """Yield the same of all runs of a tracking store; PartMissing without MLflow, ServiceUnavailable without a store."""
        with tempfile.TemporaryDirectory(prefix="assay-mlflow-") as folder:
            place = Path(folder) / "runs.ndjson"
            with place.open("w", encoding="utf-8") as written:
                for run in runs_at(address):
                    written.write(json.dumps(run) + "\n")
            yield from self.rows(File(place, scrub(address), given=True))


def runs_at(address: str) -> Iterator[dict[str, Any]]:
    """Yield the runs of a tracking store as plain data: `info` (without user and addresses) and `data`."""
    try:
        tracking = importlib.import_module("mlflow.tracking")
    except ImportError as error:
        raise PartMissing(
            f"MLflow's client is not installed ({error.name or error}).",
            field="format",
            remedy="pip install mlflow-skinny (for a sqlite or other database also sqlalchemy and alembic).",
        ) from error
    _require_store(address)
    try:
        client = tracking.MlflowClient(tracking_uri=address)
        experiments = _pages(lambda token: client.search_experiments(max_results=_PAGE, page_token=token))
        for experiment in experiments:
            yield from map(
                _plain,
                _pages(
                    lambda token, of=experiment.experiment_id: client.search_runs(
                        [of], max_results=_PAGE, page_token=token
                    )
                ),
            )
    except AssayError:
        raise
    except ImportError as error:
        raise PartMissing(
            f"MLflow needs {error.name or error} for this store.",
            field="path",
            remedy=f"pip install {error.name or 'mlflow'}.",
        ) from error
    except Exception as error:  # MLflow raises what its stores raise: database, HTTP and its own errors.
        remedy = "Check the address: MLflow's own `mlflow experiments search` must list experiments there."
        if address.startswith("file:"):
            remedy = "Newer versions of MLflow read folders only with MLFLOW_ALLOW_FILE_STORE=true."
        raise ServiceUnavailable(
            f"MLflow cannot read {scrub(address)}: {scrub(str(error), limit=120)}", field="path", remedy=remedy
        ) from error


def _require_store(address: str) -> None:
    """Raise UsageError for a file that is not there, of which MLflow would make an empty store, and ServiceUnavailable for
    a server that nobody answers at, which MLflow would ask for minutes.
    """
    where = urlsplit(address)
    if where.scheme in ("http", "https"):
        try:
            httpx.head(address, timeout=_ANSWER_S)
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"nothing answers at {scrub(address)} ({type(error).__name__}).",
                field="path",
                remedy="Start the tracking server.",
            ) from error
    path = {"sqlite": where.path[1:], "file": where.path}.get(where.scheme.partition("+")[0])
    if path is not None and not Path(unquote(path)).exists():
        raise UsageError(f"there is no {path}.", field="path", remedy="Name a tracking store that exists.")


def _pages(ask: Any) -> Iterator[Any]:
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return


def _plain(run: Any) -> dict[str, Any]:
    info = run.info
    return {
        "info": {
            "run_id": info.run_id,
            "run_name": info.run_name,
            "experiment_id": info.experiment_id,
            "status": info.status,
            "start_time": info.start_time,
            "end_time": info.end_time,
        },
        "data": {"params": dict(run.data.params), "metrics": dict(run.data.metrics), "tags": dict(run.data.tags)},
    }


def _drafts(file: File, document: Document) -> Iterator[Draft | Refused]:
    for row, run in _runs(file):
        if isinstance(run, BadFile):
            yield document.refused(run.reason, row=row)
            continue
        try:
            yield _draft(run, row)
        except BadRow as bad:
            yield document.refused(bad.reason, row=row, field=bad.field, content=json.dumps({"runs": [run]}))


def _runs(file: File) -> Iterator[tuple[int, Any]]:
    """Yield the runs of a document or of lines, counted from 1."""
    if file.suffix == ".json":
        document = json_document(file)
        runs = document.get("runs", [document]) if isinstance(document, dict) else document
        if not isinstance(runs, list):
            raise BadFile("holds no list of runs")
        yield from enumerate(runs, start=1)
        return
    for row, line in json_lines(file):
        nested = line.get("runs") if isinstance(line, dict) else None
        yield from ((row, run) for run in (nested if isinstance(nested, list) else [line]))


def _draft(run: Any, row: int) -> Draft:
    info, data = members(run, "info"), members(run, "data")
    params, tags, metrics = (_named(data.get(name), name) for name in ("params", "tags", "metrics"))
    said = {**tags, **params}
    status = (text(info, "status") or "FINISHED").upper()
    if status in ("RUNNING", "SCHEDULED", "1", "2"):
        raise BadRow("info.status", "the run is still going on")
    name = _said(said, "model")
    if name is None:
        raise BadRow("data.params.model", "no parameter or tag names the model")
    measured, original, training = _measured(metrics)
    failed = status in ("FAILED", "KILLED", "4", "5") and not measured
    if not measured and not failed:
        raise BadRow("data.metrics", "there is no speed, memory or energy under a name that says its unit")
    mode = (_said(said, "mode") or ("training" if training else "inference")).lower()
    mode = "training" if mode.startswith("train") else "inference"
    platform = _platform(_said(said, "platform"))
    runtime = _said(said, "runtime")
    versions = {
        key.removesuffix("_version"): value
        for key in said
        if key.endswith("_version") and key not in PARAMETERS["runtime_version"] and (value := text(said, key))
    }
    workload = {
        "mode": mode,
        "scenario": _said(said, "scenario"),
        "batch_size": _size(said, "training_batch_size" if mode == "training" else "batch_size"),
        **{
            size: _size(said, size)
            for size in ("sequence_length", "image_size", "input_tokens", "output_tokens", "concurrency")
        },
        "optimizer": _said(said, "optimizer") if mode == "training" else None,
    }
    return Draft(
        kind="failure" if failed else "measurement",
        model=model_of(model_name(name)),
        workload={part: _word(value) if isinstance(value, str) else value for part, value in workload.items()},
        execution={
            "platform": platform or "other",
            "runtime": runtime_of(runtime, _said(said, "runtime_version")),
            "precision": precision_of(_said(said, "precision")),
        },
        hardware=_hardware(said, platform),
        metrics=measured,
        outcome="error" if failed else None,
        error="MLflowRunFailed" if failed else None,
        message=f"MLflow calls the run {status}" if failed else None,
        environment=environment(versions),
        time=moment(info.get("start_time"), "info.start_time"),
        row=row,
        original=original,
        key=text(info, "run_id") or text(info, "run_uuid"),
    )


def _named(value: Any, field: str) -> dict[str, Any]:
    """Return names and values of an object or of a list of {key, value}, the names as our tables write them."""
    if value is None:
        return {}
    if isinstance(value, list):
        pairs: Iterable[tuple[Any, Any]] = [
            (item.get("key"), item.get("value")) for item in value if isinstance(item, dict)
        ]
    elif isinstance(value, dict):
        pairs = value.items()
    else:
        raise BadRow(f"data.{field}", "is neither an object nor a list")
    return {re.sub(r"[\s./-]+", "_", str(name).strip().lower())[:200]: said for name, said in pairs}


def _said(said: Mapping[str, Any], wanted: str) -> str | None:
    return next((result for name in PARAMETERS[wanted] if (result := text(said, name)) is not None), None)


def _size(said: Mapping[str, Any], wanted: str) -> int | None:
    name = next((name for name in PARAMETERS[wanted] if text(said, name) is not None), None)
    try:
        return whole(said, name) if name is not None else None
    except BadRow as bad:
        raise BadRow(f"data.params.{bad.field}", bad.reason) from None


def _word(said: str) -> str | None:
    return re.sub(r"[^a-z0-9._+-]+", "_", said.strip().lower()).strip("._+-")[:64] or None


def _platform(said: str | None) -> str | None:
    word = (said or "").strip().lower().partition(":")[0]
    word = {"gpu": "cuda", "hip": "rocm"}.get(word, word)
    return word if word in PLATFORMS else None


def _hardware(said: Mapping[str, Any], platform: str | None) -> dict[str, Any]:
    """Return the device: its name where a parameter has one, else what the platform tells of it."""
    count = _size(said, "count") or 1
    device = next(
        (
            result
            for name in PARAMETERS["hardware"]
            if (result := text(said, name)) and any(letter.isdigit() for letter in result)
        ),
        None,
    )
    if device is not None and platform != "cpu":
        return hardware_of(device, count=count)
    if (cpu := _said(said, "cpu")) is not None and platform in (None, "cpu", "openvino"):
        return hardware_of(cpu, kind="cpu")
    if platform in ("cpu", "openvino", "wasm"):
        return UNKNOWN_CPU
    return {**UNKNOWN_GPU, "count": count} if platform in ("cuda", "rocm", "mps") else UNKNOWN


def _measured(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Return the metrics that are well known, what they were called, and whether their rates are all of training."""
    row: dict[str, Any] = {}
    original: dict[str, Any] = {}
    training: list[bool] = []
    for name, said in metrics.items():
        bare = _OURS.sub("", name)
        meaning = _meaning(_TRAINING.sub("", bare) if _TRAINING.match(bare) and "step_time" in bare else bare)
        if meaning is None:
            continue
        path, unit = meaning
        try:
            value = number({name: said}, name, unit=unit)
        except BadRow as bad:
            raise BadRow(f"data.metrics.{bad.field}", bad.reason) from None
        if value is None:
            continue
        outer, _, inner = path.partition(".")
        target = row.setdefault(outer, {}) if inner else row
        if (inner or outer) in target:
            continue
        target[inner or outer] = round(value) if path.endswith("_bytes") else value
        training.append(bool(_TRAINING.match(bare)))
        original[f"{name} ({unit})" if unit else name] = as_said(said)
    return row, original, bool(training) and any(training) and all(training)


def _meaning(name: str) -> tuple[str, str | None] | None:
    """Return the metric that a name means and the unit that it says, or None."""
    if (exact := RATES.get(name) or FIGURES.get(name)) is not None:
        return exact, None
    stem, _, unit = name.rpartition("_")
    if stem in TIMES and unit in _TIME_UNITS:
        return TIMES[stem], _TIME_UNITS[unit]
    if stem in SIZES and unit in _SIZE_UNITS:
        return SIZES[stem], _SIZE_UNITS[unit]
    return None
