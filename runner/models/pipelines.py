"""Diffusion pipelines in a folder: `model_index.json` and the configs of its modules, as diffusers writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domain.catalogues.models import Component, ImagePipeline, WorkloadDefaults
from domain.errors import UsageError

__all__ = ["DENOISERS", "INDEX", "PipelineFolder", "read_pipeline"]

INDEX = "model_index.json"
DENOISERS = ("unet", "sd3", "flux")
"""Families of denoisers of diffusers whose inputs are known."""
_LATENT_SCALE = 8
_CLIP_TOKENS = 77
_FLUX_SIDE = 1024


class _Known(NamedTuple):
    """A pipeline class of diffusers: its defaults, and how many tokens its T5 encoder reads."""

    steps: int
    guided: bool
    t5_tokens: int = 0


_PIPELINES = {
    "StableDiffusionPipeline": _Known(50, True),
    "StableDiffusionXLPipeline": _Known(50, True),
    "StableDiffusion3Pipeline": _Known(28, True, 256),
    "FluxPipeline": _Known(50, False, 512),
}
_SCHNELL = _Known(4, False, 256)
"""Flux without guidance embeddings: distilled to few steps and shorter texts."""


class PipelineFolder(NamedTuple):
    """The denoiser of a pipeline, the pipeline, and the sizes that it is published for."""

    class_name: str
    config: dict[str, Any]
    pipeline: ImagePipeline
    workload: WorkloadDefaults


def read_pipeline(folder: Path, read: Callable[[Path], dict[str, Any]]) -> PipelineFolder:
    """Return what a folder with a `model_index.json` holds; `read` reads a JSON object.

    Raises UsageError for a pipeline whose calls are not known, and for a folder that lacks a module's config.
    """
    index = read(folder / INDEX)
    name = str(index.get("_class_name"))
    if name not in _PIPELINES:
        raise UsageError(
            f"{folder} holds a {name}, and how that makes an image is not known.",
            field="model",
            remedy=f"Give a {', '.join(_PIPELINES)}, or the folder of one of its modules.",
        )
    modules = {part: _module(folder, part, index, read) for part in index if _is_module(index[part])}
    denoiser = next((modules[part] for part in ("unet", "transformer") if part in modules), None)
    if denoiser is None or "vae" not in modules:
        raise UsageError(
            f"{folder} lacks the config of a denoiser (unet or transformer) or of a vae.",
            field="model",
            remedy="Give a folder that save_pretrained of the pipeline wrote.",
        )
    known = _PIPELINES[name]
    if name == "FluxPipeline" and not denoiser.config.get("guidance_embeds"):
        known = _SCHNELL
    encoders = tuple(
        Component(class_name=item.class_name, config=item.config, tokens=_tokens(item, known))
        for part, item in modules.items()
        if part.startswith("text_encoder")
    )
    pipeline = ImagePipeline(
        steps=known.steps,
        guided=known.guided,
        source=f"defaults of {name} in diffusers",
        text_encoders=encoders,
        vae=Component(class_name=modules["vae"].class_name, config=modules["vae"].config),
    )
    read_tokens = _CLIP_TOKENS + known.t5_tokens if name == "StableDiffusion3Pipeline" else known.t5_tokens
    side = int(denoiser.config.get("sample_size") or 0) * _LATENT_SCALE or _FLUX_SIDE
    workload = WorkloadDefaults(sequence_length=read_tokens or _CLIP_TOKENS, image_size=side)
    return PipelineFolder(denoiser.class_name, denoiser.config, pipeline, workload)


class _Module(NamedTuple):
    class_name: str
    config: dict[str, Any]


def _is_module(entry: Any) -> bool:
    """Whether an entry of the index names a library and a class; a module that is left out has two nulls."""
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)


def _module(folder: Path, part: str, index: Mapping[str, Any], read: Callable[[Path], dict[str, Any]]) -> _Module:
    path = folder / part / "config.json"
    if part not in ("unet", "transformer", "vae") and not part.startswith("text_encoder"):
        return _Module("", {})
    if not path.is_file():
        raise UsageError(
            f"{folder} names a {part}, and {part}/config.json is missing.",
            field="model",
            remedy="Fetch the configs of all its modules.",
        )
    return _Module(str(index[part][1]), read(path))


def _tokens(encoder: _Module, known: _Known) -> int:
    if known.t5_tokens and encoder.class_name.startswith("T5"):
        return known.t5_tokens
    return int(encoder.config.get("max_position_embeddings") or _CLIP_TOKENS)
