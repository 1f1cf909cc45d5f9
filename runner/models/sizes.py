"""How large one call of a model is: the sizes it has, those it gets where nobody asks, and those it cannot take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from domain.calls import PROMPT_TOKENS
from domain.catalogues.models import WorkloadDefaults
from domain.configuration import Workload
from domain.errors import UsageError
from runner.models.build import Built, config_of, text_config
from runner.models.diffusion import DenoiserConfig
from runner.models.heads import generates
from runner.models.pipelines import DENOISERS
from runner.models.signatures import main_input, takes_pictures_and_words
from runner.models.sources import ModelSource

__all__ = [
    "Modalities",
    "decoder_positions",
    "frames_per_second",
    "known",
    "modalities",
    "positions",
    "workload_defaults",
]

WHISPER_FRAMES_PER_SECOND = 100
"""Mel frames a second; the encoder's first convolutions halve them."""
CLAP_SAMPLES_PER_SECOND, CLAP_HOP = 48_000, 480
IMAGE_SIDE_OF_QWEN = 448
DEFAULT_TOKENS = 128

QWEN_VISION = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
VISION_LANGUAGE = ("llava", "llava_next", *QWEN_VISION)
TWO_TOWERS = ("clip", "siglip")
RAW_AUDIO = ("wav2vec2", "hubert", "wavlm", "unispeech", "sew", "data2vec-audio")
_VISION = (
    "vit",
    "deit",
    "beit",
    "resnet",
    "detr",
    "swin",
    "swinv2",
    "convnext",
    "convnextv2",
    "dinov2",
    "regnet",
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilevit",
    "mobilevitv2",
    "efficientnet",
    "segformer",
    "poolformer",
    "pvt",
    "pvt_v2",
    "levit",
    "cvt",
    "yolos",
    "bit",
    "vit_mae",
    "vit_msn",
    "focalnet",
    "dinat",
    "van",
    "timm",
    "upernet",
    "dpt",
)
_ONE_IMAGE_SIZE = (*TWO_TOWERS, "vit", "deit", "beit", "xclip", "llava", "blip", "videomae", "dpt")
_RELATIVE_POSITIONS = ("t5", "mt5", "umt5", "longt5", "bloom")
_POSITIONS_BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "clap_text_model", "longformer", "mpnet")
_COUNTS = ("batch_size", "sequence_length", "image_size", "images", "frames", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Modalities:
    """What one item of a batch consists of; `speech` is sound that the model makes instead of hearing it."""

    text: bool = False
    image: bool = False
    audio: bool = False
    video: bool = False
    speech: bool = False


def modalities(config: Any) -> Modalities:
    """Return what a model of this config takes in; a config that names no vision or audio part takes text."""
    family = config.model_type
    if family in (*VISION_LANGUAGE, *TWO_TOWERS, *DENOISERS, "blip"):
        return Modalities(text=True, image=True)
    if family == "clap":
        return Modalities(text=True, audio=True)
    if family == "musicgen":
        return Modalities(text=True, speech=True)
    if family == "xclip":
        return Modalities(text=True, video=True)
    if family == "videomae":
        return Modalities(video=True)
    if family == "whisper" or family in RAW_AUDIO:
        return Modalities(audio=True)
    if family in _VISION:
        return Modalities(image=True)
    if (by_signature := _by_signature(config)) is not None:
        return by_signature
    if hasattr(config, "vocab_size") and not hasattr(config, "vision_config") and not hasattr(config, "audio_config"):
        return Modalities(text=True)
    raise UsageError(
        f"Assay does not know what inputs a model of type {family!r} takes.",
        field="model",
        remedy="Add its inputs to runner/models/inputs.py (docs/models.md says how).",
    )


def _by_signature(config: Any) -> Modalities | None:
    """What the class of a family that no list names takes, where its forward call says so; None for text."""
    name = main_input(config)
    if name in ("pixel_values", "pixel_values_videos") or hasattr(config, "vision_config"):
        if takes_pictures_and_words(config):
            return Modalities(text=True, image=True)
        video = getattr(getattr(config, "vision_config", config), "num_frames", None) is not None
        return Modalities(video=True) if video else Modalities(image=True)
    return Modalities(audio=True) if name in ("input_values", "input_features") else None


def known(model: Built | ModelSource) -> tuple[Any, WorkloadDefaults, ModelSource]:
    """Return the config of a model, the sizes its catalogue entry and category give it, and where it was found."""
    if isinstance(model, Built):
        return model.config, model.source.defaults, model.source
    return config_of(model), model.defaults, model


def workload_defaults(model: Built | ModelSource, workload: Workload | None = None) -> Workload:
    """Return the workload with every size that this model has filled in, and none that it has not.

    Sizes that do not apply become None, so that the same work has one name whoever asks for it. Where output tokens
    are asked of a model that generates, its prompt's length stands in `input_tokens`, else the text's length in
    `sequence_length`. Raises UsageError, naming the field, for a size the model cannot take.
    """
    config, defaults, source = known(model)
    workload = workload or Workload(mode="inference")
    _check_counts(workload)
    takes = modalities(config)
    inference = workload.mode == "inference"
    sizes: dict[str, Any] = dict.fromkeys((*_COUNTS[1:], "audio_seconds"))
    if inference and generates(source):
        sizes["output_tokens"] = workload.output_tokens
    if takes.text:
        sequence_length = workload.sequence_length or workload.input_tokens
        limit = positions(config)
        default = defaults.sequence_length or DEFAULT_TOKENS
        name = "input_tokens" if sizes["output_tokens"] else "sequence_length"
        sizes[name] = sequence_length or (min(default, limit) if limit else default)
    if takes.image or takes.video:
        sizes["image_size"] = workload.image_size or _published_side(config) or defaults.image_size or 224
    if takes.text and takes.image and config.model_type not in DENOISERS:
        sizes["images"] = workload.images or defaults.images or 1
    if takes.video:
        sizes["frames"] = workload.frames or _published_frames(config)
    if takes.audio or takes.speech:
        sizes["audio_seconds"] = workload.audio_seconds or _published_seconds(config) or defaults.audio_seconds or 10.0
    if takes.speech and sizes["output_tokens"]:
        sizes["audio_seconds"] = sizes["output_tokens"] / frames_per_second(config)
    scenario = workload.scenario or ("single_stream" if inference else None)
    filled = msgspec.structs.replace(workload, batch_size=workload.batch_size or 1, scenario=scenario, **sizes)
    _check(config, takes, filled)
    return filled


def positions(config: Any) -> int | None:
    """Return the longest sequence the text part was made for, or None where its positions are relative."""
    if isinstance(config, DenoiserConfig):
        return None
    text = text_config(config)
    if text.model_type in _RELATIVE_POSITIONS:
        return None
    if text.model_type == "led":
        return int(text.max_encoder_position_embeddings)
    limit = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if limit is None:
        return None
    behind = text.model_type in _POSITIONS_BEHIND_PADDING
    return int(limit) - int(text.pad_token_id) - 1 if behind else int(limit)


def decoder_positions(config: Any) -> int | None:
    """Return the longest sequence that the decoder can write, or None where its positions are relative."""
    family = config.model_type
    if family == "whisper":
        return int(config.max_target_positions)
    if family == "led":
        return int(config.max_decoder_position_embeddings)
    if family == "musicgen":
        return int(config.decoder.max_position_embeddings)
    return positions(config)


def frames_per_second(config: Any) -> float:
    """Return how many decoder steps stand for a second of the sound that the model makes."""
    audio = config.audio_encoder
    return float(audio.sampling_rate / math.prod(audio.upsampling_ratios))


def _published_side(config: Any) -> int | None:
    if config.model_type in QWEN_VISION:
        return IMAGE_SIDE_OF_QWEN
    side = getattr(getattr(config, "vision_config", config), "image_size", None)
    return max(side) if isinstance(side, list | tuple) else side


def _published_frames(config: Any) -> int:
    return int(getattr(config, "vision_config", config).num_frames)


def _published_seconds(config: Any) -> float | None:
    if config.model_type == "whisper":
        return 2 * int(config.max_source_positions) / WHISPER_FRAMES_PER_SECOND
    return None


def _check_counts(workload: Workload) -> None:
    for name in (*_COUNTS, "audio_seconds"):
        value = getattr(workload, name)
        if value is not None and value <= 0:
            raise UsageError(f"{value:g} is not a size.", field=name, remedy="Give 1 or more, or leave it out.")


def _check(config: Any, takes: Modalities, workload: Workload) -> None:
    if takes.text:
        _check_tokens(config, workload)
    if workload.output_tokens:
        _check_output(config, workload)
    if takes.image or takes.video:
        _check_image(config, workload.image_size or 0)
    if config.model_type == "blip" and workload.images != 1:
        raise UsageError(
            f"this model describes one image at a time, not {workload.images}.", field="images", remedy="Ask for 1."
        )
    if takes.video and workload.frames != _published_frames(config):
        raise UsageError(
            f"this model takes clips of {_published_frames(config)} frames, not {workload.frames}.",
            field="frames",
            remedy=f"Ask for {_published_frames(config)}, or leave the number out.",
        )
    if takes.audio or takes.speech:
        _check_audio(config, workload.audio_seconds or 0)


def _check_tokens(config: Any, workload: Workload) -> None:
    field = "input_tokens" if workload.output_tokens else "sequence_length"
    length, limit = getattr(workload, field) or 0, positions(config)
    if limit is not None and length > limit:
        raise UsageError(
            f"{length} tokens are more than the {limit} positions of this model.",
            field=field,
            remedy=f"Ask for {limit} or fewer.",
        )


def _check_output(config: Any, workload: Workload) -> None:
    limit = decoder_positions(config)
    before = PROMPT_TOKENS if config.model_type == "whisper" else 1
    if not getattr(config, "is_encoder_decoder", False):
        before = workload.input_tokens or 0
    if limit is not None and before + (workload.output_tokens or 0) > limit:
        raise UsageError(
            f"{workload.output_tokens} tokens after {before} are more than the {limit} positions of this model.",
            field="output_tokens",
            remedy=f"Ask for {max(limit - before, 1)} or fewer.",
        )


def _check_image(config: Any, side: int) -> None:
    family = config.model_type
    if family in QWEN_VISION:
        _check_multiple(side, config.vision_config.patch_size * config.vision_config.spatial_merge_size)
        return
    if isinstance(config, DenoiserConfig):
        _check_multiple(side, config.step)
        return
    published = _published_side(config)
    if family in _ONE_IMAGE_SIZE and published is not None and side != published:
        raise UsageError(
            f"this model takes images of {published} × {published} pixels, not {side}.",
            field="image_size",
            remedy=f"Ask for {published}, or leave the size out.",
        )


def _check_multiple(side: int, step: int) -> None:
    if side % step:
        raise UsageError(
            f"an image side of {side} pixels is no multiple of this model's {step}.",
            field="image_size",
            remedy=f"Ask for {max(step, side // step * step)}.",
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
        _check_longest(seconds, longest, "takes at once", "Ask for 10 or less.", inclusive=False)
    if config.model_type == "musicgen":
        longest = config.decoder.max_position_embeddings / frames_per_second(config)
        _check_longest(seconds, longest, "can make", f"Ask for {longest:g} or less.", inclusive=True)
    if config.model_type in RAW_AUDIO and seconds < 0.1:
        raise UsageError(
            f"{seconds:g} s of audio are too short for this model's first convolutions.",
            field="audio_seconds",
            remedy="Ask for 0.1 or more.",
        )


def _check_longest(seconds: float, longest: float, what: str, remedy: str, *, inclusive: bool) -> None:
    if seconds > longest or (seconds == longest and not inclusive):
        raise UsageError(
            f"{seconds:g} s of audio are more than the {longest:g} s this model {what}.",
            field="audio_seconds",
            remedy=remedy,
        )
