"""Reports of huggingface/optimum-benchmark (0.2 to 0.6): `benchmark.json`, or `benchmark_report.json` with its config.

`benchmark.json` is `{"config": …, "report": …}`; otherwise the report is a file of its own and its config lies beside
it as `benchmark_config.json`. One file is one configuration. The config has `backend` (name, version, model, task,
device, dtypes …), `scenario` (in 0.2 `benchmark`: inference or training, input shapes, `generate_kwargs`), `launcher`
and `environment` (cpu, cpu_count, cpu_ram_mb, gpu, versions). The report has targets: `load_model` (once `load`),
`first_forward`, `forward`; of generation `prefill`, `decode`, `per_token` and sometimes `generate`; of diffusion
`call`; of training `overall`, `warmup`, `train`. A target has `latency` (s: mean, p50 …, stdev, count, values),
`memory` (MB = 10^6: max_ram, max_allocated, max_process_vram, max_global_vram), `throughput`, `energy` (kWh) and
`efficiency`.

Where versions differ, or are wrong:

* A throughput that is not batch ÷ mean latency is computed so and the file's kept in `original`: some versions divide
  all steps of a training by the time of one, or count the tokens of `generate` as samples.
* The energy of a call is the batch ÷ `efficiency`, because `energy` was once that of all calls together.
* The latency of a generation is that of `generate`, or the sum of the means of `prefill` and `decode`; `ttft_ms` is
  prefill's, `tpot_ms` one token's: medians where there are any, else means.
* `sequence_length` is in every config, and is taken for tasks that read text alone. Where `max_new_tokens` is not said,
  decode's own throughput tells it.

Not taken: `warmup`, `overall`, `per_step`, global VRAM (other processes' too), carbon, and the energy_star scenario.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of, precision_of, runtime_of
from ingest.importers.members import (
    as_said,
    beside,
    bytes_of,
    count,
    cpu_of,
    first_word,
    gpus_of,
    latency_of,
    members,
    model_name,
    quantity,
    series,
    truth,
    within,
    word,
)
from ingest.importers.reading import UNITS, BadFile, json_document
from ingest.importers.refusals import BadRow, Refused

__all__ = ["OptimumBenchmark"]

REPORT = "benchmark_report.json"
CONFIG = "benchmark_config.json"
_JOULE_OF_KWH = 3.6e6
_AGREE = 0.01
"""A throughput further than this from batch ÷ mean latency is not what it says."""
_CATEGORIES = {
    "text-generation": "text_generation",
    "text2text-generation": "text_to_text",
    "summarization": "text_to_text",
    "translation": "text_to_text",
    "feature-extraction": "embedding",
    "fill-mask": "embedding",
    "text-classification": "embedding",
    "token-classification": "embedding",
    "question-answering": "embedding",
    "multiple-choice": "embedding",
    "sentence-similarity": "embedding",
    "image-classification": "vision",
    "object-detection": "vision",
    "semantic-segmentation": "vision",
    "image-segmentation": "vision",
    "audio-classification": "audio",
    "audio-frame-classification": "audio",
    "audio-xvector": "audio",
    "automatic-speech-recognition": "audio",
    "image-to-text": "multimodal",
    "image-text-to-text": "multimodal",
    "visual-question-answering": "multimodal",
    "text-to-image": "diffusion",
    "image-to-image": "diffusion",
    "inpainting": "diffusion",
    "stable-diffusion": "diffusion",
    "stable-diffusion-xl": "diffusion",
}
_TEXT = frozenset(("text_generation", "text_to_text", "embedding", "multimodal"))
_STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "stddev": "stdev"}
_OPTIONS = (
    "device_map",
    "attn_implementation",
    "cache_implementation",
    "quantization_scheme",
    "quantize",
    "peft_type",
    "deepspeed_inference",
    "autocast_enabled",
    "use_cache",
    "use_merged",
    "tp_plan",
    "bettertransformer",
)
"""Members of the backend that change the work."""


class OptimumBenchmark:
    """Reports of optimum-benchmark (JSON)."""

    name = "optimum-benchmark"
    title = "optimum-benchmark benchmark.json, or benchmark_report.json with its benchmark_config.json"

    def sniff(self, file: File) -> bool:
        """Return whether it is a benchmark with its config, or a report by its name and its latencies."""
        if file.suffix != ".json":
            return False
        head = file.head()
        if file.base.endswith(REPORT):
            return '"latency"' in head
        return '"config"' in head and '"report"' in head and '"optimum_benchmark.' in head

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its one measurement and the end of the run; see Importer."""
        config, report = _parts(file)
        said = members(config, "environment") if isinstance(config.get("environment"), dict) else {}
        document = Document(
            file,
            self.name,
            source=f"optimum-benchmark {word(said, 'optimum_benchmark_version') or ''}".strip(),
            environment=_environment(said),
        )
        yield from document.events(_rows(document, config, report))


def _parts(file: File) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return config and report."""
    document = json_document(file)
    if isinstance(document, dict) and {"config", "report"} <= document.keys():
        config, report = document["config"], document["report"]
    else:
        place = beside(file, file.base.removesuffix(REPORT) + CONFIG)
        if place is None:
            raise BadFile(f"does not say what ran: there is no {CONFIG} beside it")
        config, report = json_document(place), document
    if not (isinstance(config, dict) and isinstance(report, dict)):
        raise BadFile("has no objects `config` and `report`")
    return config, report


def _rows(document: Document, config: dict[str, Any], report: dict[str, Any]) -> Iterator[Draft | Refused]:
    try:
        yield _draft(config, report)
    except BadRow as bad:
        content = json.dumps({"config": config, "report": report}, indent=1)
        yield document.refused(bad.reason, row=1, field=bad.field, content=content)


class _Work(NamedTuple):
    """What ran, and what its targets are called."""

    workload: dict[str, Any]
    target: str
    options: dict[str, Any]


def _draft(config: dict[str, Any], report: dict[str, Any]) -> Draft:
    backend = members(config, "backend")
    said = word(backend, "model")
    if said is None:
        raise BadRow("config.backend.model", "is missing")
    task = word(backend, "task")
    category = _CATEGORIES.get(task or "")
    model = model_of(model_name(said), task=task, family=word(backend, "model_type"), category=category)
    if truth(backend.get("no_weights")):
        model["weights"] = "random"
    scenario = members(config, "scenario") or members(config, "benchmark")
    work = _training(config, scenario) if "train" in report else _inference(scenario, report, category)
    execution = _execution(config, backend)
    if work.options:
        execution["options"] = (execution.get("options") or {}) | work.options
    metrics, original = _metrics(report, work)
    return Draft(
        model=model,
        workload=work.workload,
        execution=execution,
        hardware=_hardware(config, backend),
        metrics=metrics,
        row=1,
        original=original,
        claims={"samples_ms": _samples(report, work.target)},
    )


def _samples(report: dict[str, Any], target: str) -> list[float]:
    said = members(report, f"{target}.latency")
    return series(said.get("values"), f"{target}.latency.values", _unit(said, target))


def _unit(said: dict[str, Any], target: str) -> str:
    unit = (word(said, "unit") or "s").lower()
    if UNITS.get(unit, ("", 0))[0] != "ms":
        raise BadRow(f"report.{target}.latency.unit", f"is {unit!r}, which is no unit of time")
    return unit


def _inference(scenario: dict[str, Any], report: dict[str, Any], category: str | None) -> _Work:
    kind = word(scenario, "name") or "inference"
    if kind != "inference":
        raise BadRow("config.scenario.name", f"a scenario {kind!r} measures a whole data set, not one call")
    shapes, request = members(scenario, "input_shapes"), members(scenario, "generate_kwargs")
    workload: dict[str, Any] = {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": count(shapes, "batch_size"),
    }
    options = {
        name: result for name in ("num_beams", "num_return_sequences") if (result := count(request, name) or 1) > 1
    }
    length = count(shapes, "sequence_length") if category in _TEXT or category is None else None
    height, width = count(shapes, "height"), count(shapes, "width")
    if height is not None and height == width:
        workload["image_size"] = height
    if "prefill" in report:
        workload |= {"input_tokens": length, "output_tokens": _new_tokens(scenario, request, report, workload)}
        return _Work(workload, "generate", options)
    if "call" in report:
        steps = count(scenario, "call_kwargs.num_inference_steps")
        return _Work(workload, "call", {"num_inference_steps": steps} if steps else {})
    return _Work({**workload, "sequence_length": length}, "forward", options)


def _new_tokens(
    scenario: dict[str, Any], request: dict[str, Any], report: dict[str, Any], workload: dict[str, Any]
) -> int | None:
    """Return the tokens that each sequence got: as asked, or as the decoding's throughput × latency tells."""
    stated = count(request, "max_new_tokens") or count(scenario, "new_tokens")
    if stated is not None:
        return stated
    rate, mean_s = quantity(report, "decode.throughput.value"), quantity(report, "decode.latency.mean")
    if not (rate and mean_s and workload["batch_size"]):
        return None
    document = rate * mean_s / workload["batch_size"]
    return round(document) + 1 if abs(document - round(document)) <= _AGREE * document else None


def _training(config: dict[str, Any], scenario: dict[str, Any]) -> _Work:
    request, shapes = members(scenario, "training_arguments"), members(scenario, "dataset_shapes")
    each, accumulated = (
        count(request, "per_device_train_batch_size"),
        count(request, "gradient_accumulation_steps") or 1,
    )
    processes = _processes(config)
    workload = {
        "mode": "training",
        "scenario": "offline",
        "batch_size": each * accumulated * processes if each else None,
        "sequence_length": count(shapes, "sequence_length"),
        "optimizer": word(request, "optim"),
        "gradient_checkpointing": truth(request.get("gradient_checkpointing")),
    }
    return _Work(workload, "train", {"gradient_accumulation_steps": accumulated} if accumulated > 1 else {})


def _processes(config: dict[str, Any]) -> int:
    launcher = members(config, "launcher")
    return (count(launcher, "nproc_per_node") or 1) if word(launcher, "name") == "torchrun" else 1


def _metrics(report: dict[str, Any], work: _Work) -> tuple[dict[str, Any], dict[str, Any]]:
    latency, original = _latency(report, work.target)
    metrics: dict[str, Any] = {"latency_ms": latency or None}
    if work.target == "generate":
        if not latency:
            latency = _sum_of_parts(report)
            metrics["latency_ms"] = latency or None
        metrics |= _tokens(report, work, latency, original)
    metrics["throughput_per_s"] = _throughput(report, work, latency.get("mean"), original)
    metrics |= _memory(report, work.target) | {"energy_j": _energy(report, work, original)}
    for name, targets in (
        ("load_ms", ("load_model", "load")),
        ("first_run_ms", ("first_forward", "first_generate", "first_call")),
    ):
        seconds = [result for target in targets if (result := quantity(report, f"{target}.latency.mean", unit="s"))]
        metrics[name] = seconds[0] if seconds else None
    if all(value is None for value in metrics.values()):
        raise BadRow(f"report.{work.target}", "measures nothing that Assay has a metric for")
    return metrics, original


def _latency(report: dict[str, Any], target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    said = members(report, f"{target}.latency")
    samples = _samples(report, target)
    n = count(said, "count") or len(samples) or None
    result, original = latency_of(said, _STATISTICS, unit=_unit(said, target), n=n, where=f"{target}.latency.")
    if result and samples:
        result |= {"min": min(samples), "max": max(samples)}
    return result, original


def _sum_of_parts(report: dict[str, Any]) -> dict[str, Any]:
    parts = [quantity(report, f"{target}.latency.mean", unit="s") for target in ("prefill", "decode")]
    return {"mean": parts[0] + parts[1]} if parts[0] and parts[1] else {}


def _typical(report: dict[str, Any], target: str, original: dict[str, Any]) -> float | None:
    """Return a target's median latency in ms, or its mean."""
    for name in ("p50", "mean"):
        typical = quantity(report, f"{target}.latency.{name}", unit="s")
        if typical is not None:
            original[f"{target}.latency.{name} (s)"] = as_said(within(report, f"{target}.latency.{name}"))
            return typical
    return None


def _tokens(
    report: dict[str, Any], work: _Work, latency: dict[str, Any], original: dict[str, Any]
) -> dict[str, float | None]:
    made = work.workload["output_tokens"]
    each = _typical(report, "per_token", original)
    if each is None and made and made > 1:
        whole = _typical(report, "decode", original)
        each = whole / (made - 1) if whole else None
    mean_ms, batch = latency.get("mean"), work.workload["batch_size"]
    rate = within(report, "decode.throughput.value")
    if rate is not None:
        original["decode.throughput (tokens/s, without the first)"] = as_said(rate)
    return {
        "ttft_ms": _typical(report, "prefill", original),
        "tpot_ms": each,
        "tokens_per_s": batch * made / mean_ms * 1000 if batch and made and mean_ms else None,
    }


def _throughput(report: dict[str, Any], work: _Work, mean_ms: float | None, original: dict[str, Any]) -> float | None:
    stated, batch = quantity(report, f"{work.target}.throughput.value"), work.workload["batch_size"]
    if batch is None or mean_ms is None:
        return stated
    value: float = batch / mean_ms * 1000
    if stated is None or abs(stated - value) <= _AGREE * value:
        return stated or value
    unit = word(report, f"{work.target}.throughput.unit") or "samples/s"
    original[f"{work.target}.throughput ({unit})"] = stated
    return value


def _memory(report: dict[str, Any], target: str) -> dict[str, int | None]:
    """Return the largest of the target and, for generation, of its parts."""
    targets = (target, "prefill", "decode") if target == "generate" else (target,)
    values: dict[str, int | None] = {}
    for ours, names in (
        ("peak_memory_bytes", ("max_ram",)),
        ("device_memory_bytes", ("max_allocated", "max_process_vram")),
    ):
        sizes = []
        for item in targets:
            unit = (word(report, f"{item}.memory.unit") or "MB").lower()
            said = [quantity(report, f"{item}.memory.{name}", unit=unit if unit in UNITS else "mb") for name in names]
            sizes += [size for size in said if size is not None][:1]
        values[ours] = round(max(sizes)) if sizes else None
    return values


def _energy(report: dict[str, Any], work: _Work, original: dict[str, Any]) -> float | None:
    kwh = quantity(report, f"{work.target}.energy.total")
    if kwh is not None:
        original[f"{work.target}.energy.total (kWh)"] = kwh
    a_kwh, batch = quantity(report, f"{work.target}.efficiency.value"), work.workload["batch_size"]
    return batch / a_kwh * _JOULE_OF_KWH if a_kwh and batch and work.target != "train" else None


def _gpu_names(config: dict[str, Any]) -> list[str]:
    said = within(config, "environment.gpu")
    return [name for name in (said if isinstance(said, list) else [said]) if isinstance(name, str)]


def _device(backend: dict[str, Any]) -> str:
    return (word(backend, "device") or "cpu").lower().partition(":")[0]


def _hardware(config: dict[str, Any], backend: dict[str, Any]) -> dict[str, Any]:
    device = _device(backend)
    cpu, processors = word(config, "environment.cpu"), count(config, "environment.cpu_count")
    if device == "cpu":
        return cpu_of(cpu, processors)
    if device == "mps":
        return gpus_of([f"{cpu} GPU"] if cpu else [])
    names = _gpu_names(config)
    used = first_word(backend, ("device_ids",))
    ids = [int(part) for part in used.split(",") if part.strip().isdigit()] if used else [0]
    if len(names) == 1:
        return gpus_of(names * len(ids))
    return gpus_of([names[item] for item in ids if item < len(names)] or names[:1])


def _execution(config: dict[str, Any], backend: dict[str, Any]) -> dict[str, Any]:
    name, version = word(backend, "name") or "pytorch", word(backend, "version")
    processes = _processes(config)
    options: dict[str, Any] = {
        option: said
        for option in _OPTIONS
        if (said := backend.get(option)) not in (None, False) and isinstance(said, str | bool | int)
    }
    if truth(within(config, "launcher.numactl")):
        options["numactl"] = True
    return {
        "platform": _platform(name, _device(backend), version, _gpu_names(config)),
        "runtime": runtime_of(name.replace("_", "."), version.rpartition(":")[2] if version else None),
        "precision": _precision(backend),
        "compiled": truth(backend.get("torch_compile")) if name == "pytorch" else None,
        "threads": count(backend, "intra_op_num_threads"),
        "parallelism": {"data": processes} if processes > 1 else None,
        "options": options or None,
    }


def _platform(name: str, device: str, version: str | None, gpus: list[str]) -> str:
    if name == "openvino":
        return "openvino"
    amd = "rocm" in (version or "") or any("amd" in gpu.lower() or "advanced micro" in gpu.lower() for gpu in gpus)
    return "rocm" if device == "cuda" and amd else device


def _precision(backend: dict[str, Any]) -> str | None:
    """Return what the weights or the arithmetic were: quantization first, then autocast, then the dtype."""
    quantized = members(backend, "quantization_config")
    for bits in (4, 8):
        truths = (truth(where.get(f"load_in_{bits}bit")) for where in (quantized, backend))
        if any(truths) or quantity(quantized, "bits") == bits:
            return f"int{bits}"
    if (word(backend, "name") or "") == "onnxruntime" and truth(backend.get("quantization")):
        return "int8"
    cast = precision_of(first_word(backend, ("autocast_dtype", "amp_dtype")))
    if truth(backend.get("autocast_enabled")) or truth(backend.get("amp_autocast")):
        return f"amp-{cast}" if cast else "amp"
    said = first_word(backend, ("quantize", "torch_dtype", "dtype"))
    return precision_of(said) if said != "auto" else None


def _environment(said: dict[str, Any]) -> dict[str, Any] | None:
    libraries = {
        name.removesuffix("_version"): result
        for name in said
        if name.endswith("_version") and name != "python_version" and (result := word(said, name))
    }
    return environment(
        libraries,
        os=word(said, "platform"),
        python=word(said, "python_version"),
        cpu=word(said, "cpu"),
        machine=word(said, "machine"),
        memory_bytes=bytes_of(said, "cpu_ram_mb", "mb"),
    )
