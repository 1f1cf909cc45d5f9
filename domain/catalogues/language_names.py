"""How names of language models are spelled: what tells size and generation, and what tells a precision of the weights.

People name a model by an id of the hub, a file, or a tag of a runner: `unsloth/Llama-3.1-8B-Instruct-bnb-4bit`,
`Llama-3.1-8B-Instruct-Q4_K_M.gguf`, `llama3.1:8b-instruct-q4_K_M`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from domain.vocabulary import WEIGHT_BITS

__all__ = ["letters_of", "precision_in"]

_TELLS_NO_SIZE = re.compile(
    r"meta|instruct|instruction|it|pt|sft|chat|hf|base|gguf|ggml|mlx|awq|gptq|exl[23]|bnb|unsloth|ud|i1|imatrix|qat|dwq|dynamic"
    r"|marlin|autoround|abliterated|uncensored|b?f(p)?(4|8|16|32)|int[48]|(nv|mx)fp4|nf4|[48]bit|optimized|quantized|text|latest"
)
"""Words of a name that tell neither size nor generation."""
_QUANTISED = re.compile(
    r"(ud_)?i?q[1-8](_[0-9a-z]+)*|tq[12]_0|w[48]a(8|16)|(int|fp|g)?[0-9]+(bit)s?|g(32|64|128)|gs(32|64|128)"
)
_PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "w4a16": "int4",
        "nf4": "int4",
        "w8a8": "int8",
        "w8a16": "int8",
        "nvfp4": "fp4",
        "f16": "fp16",
        "f32": "fp32",
    }
    | {word: word for word in ("fp32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", "mxfp4")}
)
_FOUR_BITS = ("awq", "gptq")
"""Methods that keep four bits where a name says nothing else."""
_BITS = re.compile(r"(?:int)?([34568])bits?")


def letters_of(name: str) -> str:
    """Return the letters and digits of a name that tell its size and generation."""
    words = [part for word in _words(name) if not _QUANTISED.fullmatch(word) for part in word.split("_")]
    letters = "".join(word for word in words if not _TELLS_NO_SIZE.fullmatch(word))
    return re.sub(r"[^a-z0-9.]+", "", letters)


def precision_in(name: str) -> str | None:
    """Return the precision of the weights that a name tells: that of a GGUF file, `int4` of `-AWQ` or `-4bit`; else None."""
    words = _words(name)
    for word in words:
        quantisation = word.removeprefix("ud_").removesuffix("_xl")
        candidates = (word, quantisation, f"{quantisation}_m", f"{quantisation}_s")
        known = next((item for item in candidates if item in WEIGHT_BITS), None)
        if known is not None and known not in _PRECISIONS:
            return known
    told = [_PRECISIONS[word] for word in words if word in _PRECISIONS]
    bits = [f"int{match[1]}" for word in words if (match := _BITS.fullmatch(word))]
    usual = ["int4" for word in words if word in _FOUR_BITS]
    return next(iter([*bits, *told, *usual]), None)


def _words(name: str) -> list[str]:
    last = name.strip().lower().rsplit("/", 1)[-1].removesuffix(".gguf")
    # The last hyphen may be before a quantisation whose own parts have underscores; so may a dot, in a file's name.
    last = re.sub(r"\.(?=i?q[1-8]_|w[48]a)", "-", last)
    return [word for word in re.split(r"[-: ]+", last) if word]
