"""Denoisers of diffusion pipelines, where diffusers is installed: one call is one step of the UNet."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from domain.errors import PartMissing

__all__ = ["LATENT_SCALE", "UNetConfig", "create"]

LATENT_SCALE = 8
"""Pixels of the picture to one of its latent, on each side, in the autoencoder of Stable Diffusion."""


class UNetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What inputs need to know of a UNet: channels of the latent and width of the text it is conditioned on."""

    model_type: str = "unet"
    in_channels: int
    cross_attention_dim: int
    block_out_channels: list[int]

    @property
    def step(self) -> int:
        """Pixels that the side of a picture must be a multiple of: each block but the last halves its latent."""
        return int(LATENT_SCALE * 2 ** (len(self.block_out_channels) - 1))


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
