"""What a page's failure means, and what a page ran: rules that hold for the pages that we drive and for those of a link."""

from __future__ import annotations

import re
from typing import Any, Literal

__all__ = ["is_software_renderer", "outcome_of", "web_options"]

_SOFTWARE = re.compile("swiftshader|llvmpipe|lavapipe|basic render|softpipe", re.I)
_UNSUPPORTED = frozenset(
    {
        "ModelTooLarge",
        "NoAdapter",
        "NoSharedArrayBuffer",
        "NoWebGpu",
        "NoWebNn",
        "NotIsolated",
        "NotSupportedError",
        "UnknownType",
    }
)
_MEMORY = re.compile(
    r"out of memory|allocation failed|bad_alloc|failed to allocate|memory access out of bounds|OOM", re.I
)
_UNSUPPORTED_WORDS = re.compile(r"(?:not|n.t) (?:yet )?(?:support|implement)|unsupported|no available backend", re.I)


def is_software_renderer(adapter: str) -> bool:
    """Return whether the name of a WebGPU adapter is that of a renderer on the processor."""
    return bool(_SOFTWARE.search(adapter))


def outcome_of(name: str, text: str) -> Literal["out_of_memory", "unsupported", "error"]:
    """Return the outcome that a page's failure means, from the browser's name of the error and its words."""
    if (name == "RangeError" and _MEMORY.search(text)) or "bad_alloc" in text or "Out of memory" in text:
        return "out_of_memory"
    if name in _UNSUPPORTED or _UNSUPPORTED_WORDS.search(text):
        return "unsupported"
    return "error"


def web_options(backend: str, precision: str, device_type: str | None = None) -> dict[str, Any]:
    """Return the type of a WebNN context, and how the weights were quantized, as `execution.options` has them."""
    result: dict[str, Any] = {}
    if backend == "webnn":
        result["device_type"] = device_type or "cpu"
    if precision == "int8":
        result |= {"quantization": "onnxruntime.quantize_dynamic", "weights": "int8", "activations": "dynamic uint8"}
    if precision == "int4":
        result |= {"quantization": "onnxruntime.MatMulNBitsQuantizer", "weights": "int4", "block_size": 32}
    return result
