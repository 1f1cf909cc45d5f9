"""Platforms by name: the built-in ones, and those that other packages add as entry points of `assay.platforms`."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata

from domain.errors import PartMissing, UnknownPlatform
from domain.vocabulary import SECOND_RUNTIMES
from runner.platforms.base import Platform

__all__ = ["ENTRY_POINT_GROUP", "built_in", "create", "names", "word"]

ENTRY_POINT_GROUP = "assay.platforms"

_BUILT_IN = {
    "cpu": ".torch_eager:Cpu",
    "cuda": ".torch_eager:Cuda",
    "rocm": ".torch_eager:Rocm",
    "mps": ".torch_eager:Mps",
    "xpu": ".torch_eager:Xpu",
    "openvino": ".openvino:OpenVino",
    "onnxruntime": ".onnx_runtime:OnnxRuntime",
    "onnxruntime-cuda": ".onnx_runtime:OnnxRuntimeCuda",
    "qnn": ".qnn:Qnn",
    "wasm": "..browser.platform:Wasm",
    "webgpu": "..browser.platform:WebGpu",
    "webnn": "..browser.platform:WebNn",
}
"""Modules, relative to this package: its full name is another one in a wheel."""


def word(name: str) -> str:
    """Return the platform that rows name for what was asked for: `cpu` for `onnxruntime`, which is their runtime."""
    return SECOND_RUNTIMES.get(name, name)


def _locations() -> dict[str, str]:
    added = {entry.name: entry.value for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}
    # A built-in name stays ours: a package that redefines `cpu` would make rows say what did not happen.
    return {**added, **_BUILT_IN}


def names() -> tuple[str, ...]:
    """Return the names of all platforms known here, available or not, built-in ones first."""
    locations = _locations()
    return (*_BUILT_IN, *sorted(locations.keys() - _BUILT_IN.keys()))


def built_in(name: str) -> bool:
    """Whether a platform is one of ours, whose child may import torch before it is created."""
    return name in _BUILT_IN


def create(name: str) -> Platform:
    """Return a new platform of that name; UnknownPlatform with the nearest names, PartMissing where it cannot load."""
    location = _locations().get(name)
    if location is None:
        existing = names()
        raise UnknownPlatform(
            name, difflib.get_close_matches(name, existing, 3, 0.4), remedy=f"Known platforms: {', '.join(existing)}."
        )
    module, _, attribute = location.partition(":")
    try:
        factory = getattr(importlib.import_module(module, __package__), attribute)
    except (ImportError, AttributeError) as error:
        raise PartMissing(
            f"the platform {name!r} cannot be loaded from {location}: {error}.",
            field="platform",
            remedy="Install the package that provides it, or remove it.",
        ) from error
    platform: Platform = factory()
    return platform
