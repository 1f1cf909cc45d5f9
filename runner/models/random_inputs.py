"""Seeded noise and words, from which inputs are made."""

from __future__ import annotations

from typing import Any

import torch

from runner.models.build import text_config

__all__ = ["integers", "noise", "words"]

_SPECIAL = (
    "image_token_id",
    "image_token_index",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "eos_token_id",
    "bos_token_id",
    "pad_token_id",
)
_FIRST_WORD = 5
"""Lower ids are mostly padding, starts and ends."""


def noise(generator: torch.Generator, *shape: int) -> Any:
    """Return float32 values of a standard normal distribution."""
    return torch.randn(*shape, generator=generator)


def integers(generator: torch.Generator, shape: tuple[int, ...], top: int, bottom: int = 0) -> Any:
    """Return int64 values in [bottom, top)."""
    return torch.randint(bottom, top, shape, generator=generator)


def words(config: Any, shape: tuple[int, ...], generator: torch.Generator, part: Any = None) -> Any:
    """Return ids of ordinary words: below every id that stands for an image, a clip or an end.

    `part` is the config of the text part whose vocabulary counts; without it, the one that reads.
    """
    text = part or text_config(config)
    ids = [i for item in (config, text) for name in _SPECIAL if isinstance(i := getattr(item, name, None), int)]
    top = min([text.vocab_size, *(i for i in ids if i > 100)])
    return integers(generator, shape, top, bottom=min(_FIRST_WORD, top - 1))
