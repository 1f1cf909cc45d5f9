"""What a class of transformers takes in, by the parameters of its forward call: for families that no list names."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from runner.models.heads import transformers_module
from runner.models.random_inputs import noise

__all__ = ["SAMPLES_PER_SECOND", "image_tokens", "main_input", "sound", "takes_pictures_and_words"]

SAMPLES_PER_SECOND = 16_000
_FRAMES_PER_SECOND = 100
_WIDTHS = ("feature_projection_input_dim", "feature_size", "input_feat_per_channel", "num_mel_bins")
"""Members of configs that say how wide a frame of sound is."""


def _class_of(config: Any) -> Any:
    """The class that a config names, else the bare one of its type; None where transformers has neither."""
    transformers = transformers_module()
    named = next(iter(getattr(config, "architectures", None) or ()), "")
    return getattr(transformers, named, None) or transformers.MODEL_MAPPING.get(type(config), None)


def main_input(config: Any) -> str | None:
    """Return the name of the first input of the class: pixel_values, input_values, input_features or input_ids."""
    cls = _class_of(config)
    if cls is None:
        return None
    taken = inspect.signature(cls.forward).parameters
    said = getattr(cls, "main_input_name", None)
    return said if said in taken else next(iter(name for name in taken if name != "self"), None)


def takes_pictures_and_words(config: Any) -> bool:
    """Return whether the class takes pixels and token ids."""
    cls = _class_of(config)
    return cls is not None and {"pixel_values", "input_ids"} <= inspect.signature(cls.forward).parameters.keys()


def sound(config: Any, batch: int, seconds: float, generator: torch.Generator) -> dict[str, Any]:
    """Return so many seconds of sound as the class takes them: samples, or frames with their features."""
    name = main_input(config) or "input_values"
    part = getattr(config, "encoder_config", None) or getattr(config, "audio_config", None) or config
    width = next((int(value) for member in _WIDTHS if (value := getattr(part, member, None))), None)
    if name == "input_values" and hasattr(config, "max_length") and width is not None and hasattr(config, "patch_size"):
        # A spectrogram transformer reads pictures of sound of one length.
        return {"input_values": noise(generator, batch, int(config.max_length), width)}
    if name == "input_values" or width is None:
        return {"input_values": noise(generator, batch, int(seconds * SAMPLES_PER_SECOND))}
    frames = max(1, int(seconds * _FRAMES_PER_SECOND))
    return {"input_features": noise(generator, batch, frames, width)}


def image_tokens(module: Any, pixels: Any) -> int:
    """Return how many tokens one picture of these pixels (1, channels, side, side) gives a model that reads it."""
    with torch.no_grad():
        features = module.get_image_features(pixel_values=pixels.to("meta"))
    features = getattr(features, "pooler_output", features)
    if isinstance(features, list | tuple):
        features = torch.cat([item.reshape(-1, item.shape[-1]) for item in features])
    return int(features.numel() // features.shape[-1])
