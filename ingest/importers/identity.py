"""Ids of imported rows, and the names that other tools use, as Assay's."""

from __future__ import annotations

import hashlib
import re
import uuid
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from domain.canonical import canonical
from domain.catalogues import hardware, language_models, models
from domain.catalogues.slugs import slug

__all__ = ["hardware_of", "model_of", "precision_of", "row_id", "runtime_of"]

_NAMESPACE = uuid.UUID("6f1d4a52-55e0-5d59-9c0f-3f0f6f9d7a11")
_SEED = _NAMESPACE.bytes
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_FOUR_BYTES = 0xF0
"""From here on a byte begins a character of four bytes of UTF-8."""
_SPACES = bytes.maketrans(b"{}[],:", b"      ")
_NOT_IDENTIFIER = re.compile(r"[\s\x00-\x1f\"\\]+")
_PRECISIONS = {
    "float": "fp32",
    "float32": "fp32",
    "f32": "fp32",
    "single": "fp32",
    "fp32": "fp32",
    "float16": "fp16",
    "f16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "tf32": "tf32",
    "tensorfloat32": "tf32",
    "float8": "fp8",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "e4m3": "fp8",
    "int8": "int8",
    "i8": "int8",
    "uint8": "int8",
    "w8a8": "int8",
    "q8_0": "int8",
    "int4": "int4",
    "i4": "int4",
    "uint4": "int4",
    "w4a16": "int4",
    "fp4": "fp4",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
    "amp": "amp-fp16",
    "mixed": "amp-fp16",
}
_RUNTIMES = {
    "pytorch": "torch",
    "torch": "torch",
    "trt-llm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "tensorrt-llm": "tensorrt-llm",
    "tensorrt": "tensorrt",
    "vllm": "vllm",
    "sglang": "sglang",
    "onnx": "onnxruntime",
    "ort": "onnxruntime",
    "onnxruntime": "onnxruntime",
    "llama.cpp": "llama.cpp",
    "openvino": "openvino",
}


def row_id(*parts: Any) -> str:
    """Return the UUID (version 5) that these JSON values name: the same row gets the same id for ever.

    InvalidInput for values that have no canonical JSON, such as infinities.
    """
    name = _canonical(parts)
    hexdigest = hashlib.sha1(_SEED + name, usedforsecurity=False).hexdigest()
    # As uuid.uuid5 does, whose objects cost more than all the rest.
    return f"{hexdigest[:8]}-{hexdigest[8:12]}-5{hexdigest[13:16]}-{_VARIANT[hexdigest[16]]}{hexdigest[17:20]}-{hexdigest[20:32]}"


def _canonical(parts: tuple[Any, ...]) -> bytes:
    """Return the canonical JSON (RFC 8785) of a list: as msgspec writes it, where that is certain to be the same bytes."""
    try:
        text = msgspec.json.encode(parts, order="sorted")
    except (TypeError, UnicodeEncodeError, RecursionError):
        return canonical(list(parts))
    # Escapes have two spellings; and only beyond the first 65,536 characters does the order of members differ.
    if b"\\" in text or not (text.isascii() or max(text) < _FOUR_BYTES):
        return canonical(list(parts))
    numbers = b"".join(text.split(b'"')[::2]).translate(_SPACES)
    # A null of which nobody knows was a number that is none.
    if numbers.count(b"null") != parts.count(None) or _spelled_otherwise(numbers):
        return canonical(list(parts))
    return text


def _spelled_otherwise(numbers: bytes) -> bool:
    """Return whether RFC 8785 may spell one of these numbers in another way: whole, small, negative, with an exponent."""
    return (
        b".0 " in numbers
        or b" 0.000" in numbers
        or b"-" in numbers
        or b"e" in numbers.replace(b"true", b"").replace(b"false", b"")
        or (len(numbers) > 15 and any(len(part) > 15 and b"." not in part for part in numbers.split()))
    )


@cache
def _published() -> dict[str, str]:
    """Return our ids of models by the names, in lower case, under which others publish their figures."""
    return dict(msgspec.json.decode(files(__package__).joinpath("published_names.json").read_bytes()))


def model_of(name: str, **said: Any) -> dict[str, Any]:
    """Return the model of an event: the catalogue's where it knows the name, else the name itself, made an identifier.

    `said` (category, family, task, parameters, revision …) is what the file tells; the catalogue's words win. A name of
    `published_names.json` is that of a model with the same operators and sizes: a port or a fine-tuning of it.
    """
    name = _published().get(name.strip().lower(), name)
    existing = models.find(name)
    spelled = language_models.find(name) if existing is None and "/" not in name else None
    name = spelled.id if spelled is not None else name
    values = {key: value for key, value in said.items() if value is not None}
    if existing is None:
        return {"id": _NOT_IDENTIFIER.sub("-", name.strip()).strip("-")[:200] or "unknown", **values}
    result = {"id": existing.id, "category": existing.category, "family": existing.family, "task": existing.task}
    return {**values, **result} | ({"parameters": existing.parameters} if existing.parameters else {})


def hardware_of(name: str, *, kind: str | None = None, count: int = 1, cores: int | None = None) -> dict[str, Any]:
    """Return the hardware of an event: the catalogue's where it knows the name, else its slug with the kind that is said.

    `cores` are those of a CPU's slice, part of its slug.
    """
    if cores is not None and cores > 0 and kind == "cpu":
        return {"id": hardware.cpu_slug(name, cores), "kind": "cpu", "count": count}
    existing = hardware.find(name)
    result = {
        "id": existing.id if existing else slug(name),
        "kind": (existing.kind if existing else None) or kind,
        "count": count,
    }
    return {key: value for key, value in result.items() if value is not None}


def precision_of(name: str | None) -> str | None:
    """Return our word for a precision; a word that we do not know stays, in lower case, and an empty one is None."""
    if name is None or not str(name).strip():
        return None
    word = str(name).strip().lower().removeprefix("torch.")
    precision = _PRECISIONS.get(word)
    return precision or re.sub(r"[^a-z0-9._+-]+", "-", word).strip("-._+")[:64] or None


def runtime_of(name: str | None, version: str | None = None) -> dict[str, Any] | None:
    """Return our word for a runtime, with its version."""
    if name is None or not str(name).strip():
        return None
    word = str(name).strip().lower()
    runtime = _RUNTIMES.get(word) or re.sub(r"[^a-z0-9._+-]+", "-", word).strip("-._+")[:64]
    return {"name": runtime} | ({"version": str(version)} if version else {}) if runtime else None
