"""How each engine is started: image, command and flags, as far as its documentation has them.

| engine | read in |
| --- | --- |
| vLLM | docs.vllm.ai, engine arguments; installation on XPU for its image |
| SGLang | docs.sglang.io, server arguments |
| TensorRT-LLM | nvidia.github.io/TensorRT-LLM, trtllm-serve |
| llama.cpp | tools/server/README.md and docs/docker.md |
| OpenVINO | docs.openvino.ai, Model Server |
| transformers | its serve command |
"""

from __future__ import annotations

import re
import shlex

import msgspec

from domain.answers import RankedOption
from domain.errors import UsageError
from domain.vocabulary import WEIGHT_BITS, arithmetic_precision

__all__ = ["Command", "bench", "serve"]

_TORCH_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
RESULTS = "assay.ndjson"
_VERSION = re.compile(r"\d+(\.\d+)+[a-z0-9.]*")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in a container: `image`, its `words`, and where it listens and says that it is ready.

    `before` and `after` are shell lines that run in the container around it. Without a port it is a job that ends.
    """

    image: str
    words: tuple[str, ...]
    port: int | None = None
    health: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """All of it as one line of a POSIX shell."""
        return " && ".join((*self.before, shlex.join(self.words), *self.after))

    @property
    def entry(self) -> tuple[str, ...]:
        """The words that the container starts with: a shell where there is something to do before or after."""
        return ("sh", "-c", self.line) if self.before or self.after else self.words


def serve(engine: str, model: str, option: RankedOption, tokens: int | None) -> Command:
    """Return how an engine serves a model as an option has it; `tokens` are those of the longest request.

    Raises UsageError for an engine that is not started in a container on this platform.
    """
    writers = {
        "vllm": _vllm,
        "sglang": _sglang,
        "tensorrt-llm": _tensorrt_llm,
        "llama.cpp": _llama_cpp,
        "llama.cpp-vulkan": _llama_cpp,
        "openvino": _openvino,
        "transformers": _transformers,
    }
    if engine not in writers or (engine, option.platform) in (("sglang", "rocm"), ("transformers", "xpu")):
        raise UsageError(
            f"it is not known how {engine} is started in a container on {option.platform}.",
            field="runtime",
            remedy="Ask with --runtime vllm or llama.cpp.",
        )
    return writers[engine](model, option, tokens)


def bench(model: str, option: RankedOption) -> Command:
    """Return how `assay bench` runs the configuration of an option, and measures it at the same time."""
    if option.platform == "xpu":
        raise UsageError(
            "no image has torch for xpu and Assay.",
            field="platform",
            remedy=f"Ask with --platform openvino, or run it on the device: {option.command}",
        )
    extras = {"openvino": "runner", "onnxruntime": "runner,onnxruntime"}.get(option.platform, "runner")
    if option.platform in ("cpu", "cuda") and option.runtime == "onnxruntime":
        extras = "runner,onnxruntime"
    assumed = [f"the events of the measurement end the log: save them as {RESULTS} and send them with assay post"]
    if option.runtime not in (None, "torch", "openvino", "onnxruntime"):
        assumed.append(f"the figure is of {option.runtime}; assay bench runs what it has for {option.platform}")
    image = "rocm/pytorch:latest" if option.platform == "rocm" else "python:3.12-slim"
    return Command(
        image=image,
        words=(
            "assay",
            "bench",
            model,
            *option.command.removeprefix(f"assay bench {model} ").split(),
            "--out",
            RESULTS,
        ),
        before=(f"pip install --quiet 'assay-bench[{extras}]'",),
        after=(f"cat {RESULTS}",),
        assumed=tuple(assumed),
    )


def _size(option: RankedOption) -> str:
    return str(option.hardware_count or 1)


def _requests(option: RankedOption) -> int:
    return option.concurrency or option.batch_size or 1


def _tag(option: RankedOption, prefix: str, otherwise: str) -> str:
    """Return the image's tag of the version that the figure is of, where that is a version."""
    version = option.runtime_version or ""
    return f"{prefix}{version}" if _VERSION.fullmatch(version) else otherwise


def _weights(option: RankedOption, *, converts: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Return the flags of vLLM and SGLang for a precision, and what they leave to the checkpoint.

    Precisions of `converts` are made of a wider checkpoint when it is loaded.
    """
    precision = arithmetic_precision(option.precision)
    if precision in _TORCH_TYPES:
        return ["--dtype", _TORCH_TYPES[precision]], []
    if precision in converts:
        return ["--quantization", precision], [f"weights are converted to {precision} when they are loaded"]
    if precision == "unknown":
        return [], ["nobody said in which precision the figure was measured; the checkpoint decides"]
    return [], [f"the checkpoint named is already in {precision}, and the engine reads that from its config"]


def _offload(option: RankedOption) -> list[str]:
    if not option.offloaded_layers:
        return []
    return [f"{option.offloaded_layers} layers stay in the host's memory"]


def _vllm(model: str, option: RankedOption, tokens: int | None) -> Command:
    flags, assumed = _weights(option, converts=("fp8",))
    words = ["vllm", "serve", model, *flags, "--tensor-parallel-size", _size(option)]
    words += ["--max-num-seqs", str(_requests(option))]
    words += ["--max-model-len", str(tokens)] if tokens else []
    if option.offloaded_layers and option.host_memory_bytes:
        words += ["--cpu-offload-gb", str(-(-option.host_memory_bytes // 10**9))]
    image = f"vllm/vllm-openai:{_tag(option, 'v', 'latest')}"
    if option.platform == "rocm":
        image = "rocm/vllm:latest"
    elif option.platform == "xpu":
        image = "vllm-xpu-env"
        assumed.append(
            "the image is built as vLLM documents for XPU: docker build -f docker/Dockerfile.xpu -t vllm-xpu-env ."
        )
    return Command(
        image=image,
        words=(*words, "--host", "0.0.0.0", "--port", "8000"),
        port=8000,
        health="/health",
        assumed=(*assumed, *_offload(option)),
    )


def _sglang(model: str, option: RankedOption, tokens: int | None) -> Command:
    flags, assumed = _weights(option, converts=("fp8",))
    words = ["python3", "-m", "sglang.launch_server", "--model-path", model, *flags, "--tp-size", _size(option)]
    words += ["--max-running-requests", str(_requests(option))]
    words += ["--context-length", str(tokens)] if tokens else []
    return Command(
        image=f"lmsysorg/sglang:{_tag(option, 'v', 'latest')}",
        words=(*words, "--host", "0.0.0.0", "--port", "30000"),
        port=30000,
        health="/health",
        assumed=tuple(assumed),
    )


def _tensorrt_llm(model: str, option: RankedOption, tokens: int | None) -> Command:
    precision = option.precision
    words = ["trtllm-serve", model, "--backend", "pytorch", "--tp_size", _size(option)]
    words += ["--max_batch_size", str(_requests(option))]
    words += ["--max_seq_len", str(tokens)] if tokens else []
    return Command(
        image=f"nvcr.io/nvidia/tensorrt-llm/release:{_tag(option, '', '1.0.0')}",
        words=(*words, "--host", "0.0.0.0", "--port", "8000"),
        port=8000,
        health="/health",
        assumed=(f"the checkpoint named is in {precision}: TensorRT-LLM takes the precision from it",),
    )


def _llama_cpp(model: str, option: RankedOption, tokens: int | None) -> Command:
    tags = {"cuda": "server-cuda", "rocm": "server-rocm", "xpu": "server-intel", "cpu": "server"}
    vulkan = option.runtime == "llama.cpp-vulkan"
    requests, quantized = _requests(option), option.precision in WEIGHT_BITS
    name = f"{model}:{option.precision.upper()}" if quantized else model
    words = ["--hf-repo", name, "--parallel", str(requests)]
    words += ["--ctx-size", str(tokens * requests)] if tokens else []
    words += ["--n-gpu-layers", "999"] if option.platform != "cpu" and not option.offloaded_layers else []
    assumed = ["the repository named holds GGUF files; where it does not, name one of this model that does"]
    return Command(
        image=f"ghcr.io/ggml-org/llama.cpp:{'server-vulkan' if vulkan else tags[option.platform]}",
        words=("/app/llama-server", *words, "--host", "0.0.0.0", "--port", "8080"),
        port=8080,
        health="/health",
        assumed=(*assumed, *_offload(option)),
    )


def _openvino(model: str, option: RankedOption, tokens: int | None) -> Command:  # noqa: ARG001 - as the others
    graphics = "igpu" in option.hardware or "-arc-" in option.hardware or "-gpu-" in option.hardware
    words = ["--source_model", model, "--model_repository_path", "/models", "--task", "text_generation"]
    words += ["--target_device", "GPU" if graphics else "CPU"]
    return Command(
        image=f"openvino/model_server:{'latest-gpu' if graphics else 'latest'}",
        words=("/ovms/bin/ovms", *words, "--rest_port", "8000"),
        port=8000,
        health="/v2/health/ready",
        assumed=(
            f"the model named is in OpenVINO's format with weights in {option.precision}",
            "optimum-cli export openvino converts others",
        ),
    )


def _transformers(model: str, option: RankedOption, tokens: int | None) -> Command:  # noqa: ARG001 - as the others
    precision = arithmetic_precision(option.precision)
    words = ["transformers", "serve", "--force-model", model, "--continuous-batching"]
    words += ["--dtype", _TORCH_TYPES[precision]] if precision in _TORCH_TYPES else []
    held = () if precision in _TORCH_TYPES else (f"the checkpoint named is already in {precision}",)
    image = "rocm/pytorch:latest" if option.platform == "rocm" else "python:3.12-slim"
    return Command(
        image=image,
        words=(*words, "--host", "0.0.0.0", "--port", "8000"),
        port=8000,
        health="/health",
        before=(
            f"pip install --quiet 'transformers[serving]' accelerate{'' if option.platform == 'rocm' else ' torch'}",
        ),
        assumed=held,
    )
