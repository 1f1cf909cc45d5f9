"""How MLPerf names benchmarks, scenarios, devices and software, and what Assay calls them.

A benchmark's name may end in the accuracy that was required (`llama2-70b-99.9`), in its latency constraint (`-interactive`)
or in its suite (`-datacenter`, `-edge`). Accuracy and constraint decide what software may do, and two rows with the same
figures for `-99` and `-99.9` are two results: they stay in the options of the execution.

Which device did the work is said by the software as much as by the system: a Jetson that ran TFLite's ruy kernels ran on its
CPU cores. Rates of language models are tokens a second from the version on in which the rules said so, even where a table
calls them samples (mlcommons/inference, tools/submission: RESULT_FIELD_BENCHMARK_OVERWRITE).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from domain.catalogues import hardware
from ingest.importers.identity import hardware_of, model_of
from ingest.importers.refusals import BadRow

__all__ = [
    "Benchmark",
    "Scenario",
    "System",
    "benchmark_of",
    "counts_tokens",
    "runtime_named",
    "scenario_of",
    "version_of",
]

_MODELS: dict[str, tuple[str, str | None, str | None]] = {
    "resnet": ("microsoft/resnet-50", "vision", "image-classification"),
    "resnet50": ("microsoft/resnet-50", "vision", "image-classification"),
    "retinanet": ("mlperf/retinanet", "vision", "object-detection"),
    "ssd-small": ("mlperf/ssd-small", "vision", "object-detection"),
    "ssd-large": ("mlperf/ssd-large", "vision", "object-detection"),
    "ssd-mobilenet": ("mlperf/ssd-small", "vision", "object-detection"),
    "ssd-resnet34": ("mlperf/ssd-large", "vision", "object-detection"),
    "3d-unet": ("mlperf/3d-unet", "vision", "image-segmentation"),
    "bert": ("google-bert/bert-large-uncased", "embedding", "question-answering"),
    "rnnt": ("mlperf/rnnt", "audio", "automatic-speech-recognition"),
    "whisper": ("openai/whisper-large-v3", "audio", "automatic-speech-recognition"),
    "dlrm": ("mlperf/dlrm", None, "recommendation"),
    "dlrm-v2": ("mlperf/dlrm-v2", None, "recommendation"),
    "rgat": ("mlperf/rgat", None, "node-classification"),
    "pointpainting": ("mlperf/pointpainting", "vision", "object-detection"),
    "gptj": ("EleutherAI/gpt-j-6b", "text_generation", "text-generation"),
    "llama2-70b": ("meta-llama/Llama-2-70b-chat-hf", "text_generation", "text-generation"),
    "llama3.1-405b": ("meta-llama/Llama-3.1-405B-Instruct", "text_generation", "text-generation"),
    "llama3.1-8b": ("meta-llama/Llama-3.1-8B-Instruct", "text_generation", "text-generation"),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-Instruct-v0.1", "text_generation", "text-generation"),
    "deepseek-r1": ("deepseek-ai/DeepSeek-R1", "text_generation", "text-generation"),
    "gpt-oss-120b": ("openai/gpt-oss-120b", "text_generation", "text-generation"),
    "tiny-ad": ("mlperf/tiny-ad", "audio", "anomaly-detection"),
    "tiny-ic": ("mlperf/tiny-ic", "vision", "image-classification"),
    "tiny-kws": ("mlperf/tiny-kws", "audio", "audio-classification"),
    "tiny-vww": ("mlperf/tiny-vww", "vision", "image-classification"),
    "stable-diffusion-xl": ("stabilityai/stable-diffusion-xl-base-1.0", "diffusion", "text-to-image"),
}
"""Benchmark → model, category and task. What nobody publishes under a name of its own is `mlperf/…`."""
_TOKENS_SINCE = {
    "llama2-70b": (4, 0),
    "mixtral-8x7b": (4, 1),
    "gptj": (4, 1),
    "llama3.1-405b": (5, 0),
    "llama3.1-8b": (5, 1),
    "deepseek-r1": (5, 1),
    "whisper": (5, 1),
    "gpt-oss-120b": (6, 0),
}
_ACCURACY = re.compile(r"-(99(?:\.\d+)?)$")
_SCENARIOS: dict[str, tuple[str, int | None]] = {
    "offline": ("offline", None),
    "server": ("server", None),
    "interactive": ("server", None),
    "singlestream": ("single_stream", 1),
    "multistream": ("single_stream", 8),
}
_DEVICES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(words, re.IGNORECASE), kind, platform)
    for words, kind, platform in (
        (r"nvidia|tesla|geforce|quadro|jetson|\bg[hb]\d{3}\b|\b[abhl]\d{2,3}\b.*(?:pcie|sxm)", "gpu", "cuda"),
        (r"instinct|radeon|\bmi\d{3}", "gpu", "rocm"),
        (r"\btpu\b|tpu-?v\d|trillium", "tpu", "tpu"),
        (r"gaudi|habana", "other", "hpu"),
        (r"intel.*(?:gpu|flex|max|arc|iris)", "gpu", "xpu"),
        (r"mali|adreno|powervr|videocore|apple.*gpu", "gpu", "other"),
        (r"cloud ai|hailo|davinci|mlsoc|neuron|npu|hexagon", "npu", "other"),
    )
)
_ON_PROCESSOR = re.compile(r"\bruy\b|\bneon\b|xnnpack|(?:^|-)cpu-", re.IGNORECASE)
"""Kernels for CPU cores, and the part of a system's name that mlcommons' automation gives to runs on them."""
_ON_GPU = re.compile(r"vllm|sglang|tensorrt|cuda|rocm", re.IGNORECASE)
"""Software that is for GPUs, whatever the name of the harness that asked it says."""
_PACKAGING = re.compile(r"[\s_-]*(?:\(?\bNPS\d.*|\(?\d+\s?GB\b.*)$", re.IGNORECASE)
_REMARK = re.compile(r"\s*\([^)]*\)\s*$")
_BEHIND_MEMORY = re.compile(r"(\d\s?GB)\b.*$", re.IGNORECASE)
_RUNTIMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(words, re.IGNORECASE), name)
    for words, name in (
        (r"vllm", "vllm"),
        (r"sglang", "sglang"),
        (r"tensorrt[\s_-]?llm|trt-?llm", "tensorrt-llm"),
        (r"tensorrt", "tensorrt"),
        (r"openvino", "openvino"),
        (r"onnx ?runtime|\bort\b", "onnxruntime"),
        (r"arm ?nn", "armnn"),
        (r"tf ?lite|tensorflow lite|litert", "tflite"),
        (r"deepsparse", "deepsparse"),
        (r"migraphx", "migraphx"),
        (r"\btvm\b", "tvm"),
        (r"cloud ai sdk", "cloud-ai-sdk"),
        (r"sima sdk", "sima-sdk"),
        (r"tensorflow", "tensorflow"),
        (r"\bjax\b", "jax"),
        (r"mxnet", "mxnet"),
        (r"pytorch|\btorch\b", "torch"),
    )
)
_VERSION = re.compile(r"[\s_=:-]*(?:sdk\s*)?(?:version\s*)?v?(\d+(?:\.\d+)+[\w.+-]*)", re.IGNORECASE)
_LIBRARY = re.compile(r"\s*([A-Za-z][A-Za-z .+/_-]*?)[\s_-]+v?(\d[\w.+~:-]*)\s*")
_NONE = frozenset(("", "-", "--", "n/a", "na", "none", "null", "undefined", "cpu"))


class Benchmark(NamedTuple):
    """The model of an event, the bare name of the benchmark, and what it demands, as options of the execution."""

    model: dict[str, Any]
    base: str
    options: dict[str, str]


class Scenario(NamedTuple):
    """Assay's word, how many samples a query has where that is fixed, and MLPerf's word without case and marks."""

    word: str
    batch_size: int | None
    name: str


class System(NamedTuple):
    """What a row says of the machine and the software; counts are per node."""

    accelerator: str | None = None
    accelerators: int | None = None
    nodes: int | None = None
    processor: str | None = None
    processors: int | None = None
    cores: int | None = None
    software: str | None = None
    name: str | None = None
    os: str | None = None

    def device(self) -> tuple[dict[str, Any], str]:
        """Return the hardware that did the work, all devices of all nodes, and its platform; not to be changed."""
        return _device(self)

    def on_accelerator(self) -> bool:
        """Whether the accelerator did the work: there is one, and the software is for it and not for CPU cores."""
        if self.accelerator is None or self.accelerator.strip().lower() in _NONE:
            return False
        text = f"{self.name or ''} {self.software or ''}"
        if "-gpu-" in text:
            return True
        return self.accelerators != 0 and (bool(_ON_GPU.search(text)) or not _ON_PROCESSOR.search(text))

    def libraries(self) -> dict[str, str]:
        """Return name → version of the software, as far as it is said in pairs: `TensorRT 10.8, CUDA 12.9`."""
        parts = (_LIBRARY.fullmatch(part) for part in re.split(r"[,;]", self.software or ""))
        return {re.sub(r"[\s_/]+", "-", part[1].lower()): part[2] for part in parts if part}


@lru_cache(maxsize=4096)
def _device(system: System) -> tuple[dict[str, Any], str]:
    nodes = system.nodes or 1
    if system.on_accelerator() and system.accelerator:
        name = system.accelerator
        result = next(((kind, on) for pattern, kind, on in _DEVICES if pattern.search(name)), ("other", "other"))
        hardware_ = hardware_of(_device_name(name), kind=result[0], count=(system.accelerators or 1) * nodes)
        return hardware_, result[1]
    platform = "openvino" if re.search("openvino", system.software or "", re.IGNORECASE) else "cpu"
    if system.processor is None:
        return {"id": "unknown-cpu", "kind": "cpu", "count": 1}, platform
    processor = re.sub(r"^\d+\s?x\s?", "", system.processor)
    return hardware_of(processor, kind="cpu", count=(system.processors or 1) * nodes, cores=system.cores), platform


def _device_name(name: str) -> str:
    """Return the name without its packaging, where that names a device of the catalogue; a slice (MIG) keeps its own."""
    if "mig" in name.lower():
        return name
    bare = _PACKAGING.sub("", name) or name
    candidates = (name, _REMARK.sub("", name), _BEHIND_MEMORY.sub(r"\1", name), bare)
    return next((candidate for candidate in candidates if hardware.find(candidate) is not None), bare)


@lru_cache(maxsize=4096)
def benchmark_of(name: str) -> Benchmark:
    """Return what a benchmark's name means; a model that MLPerf does not name (open division) stands for itself."""
    base = name.strip().lower().replace("_", "-").replace("llama3-1-", "llama3.1-")
    options: dict[str, str] = {}
    if match := _ACCURACY.search(base):
        options["accuracy_target"] = f"{match[1]}%"
        base = base[: match.start()]
    if base.endswith("-interactive"):
        options["constraint"] = "interactive"
    base = re.sub(r"-(?:interactive|datacenter|edge)$", "", base)
    model = _MODELS.get(base)
    if model is None:
        return Benchmark(model_of(name), base, {})
    return Benchmark(model_of(model[0], category=model[1], task=model[2]), base, options)


def scenario_of(name: str) -> Scenario:
    """Return the scenario; a MultiStream query is one call with 8 samples (rules since v2.0). BadRow where unknown."""
    word = re.sub(r"[^a-z]", "", name.lower())
    if word not in _SCENARIOS:
        raise BadRow("Scenario", f"{name[:40]!r} is no scenario of MLPerf Inference")
    return Scenario(*_SCENARIOS[word], name=word)


def version_of(name: str | None) -> tuple[int, int] | None:
    """Return (5, 1) of `v5.1`; None where there is none."""
    match = re.search(r"(\d+)\.(\d+)", name or "")
    return (int(match[1]), int(match[2])) if match else None


def counts_tokens(base: str, scenario: str, version: tuple[int, int] | None) -> bool:
    """Whether the rate of this benchmark is tokens a second by the rules of that version; in v4.0 only Offline's was."""
    since = _TOKENS_SINCE.get(base)
    if since is None or version is None or version < since:
        return False
    return version != (4, 0) or scenario == "offline"


@lru_cache(maxsize=4096)
def runtime_named(software: str | None) -> dict[str, Any] | None:
    """Return the runtime in a list of software, the most telling of them, with its version where one stands behind it."""
    for pattern, name in _RUNTIMES:
        if match := pattern.search(software or ""):
            version = _VERSION.match(software or "", match.end())
            return {"name": name} | ({"version": version[1]} if version else {})
    return None
