"""Diffusion pipelines, where diffusers is installed: a forward call is one step of the denoiser, beside which stand its other modules."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
import torch
from torch import nn

from domain.catalogues.models import Component
from domain.errors import PartMissing, UsageError

__all__ = [
    "DenoiserConfig",
    "VaeDecoder",
    "create",
    "denoiser_inputs",
    "latents",
    "text_encoder",
]

LATENT_SCALE = 8
"""Pixels of the picture to one of its latent, on each side, in the autoencoders of Stable Diffusion and Flux."""
_PACKED = 2
"""Latents that Flux packs into one token, on each side."""
_STEPS = 1000
_TIME_IDS = 6
"""Original size, crop and target size, of which SDXL is told."""


class DenoiserConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What inputs need to know of a denoiser: channels of the latent, and widths of what it is conditioned on."""

    model_type: str
    in_channels: int
    patch_size: int = 1
    cross_attention_dim: int | None = None
    joint_attention_dim: int | None = None
    pooled_projection_dim: int | None = None
    block_out_channels: list[int] = []
    addition_embed_type: str | None = None
    addition_time_embed_dim: int | None = None
    projection_class_embeddings_input_dim: int | None = None
    guidance_embeds: bool = False

    @property
    def step(self) -> int:
        """Pixels that the side of a picture must be a multiple of: each block of a UNet but the last halves its latent."""
        if self.model_type == "unet":
            return int(LATENT_SCALE * 2 ** (len(self.block_out_channels) - 1))
        return LATENT_SCALE * (_PACKED if self.model_type == "flux" else self.patch_size)


def create(class_name: str, config: dict[str, Any]) -> Any:
    """Return the module of that diffusers class in eval mode, with random weights.

    Raises PartMissing with the command that installs diffusers.
    """
    options = {key: value for key, value in config.items() if key != "model_type"}
    try:
        # A class is imported where it is first named.
        cls = getattr(importlib.import_module("diffusers"), class_name)
    except (ImportError, RuntimeError) as error:
        raise PartMissing(
            f"diffusion models need the package diffusers, which cannot be imported here: {error}.",
            field="model",
            remedy="Install it beside Assay: pip install diffusers.",
        ) from error
    return cls.from_config(options).eval()


def denoiser_inputs(
    config: DenoiserConfig, batch: int, side: int, length: int, generator: torch.Generator
) -> dict[str, Any]:
    """Return the keyword arguments of one denoising step of `batch` square pictures, with texts of `length` tokens."""
    make = {"unet": _unet, "sd3": _sd3, "flux": _flux}[config.model_type]
    return make(config, batch, side // LATENT_SCALE, length, generator)


def _unet(config: DenoiserConfig, batch: int, side: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    inputs = {
        "sample": _noise(generator, batch, config.in_channels, side, side),
        "timestep": _timesteps(generator, batch),
        "encoder_hidden_states": _noise(generator, batch, length, config.cross_attention_dim),
    }
    if config.addition_embed_type != "text_time":
        return inputs
    width = (config.projection_class_embeddings_input_dim or 0) - _TIME_IDS * (config.addition_time_embed_dim or 0)
    added = {"text_embeds": _noise(generator, batch, width), "time_ids": _noise(generator, batch, _TIME_IDS)}
    return {**inputs, "added_cond_kwargs": added}


def _sd3(config: DenoiserConfig, batch: int, side: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    return {
        "hidden_states": _noise(generator, batch, config.in_channels, side, side),
        "encoder_hidden_states": _noise(generator, batch, length, config.joint_attention_dim),
        "pooled_projections": _noise(generator, batch, config.pooled_projection_dim),
        "timestep": _timesteps(generator, batch),
    }


def _flux(config: DenoiserConfig, batch: int, side: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    rows = side // _PACKED
    inputs = {
        "hidden_states": _noise(generator, batch, rows * rows, config.in_channels),
        "encoder_hidden_states": _noise(generator, batch, length, config.joint_attention_dim),
        "pooled_projections": _noise(generator, batch, config.pooled_projection_dim),
        "timestep": torch.rand(batch, generator=generator),
        "img_ids": torch.cartesian_prod(torch.zeros(1), torch.arange(rows).float(), torch.arange(rows).float()),
        "txt_ids": torch.zeros(length, 3),
    }
    return {**inputs, "guidance": torch.full((batch,), 3.5)} if config.guidance_embeds else inputs


def _noise(generator: torch.Generator, *shape: int | None) -> Any:
    return torch.randn(*shape, generator=generator)


def _timesteps(generator: torch.Generator, batch: int) -> Any:
    return torch.randint(0, _STEPS, (batch,), generator=generator)


def text_encoder(component: Component) -> tuple[Any, dict[str, Any]]:
    """Return a text encoder of a pipeline with random weights, and the keyword arguments of its call for one text.

    Raises UsageError for a class that transformers has not.
    """
    import transformers

    cls = getattr(transformers, component.class_name, None)
    if cls is None:
        raise UsageError(
            f"the installed transformers {transformers.__version__} has no class {component.class_name}.",
            field="model",
            remedy="Install a transformers release that has it.",
        )
    module = cls._from_config(cls.config_class.from_dict(dict(component.config))).eval()
    ids = torch.ones(1, component.tokens or 1, dtype=torch.long, device="cpu")
    return module, {"input_ids": ids}


class VaeDecoder(nn.Module):  # type: ignore[misc]
    """The half of an autoencoder that makes a picture of a latent."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latent: Any) -> Any:
        """Return the pictures of latents (batch, channels, side, side)."""
        return self.vae.decode(latent, return_dict=False)[0]


def latents(component: Component, side: int) -> Any:
    """Return an empty latent of one square picture of `side` pixels for an autoencoder."""
    small = side // LATENT_SCALE
    return torch.empty(1, component.config["latent_channels"], small, small)
