"""What models that read and see take in: words, and tokens that stand for pictures, and the pictures' pixels."""

from __future__ import annotations

from typing import Any

import torch

from domain.configuration import Workload
from domain.errors import UsageError
from runner.models.random_inputs import noise, words
from runner.models.sizes import QWEN_VISION, positions

__all__ = ["image_token", "pictures_and_words", "with_words"]


def pictures_and_words(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    """Return ids (batch, image tokens + `length`), mask and pixels of a vision-language model.

    Raises UsageError where words and image tokens together are more than the model's positions.
    """
    make = _qwen_vision if config.model_type in QWEN_VISION else _llava
    inputs = make(config, workload, length, generator)
    limit, total = positions(config), inputs["input_ids"].shape[1]
    if limit is not None and total + (workload.output_tokens or 0) > limit:
        raise UsageError(
            f"{length} tokens of text and {total - length} of images are more than the {limit} positions of this model.",
            field="input_tokens" if workload.output_tokens else "sequence_length",
            remedy="Ask for fewer tokens or images.",
        )
    return inputs


def image_token(config: Any) -> int | None:
    """Return the id that stands for a part of an image; None where pictures are not read as tokens."""
    tokens = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((int(token) for token in tokens if token is not None), None)


def _llava(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    batch, images, side = workload.batch_size or 1, workload.images or 1, workload.image_size or 0
    vision = config.vision_config
    count = batch * images
    if config.model_type == "llava_next":
        patches, tokens = _anyres(config, side)
        pixels = noise(generator, count, patches, 3, vision.image_size, vision.image_size)
        extra = {"pixel_values": pixels, "image_sizes": torch.full((count, 2), side, dtype=torch.long)}
    else:
        tokens = (vision.image_size // vision.patch_size) ** 2
        extra = {"pixel_values": noise(generator, count, 3, side, side)}
    placeholders = torch.full((batch, images * tokens), image_token(config) or 0, dtype=torch.long)
    return {**with_words(config, length, placeholders, generator), **extra}


def _anyres(config: Any, side: int) -> tuple[int, int]:
    """Return how many crops LLaVA-NeXT makes of a square image, and how many tokens they give."""
    from transformers.models.llava_next.modeling_llava_next import (
        get_anyres_image_grid_shape,
        image_size_to_num_patches,
    )

    vision = config.vision_config
    crops = int(image_size_to_num_patches((side, side), config.image_grid_pinpoints, vision.image_size))
    rows, columns = get_anyres_image_grid_shape((side, side), config.image_grid_pinpoints, vision.image_size)
    per_side = vision.image_size // vision.patch_size
    # A square picture fills the shorter side of the grid; the padding beside it is cut off again.
    square = min(rows, columns) * per_side
    high, wide = rows * per_side, columns * per_side
    high -= 2 * ((high - square) // 2)
    wide -= 2 * ((wide - square) // 2)
    newlines = high
    return crops, per_side**2 + high * wide + newlines


def _qwen_vision(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    batch, images, side = workload.batch_size or 1, workload.images or 1, workload.image_size or 0
    vision = config.vision_config
    grid, count = side // vision.patch_size, batch * images
    tokens = (grid // vision.spatial_merge_size) ** 2
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    picture = torch.full((tokens + 2,), config.image_token_id, dtype=torch.long)
    picture[0], picture[-1] = config.vision_start_token_id, config.vision_end_token_id
    inputs = with_words(config, length, picture.repeat(batch, images), generator)
    return {
        **inputs,
        "mm_token_type_ids": (inputs["input_ids"] == config.image_token_id).long(),
        "pixel_values": noise(generator, count * grid * grid, width),
        "image_grid_thw": torch.tensor([[1, grid, grid]] * count, dtype=torch.long),
    }


def with_words(config: Any, length: int, placeholders: Any, generator: torch.Generator) -> dict[str, Any]:
    """Return ids and mask of a text of `length` words, with placeholders of pictures after its first."""
    text = words(config, (placeholders.shape[0], length), generator)
    ids = torch.cat([text[:, :1], placeholders, text[:, 1:]], dim=1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
