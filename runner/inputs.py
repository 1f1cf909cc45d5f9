"""Inputs of the right shapes for one call of a model, made from its config: seeded, without tokenizers or files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from domain.configuration import Workload
from domain.errors import UsageError
from domain.models import WorkloadDefaults, default_workload
from runner.build import Built, config_of
from runner.sources import ModelSource

__all__ = ["Modalities", "make_inputs", "modalities", "positions", "workload_defaults"]

WHISPER_FRAMES_PER_SECOND = 100
"""Mel frames a second; the encoder's first convolutions halve them."""
WHISPER_PROMPT_TOKENS = 4
"""Start, language, task and no-timestamps: what every Whisper transcription begins with."""
CLAP_SAMPLES_PER_SECOND, CLAP_HOP = 48_000, 480
WAV2VEC2_SAMPLES_PER_SECOND = 16_000
IMAGE_SIDE_OF_QWEN = 448

_VISION_LANGUAGE = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
_QWEN_VISION = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
_TWO_TOWERS = ("clip", "siglip")
_RAW_AUDIO = ("wav2vec2", "hubert", "wavlm", "unispeech", "sew", "data2vec-audio")
_VISION = (
    "vit", "deit", "beit", "resnet", "detr", "swin", "swinv2", "convnext", "convnextv2", "dinov2", "regnet",
    "mobilenet_v1", "mobilenet_v2", "mobilevit", "mobilevitv2", "efficientnet", "segformer", "poolformer", "pvt",
    "pvt_v2", "levit", "cvt", "yolos", "bit", "vit_mae", "vit_msn", "focalnet", "dinat", "van", "timm",
)  # fmt: skip


@dataclass(frozen=True)
class Modalities:
    """What one item of a batch consists of."""

    text: bool = False
    image: bool = False
    audio: bool = False
    video: bool = False


def modalities(config: Any) -> Modalities:
    """Return what a model of this config takes in; a config that names no vision or audio part takes text."""
    family = config.model_type
    if family in _VISION_LANGUAGE or family in _TWO_TOWERS:
        return Modalities(text=True, image=True)
    if family == "clap":
        return Modalities(text=True, audio=True)
    if family == "xclip":
        return Modalities(text=True, video=True)
    if family == "whisper" or family in _RAW_AUDIO:
        return Modalities(audio=True)
    if family in _VISION:
        return Modalities(image=True)
    if hasattr(config, "vocab_size") and not hasattr(config, "vision_config") and not hasattr(config, "audio_config"):
        return Modalities(text=True)
    raise UsageError(
        f"Assay does not know what inputs a model of type {family!r} takes.",
        field="model",
        remedy="Add its inputs to runner/inputs.py (docs/models.md says how).",
    )


def workload_defaults(model: Any, workload: Workload | None = None) -> Workload:
    """Return the workload with every size that this model has filled in, and none that it has not.

    `model` is a ModelSource, a Built or a config. Sizes that do not apply become None, so that the same work has
    one name whoever asks for it. Raises UsageError for a size the model cannot take.
    """
    config, defaults = _known(model)
    workload = workload or Workload(mode="inference")
    takes = modalities(config)
    limit = positions(config) if takes.text else None
    sizes: dict[str, Any] = dict.fromkeys(("sequence_length", "image_size", "images", "audio_seconds", "frames"))
    if takes.text:
        shortest = defaults.sequence_length or 128
        sizes["sequence_length"] = workload.sequence_length or (min(shortest, limit) if limit else shortest)
    if takes.image or takes.video:
        sizes["image_size"] = workload.image_size or _published_side(config) or defaults.image_size or 224
    if takes.text and takes.image:
        sizes["images"] = workload.images or defaults.images or 1
    if takes.video:
        sizes["frames"] = workload.frames or config.vision_config.num_frames
    if takes.audio:
        sizes["audio_seconds"] = workload.audio_seconds or _published_seconds(config) or defaults.audio_seconds or 10.0
    filled = msgspec.structs.replace(
        workload, batch_size=workload.batch_size or 1, scenario=workload.scenario or "single_stream", **sizes
    )
    _check(config, takes, filled, limit)
    return filled


def make_inputs(model: Any, workload: Workload, seed: int = 0) -> dict[str, Any]:
    """Return the keyword arguments of one forward call, as CPU tensors, the batch first.

    Token ids are int64 and seeded, masks all ones; pixels, mel frames and samples are normal noise in the dtype of
    the Built (float32 otherwise). An item of a batch is one text, image, clip or recording; `sequence_length`
    counts text tokens, those that stand for an image come on top. Decoders get as many tokens as encoders,
    Whisper's its prompt of 4.
    """
    workload = workload_defaults(model, workload)
    config, _ = _known(model)
    generator = torch.Generator().manual_seed(seed)
    inputs = _assemble(config, workload, generator)
    dtype = model.dtype if isinstance(model, Built) else torch.float32
    return {name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()}


def _known(model: Any) -> tuple[Any, WorkloadDefaults]:
    if isinstance(model, Built):
        return model.config, model.source.defaults
    if isinstance(model, ModelSource):
        return config_of(model), model.defaults
    return model, default_workload("")


def _assemble(config: Any, workload: Workload, generator: torch.Generator) -> dict[str, Any]:
    family = config.model_type
    batch, length = workload.batch_size or 1, workload.sequence_length or 0
    side = workload.image_size or 0
    if family in _QWEN_VISION:
        return _qwen_vision(config, workload, generator)
    if family in _VISION_LANGUAGE:
        return _llava(config, workload, generator)
    if family in _TWO_TOWERS:
        images = batch * (workload.images or 1)
        return {**_text(config, batch, length, generator), "pixel_values": _noise(generator, images, 3, side, side)}
    if family == "xclip":
        pixels = _noise(generator, batch, workload.frames or 1, 3, side, side)
        return {**_text(config, batch, length, generator), "pixel_values": pixels}
    if family == "clap":
        frames = int((workload.audio_seconds or 0) * CLAP_SAMPLES_PER_SECOND) // CLAP_HOP + 1
        features = _noise(generator, batch, 1, frames, config.audio_config.num_mel_bins)
        is_longer = torch.zeros(batch, 1, dtype=torch.bool)
        return {**_text(config, batch, length, generator), "input_features": features, "is_longer": is_longer}
    if family == "whisper":
        features = _noise(generator, batch, config.num_mel_bins, 2 * config.max_source_positions)
        prompt = _tokens(config, (batch, WHISPER_PROMPT_TOKENS), generator)
        return {"input_features": features, "decoder_input_ids": prompt}
    if family in _RAW_AUDIO:
        samples = int((workload.audio_seconds or 0) * WAV2VEC2_SAMPLES_PER_SECOND)
        return {"input_values": _noise(generator, batch, samples)}
    if family == "timm":
        return {"x": _noise(generator, batch, config.num_channels, side, side)}
    if modalities(config).image:
        return {"pixel_values": _noise(generator, batch, getattr(config, "num_channels", 3), side, side)}
    inputs = _text(config, batch, length, generator)
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = _tokens(config, (batch, length), generator)
    return inputs


def _noise(generator: torch.Generator, *shape: int) -> Any:
    return torch.randn(*shape, generator=generator)


def _tokens(config: Any, shape: tuple[int, ...], generator: torch.Generator) -> Any:
    """Random ids of ordinary words: below every id that stands for an image, a clip or an end."""
    text = config.get_text_config()
    top = min([text.vocab_size, *(i for i in _special_ids(config) if i > 100)])
    return torch.randint(min(5, top - 1), top, shape, generator=generator)


def _special_ids(config: Any) -> list[int]:
    names = (
        "image_token_id", "image_token_index", "video_token_id", "vision_start_token_id", "vision_end_token_id",
        "eos_token_id", "bos_token_id", "pad_token_id",
    )  # fmt: skip
    parts = (config, config.get_text_config())
    return [i for part in parts for name in names if isinstance(i := getattr(part, name, None), int)]


def _text(config: Any, batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    ids = _tokens(config, (batch, length), generator)
    text = config.get_text_config()
    if config.model_type in (*_TWO_TOWERS, "xclip") and isinstance(text.eos_token_id, int):
        # The text tower reads its summary where the text ends.
        ids[:, -1] = min(text.eos_token_id, text.vocab_size - 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _llava(config: Any, workload: Workload, generator: torch.Generator) -> dict[str, Any]:
    batch, images, side = workload.batch_size or 1, workload.images or 1, workload.image_size or 0
    vision = config.vision_config
    count = batch * images
    if config.model_type == "llava_next":
        patches, tokens = _anyres(config, side)
        pixels = _noise(generator, count, patches, 3, vision.image_size, vision.image_size)
        extra = {"pixel_values": pixels, "image_sizes": torch.full((count, 2), side, dtype=torch.long)}
    else:
        tokens = (vision.image_size // vision.patch_size) ** 2
        extra = {"pixel_values": _noise(generator, count, 3, side, side)}
    placeholders = torch.full((batch, images * tokens), _image_token(config), dtype=torch.long)
    return {**_with_placeholders(config, workload, placeholders, generator), **extra}


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


def _qwen_vision(config: Any, workload: Workload, generator: torch.Generator) -> dict[str, Any]:
    batch, images, side = workload.batch_size or 1, workload.images or 1, workload.image_size or 0
    vision = config.vision_config
    grid, count = side // vision.patch_size, batch * images
    tokens = (grid // vision.spatial_merge_size) ** 2
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    picture = torch.full((tokens + 2,), config.image_token_id, dtype=torch.long)
    picture[0], picture[-1] = config.vision_start_token_id, config.vision_end_token_id
    inputs = _with_placeholders(config, workload, picture.repeat(batch, images), generator)
    return {
        **inputs,
        "mm_token_type_ids": (inputs["input_ids"] == config.image_token_id).long(),
        "pixel_values": _noise(generator, count * grid * grid, width),
        "image_grid_thw": torch.tensor([[1, grid, grid]] * count, dtype=torch.long),
    }


def _with_placeholders(
    config: Any, workload: Workload, placeholders: Any, generator: torch.Generator
) -> dict[str, Any]:
    words = _tokens(config, (workload.batch_size or 1, workload.sequence_length or 1), generator)
    ids = torch.cat([words[:, :1], placeholders, words[:, 1:]], dim=1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _image_token(config: Any) -> int:
    token = getattr(config, "image_token_id", None)
    return int(config.image_token_index if token is None else token)


def _published_side(config: Any) -> int | None:
    if config.model_type in _QWEN_VISION:
        return IMAGE_SIDE_OF_QWEN
    side = getattr(getattr(config, "vision_config", config), "image_size", None)
    return max(side) if isinstance(side, list | tuple) else side


def _published_seconds(config: Any) -> float | None:
    if config.model_type == "whisper":
        return 2 * int(config.max_source_positions) / WHISPER_FRAMES_PER_SECOND
    return None


def positions(config: Any) -> int | None:
    """Return the longest sequence the text part was made for, or None where its positions are relative."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if text.model_type in ("t5", "mt5", "umt5", "longt5"):
        return None
    limit = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if limit is None:
        return None
    if text.model_type in ("roberta", "xlm-roberta", "camembert", "clap_text_model"):
        # Their positions start behind the padding's.
        return int(limit) - int(text.pad_token_id) - 1
    return int(limit)


def _check(config: Any, takes: Modalities, workload: Workload, limit: int | None) -> None:
    if limit is not None and (workload.sequence_length or 0) > limit:
        raise UsageError(
            f"{workload.sequence_length} tokens are more than the {limit} positions of this model.",
            field="sequence_length",
            remedy=f"Ask for {limit} or fewer.",
        )
    if takes.image or takes.video:
        _check_image(config, workload.image_size or 0)
    if takes.audio:
        _check_audio(config, workload.audio_seconds or 0)


def _check_image(config: Any, side: int) -> None:
    family = config.model_type
    if family in _QWEN_VISION:
        step = config.vision_config.patch_size * config.vision_config.spatial_merge_size
        if side % step:
            raise UsageError(
                f"an image side of {side} pixels is no multiple of this model's {step}.",
                field="image_size",
                remedy=f"Ask for {max(step, side // step * step)}.",
            )
        return
    published = _published_side(config)
    fixed = family in (*_TWO_TOWERS, "vit", "deit", "beit", "xclip", "llava")
    if fixed and published is not None and side != published:
        raise UsageError(
            f"this model takes images of {published} × {published} pixels, not {side}.",
            field="image_size",
            remedy=f"Ask for {published}, or leave the size out.",
        )


def _check_audio(config: Any, seconds: float) -> None:
    published = _published_seconds(config)
    if published is not None and seconds != published:
        raise UsageError(
            f"this model always takes {published:g} s of audio, not {seconds:g}.",
            field="audio_seconds",
            remedy=f"Ask for {published:g}, or leave the length out: shorter recordings are padded.",
        )
    if config.model_type == "clap":
        audio = config.audio_config
        longest = audio.spec_size * (audio.spec_size // audio.num_mel_bins) / (CLAP_SAMPLES_PER_SECOND / CLAP_HOP)
        if seconds >= longest:
            raise UsageError(
                f"{seconds:g} s of audio are more than the {longest:g} s this model takes at once.",
                field="audio_seconds",
                remedy="Ask for 10 or less.",
            )
    if config.model_type in _RAW_AUDIO and seconds < 0.1:
        raise UsageError(
            f"{seconds:g} s of audio are too short for this model's first convolutions.",
            field="audio_seconds",
            remedy="Ask for 0.1 or more.",
        )
