"""The words of Assay (design, section 4), each list once.

Lists marked open admit other words: a platform, runtime or precision that we have not met is a fact too.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "BASES",
    "BENCH_FLAGS",
    "CATEGORIES",
    "HARDWARE_KINDS",
    "IN_BROWSERS",
    "MODES",
    "NO_EVIDENCE",
    "ORIGINS",
    "OUTCOMES",
    "PLATFORMS",
    "PRECISIONS",
    "PRECISION_BITS",
    "SCENARIOS",
    "SECOND_RUNTIMES",
    "STAGES",
    "STORED_ONLY",
    "VERDICTS",
    "WEIGHTS",
    "WEIGHT_BITS",
    "arithmetic_precision",
    "asked_name",
    "platforms_named",
    "precision_named",
]

PLATFORMS = (
    "cpu",
    "cuda",
    "rocm",
    "mps",
    "openvino",
    "qnn",
    "wasm",
    "webgpu",
    "webnn",
    "xpu",
    "hpu",
    "tpu",
    "other",
)
"""Open list, in the order in which tables and colours show them."""

BENCH_FLAGS = {
    "sequence_length": "--sequence-lengths",
    "image_size": "--image-sizes",
    "images": "--images",
    "audio_seconds": "--audio-seconds",
    "frames": "--frames",
    "input_tokens": "--input-tokens",
    "output_tokens": "--output-tokens",
    "steps": "--steps",
}
"""How `assay bench` calls each size."""
IN_BROWSERS = ("wasm", "webgpu", "webnn")
"""Platforms of a page in a browser."""
SECOND_RUNTIMES = {"onnxruntime": "cpu", "onnxruntime-cuda": "cuda"}
"""What rows call the platform of a name under which a second runtime is asked for; the others are called as asked."""


def asked_name(platform: str, runtime: str) -> str:
    """Return under which name a row's platform and runtime are asked for: `onnxruntime` for `cpu` where that is the runtime."""
    names = (name for name, of in SECOND_RUNTIMES.items() if of == platform and name.split("-")[0] == runtime)
    return next(names, platform)


def platforms_named(words: Iterable[str]) -> list[str]:
    """Return platforms without repetition; `web` stands for those of a page in a browser."""
    return list(dict.fromkeys(name for word in words for name in (IN_BROWSERS if word == "web" else (word,))))


PRECISION_BITS = {
    "fp32": 32,
    "tf32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8": 8,
    "int8": 8,
    "int4": 4,
    "fp4": 4,
    "amp-fp16": 16,
    "amp-bf16": 16,
}
"""Bits of a stored activation by precision; mixed forms count as their lower type."""

WEIGHT_BITS = {
    "iq1_s": 2.00,
    "iq1_m": 2.15,
    "iq2_xxs": 2.38,
    "iq2_xs": 2.59,
    "iq2_s": 2.74,
    "iq2_m": 2.93,
    "q2_k_s": 2.97,
    "q2_k": 3.16,
    "iq3_xxs": 3.25,
    "iq3_xs": 3.50,
    "q3_k_s": 3.64,
    "iq3_s": 3.66,
    "iq3_m": 3.76,
    "q3_k_m": 4.00,
    "q3_k_l": 4.30,
    "iq4_xs": 4.46,
    "q4_0": 4.66,
    "q4_k_s": 4.67,
    "iq4_nl": 4.68,
    "q4_k_m": 4.89,
    "q5_0": 5.56,
    "q5_k_s": 5.57,
    "q5_k_m": 5.70,
    "q6_k": 6.56,
    "q8_0": 8.50,
}
"""Bits of a weight in the GGUF quantisations of llama.cpp, whose kernels multiply them with activations of 8 bits.

As tabled for Llama 3.1 8B in its tools/quantize/README.md (MIT).
"""

STORED_ONLY = ("int3", "int5", "int6", "mxfp4")
"""Precisions in which weights of language models are stored and nothing is computed; engines say how many bits they take."""

PRECISIONS = tuple(PRECISION_BITS)
"""Open list, widest first."""

_SYNONYMS = {
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8": "fp8",
    "q4": "int4",
    "amp": "amp-fp16",
    "amp_fp16": "amp-fp16",
    "amp_bf16": "amp-bf16",
}


def precision_named(word: str) -> str:
    """Return our name of a precision by other words for it (`float16`, `half`); any other word as it is."""
    lower = word.lower()
    return lower if lower in WEIGHT_BITS else _SYNONYMS.get(lower, word)


CATEGORIES = (
    "embedding",
    "text_generation",
    "text_to_text",
    "vision",
    "audio",
    "multimodal",
    "video",
    "diffusion",
)
HARDWARE_KINDS = ("cpu", "gpu", "npu", "tpu", "other")
MODES = ("inference", "training")
SCENARIOS = ("single_stream", "offline", "server", "serving")
OUTCOMES = ("passed", "failed", "error", "unsupported", "out_of_memory", "timeout", "skipped")
STAGES = ("resolve", "load", "convert", "compile", "first_run", "run", "verify")
ORIGINS = ("measured", "imported", "page", "simulated")
"""`page`: measured by a page in the browser of somebody with a link, and nobody here saw the device."""
NO_EVIDENCE = ("page", "simulated")
"""Origins whose rows are shown, and neither answer nor train."""
BASES = ("measured", "imported", "reference", "calibrated", "predicted", "roofline", "abstained")
"""Best evidence first."""
VERDICTS = ("valid", "suspect", "invalid")
WEIGHTS = ("pretrained", "random")


def arithmetic_precision(precision: str) -> str:
    """Return the arithmetic type of a mixed form: `amp-bf16` computes in `bf16`, `amp` in `fp16`."""
    if precision == "amp":
        return "fp16"
    return precision.removeprefix("amp-")
