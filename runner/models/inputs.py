"""Inputs of the right shapes for one call of a model, made from its config: seeded, without tokenizers or files."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import torch

from domain.calls import PROMPT_TOKENS
from domain.configuration import Workload
from domain.errors import PartMissing, UnsupportedWorkload, UsageError
from runner.models.build import Built, build_meta, text_config
from runner.models.diffusion import denoiser_inputs
from runner.models.heads import generates
from runner.models.pipelines import DENOISERS
from runner.models.processor_inputs import image_token, pictures_and_words, with_words
from runner.models.random_inputs import integers, noise, words
from runner.models.signatures import SAMPLES_PER_SECOND, image_tokens, sound
from runner.models.sizes import (
    CLAP_HOP,
    CLAP_SAMPLES_PER_SECOND,
    RAW_AUDIO,
    TWO_TOWERS,
    VISION_LANGUAGE,
    Modalities,
    decoder_positions,
    frames_per_second,
    known,
    modalities,
    positions,
    workload_defaults,
)
from runner.models.sources import ModelSource

__all__ = [
    "Modalities",
    "generation_inputs",
    "make_inputs",
    "modalities",
    "positions",
    "training_inputs",
    "with_labels",
    "workload_defaults",
]

CHARACTERS_PER_SECOND = 15
"""About what a reader of English speaks; the length of a transcript that is counted in letters."""
WHISPER_LABEL_TOKENS = 128
OBJECTS_PER_IMAGE = 7
"""COCO, on which detectors are trained, has 7.3 objects an image."""
_IGNORED = -100


def with_labels(built: Built, inputs: dict[str, Any], workload: Workload, generator: torch.Generator) -> dict[str, Any]:
    """Return the inputs with the labels that the built class wants; see `runner.inputs.training_inputs`."""
    if built.purpose != "training":
        raise ValueError(f"{built.id} was built for {built.purpose}; labels need the class that purpose training gives")
    name, config = type(built.module).__name__, built.config
    batch = workload.batch_size or 1
    taken = inspect.signature(built.module.forward).parameters
    if "return_loss" in taken:
        return {**_paired(inputs, workload), "return_loss": True}
    if name.endswith("ForObjectDetection"):
        return {**inputs, "labels": _objects(config, batch, generator)}
    if name.endswith("ForSemanticSegmentation"):
        side = workload.image_size or 0
        return {**inputs, "labels": integers(generator, (batch, side, side), config.num_labels)}
    if name.endswith("ForQuestionAnswering"):
        ends = integers(generator, (2, batch), inputs["input_ids"].shape[1]).sort(dim=0).values
        return {**inputs, "start_positions": ends[0], "end_positions": ends[1]}
    if name.endswith("ForCTC"):
        return {**inputs, "labels": _letters(built, workload, inputs, generator)}
    if name.endswith(("Classification", "WithLoss")):
        classes = built.module.module.num_classes if name == "WithLoss" else config.num_labels
        shape = tuple(inputs["input_ids"].shape) if name.endswith("ForTokenClassification") else (batch,)
        return {**inputs, "labels": integers(generator, shape, classes)}
    if "labels" in taken and ("input_ids" in inputs or "decoder_input_ids" in inputs):
        return _next_words(config, inputs, batch, generator)
    raise UnsupportedWorkload(f"{built.id} computes no loss as {name}.", field="mode", remedy="Measure its inference.")


def _paired(inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    if (workload.images or 1) > 1:
        raise UsageError("contrastive training pairs each text with one image.", field="images", remedy="Ask for 1.")
    return inputs


def _objects(config: Any, batch: int, generator: torch.Generator) -> list[dict[str, Any]]:
    if importlib.util.find_spec("scipy") is None:
        raise PartMissing("matching boxes needs the package scipy.", field="mode", remedy="pip install scipy")
    objects = []
    for _ in range(batch):
        middles = 0.25 + 0.5 * torch.rand(OBJECTS_PER_IMAGE, 2, generator=generator)
        sizes = 0.05 + 0.4 * torch.rand(OBJECTS_PER_IMAGE, 2, generator=generator)
        classes = integers(generator, (OBJECTS_PER_IMAGE,), config.num_labels)
        objects.append({"class_labels": classes, "boxes": torch.cat([middles, sizes], dim=1)})
    return objects


def _letters(built: Built, workload: Workload, inputs: dict[str, Any], generator: torch.Generator) -> Any:
    samples = inputs["input_values"].shape[1]
    frames = int(built.module._get_feat_extract_output_lengths(torch.tensor(samples)))
    # Between two equal letters the alignment needs a blank, so half the frames always suffice.
    count = max(1, min(int((workload.audio_seconds or 0) * CHARACTERS_PER_SECOND), frames // 2))
    return integers(generator, (workload.batch_size or 1, count), built.config.vocab_size, bottom=1)


def _next_words(config: Any, inputs: dict[str, Any], batch: int, generator: torch.Generator) -> dict[str, Any]:
    family = config.model_type
    if family == "musicgen":
        decoder = config.decoder
        steps = inputs.pop("decoder_input_ids").shape[1]
        return {**inputs, "labels": integers(generator, (batch, steps, decoder.num_codebooks), decoder.vocab_size)}
    if family == "whisper":
        inputs.pop("decoder_input_ids")
        count = min(WHISPER_LABEL_TOKENS, decoder_positions(config) or WHISPER_LABEL_TOKENS)
        return {**inputs, "labels": words(config, (batch, count), generator)}
    if "decoder_input_ids" in inputs:
        # Without them the class shifts the labels by one itself.
        return {"labels": words(config, tuple(inputs.pop("decoder_input_ids").shape), generator), **inputs}
    labels = inputs["input_ids"].clone()
    if family in VISION_LANGUAGE:
        labels[labels == image_token(config)] = _IGNORED
    return {**inputs, "labels": labels}


_LAYOUT_SIDE = 1000
"""Boxes of words lie on a page of 1000 × 1000."""


def make_inputs(model: Built | ModelSource, workload: Workload, seed: int = 0) -> dict[str, Any]:
    """Return the keyword arguments of one forward call, as CPU tensors, the batch first.

    Token ids are int64 and seeded, masks all ones; pixels, mel frames and samples are normal noise in the dtype of
    the Built (float32 otherwise). An item of a batch is one text, image, clip or recording; the text's tokens are
    those asked for, and those that stand for an image come on top. Decoders get as many tokens as encoders, or as
    many as they have positions; Whisper's its prompt of 4; MusicGen's one step for each frame of the sound.
    """
    workload = workload_defaults(model, workload)
    config, *_ = known(model)
    return _typed(model, _assemble(model, config, workload, torch.Generator().manual_seed(seed)))


def generation_inputs(built: Built | ModelSource, workload: Workload, *, seed: int = 0) -> dict[str, Any]:
    """Return what generation starts from: the prompt, and pictures or sound where the model takes them.

    Decoders get `input_ids` and `attention_mask` of `input_tokens`; encoder-decoders the encoder's inputs, and
    `decoder_input_ids` with the one token that begins every output (Whisper: its prompt of 4; MusicGen: one for
    each codebook, batch × codebooks rows). Raises UnsupportedWorkload for a model that does not generate.
    """
    config, _, source = known(built)
    if not generates(source):
        raise UnsupportedWorkload(
            f"{source.id} does not generate token after token.",
            field="output_tokens",
            remedy="Leave the output tokens out to measure one forward call.",
        )
    workload = workload_defaults(built, workload)
    inputs = _typed(built, _assemble(built, config, workload, torch.Generator().manual_seed(seed)))
    batch = workload.batch_size or 1
    if config.model_type == "musicgen":
        start = config.decoder.bos_token_id
        inputs["decoder_input_ids"] = torch.full((batch * config.decoder.num_codebooks, 1), start)
    elif getattr(config, "is_encoder_decoder", False) and config.model_type != "whisper":
        starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
        start = next((token for token in starts if token is not None), 0)
        inputs["decoder_input_ids"] = torch.full((batch, 1), start)
    return inputs


def training_inputs(built: Built, workload: Workload, *, seed: int = 0) -> dict[str, Any]:
    """Return the inputs of a training step and its labels, with which the built class returns its loss first.

    The model must have been built for training. Labels are seeded; those of contrastive models are the pairs of the
    batch themselves (`return_loss`), those of detectors a list of one dict an image. Raises UnsupportedWorkload
    where the class computes no loss, PartMissing where computing it needs a package that is absent.
    """
    generator = torch.Generator().manual_seed(seed)
    workload = workload_defaults(built, workload)
    inputs = _typed(built, _assemble(built, built.config, workload, generator))
    return with_labels(built, inputs, workload, generator)


def _typed(model: Built | ModelSource, inputs: dict[str, Any]) -> dict[str, Any]:
    dtype = model.dtype if isinstance(model, Built) else torch.float32
    return {name: _of_type(value, dtype) for name, value in inputs.items()}


def _of_type(value: Any, dtype: Any) -> Any:
    if isinstance(value, dict):
        return {name: _of_type(item, dtype) for name, item in value.items()}
    return value.to(dtype) if value.is_floating_point() else value


def _assemble(
    model: Built | ModelSource, config: Any, workload: Workload, generator: torch.Generator
) -> dict[str, Any]:
    family, takes = config.model_type, modalities(config)
    length = workload.input_tokens or workload.sequence_length or 0
    if family in DENOISERS:
        return denoiser_inputs(config, workload.batch_size or 1, workload.image_size or 0, length, generator)
    if family in VISION_LANGUAGE:
        return pictures_and_words(config, workload, length, generator)
    if takes.text and takes.image and image_token(config) is not None:
        return _pictured(model, config, workload, length, generator)
    if takes.image or takes.video:
        return _seen(config, workload, length, generator)
    if takes.audio:
        return _heard(config, workload, length, generator)
    return _read(config, workload, length, generator)


def _read(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    """Inputs of models of text, those that make sound of it included."""
    batch = workload.batch_size or 1
    inputs = _text(config, batch, length, generator)
    if config.model_type == "musicgen":
        decoder = config.decoder
        steps = max(1, int((workload.audio_seconds or 0) * frames_per_second(config)))
        shape = (batch * decoder.num_codebooks, steps)
        inputs["decoder_input_ids"] = integers(generator, shape, decoder.vocab_size)
    elif getattr(config, "is_encoder_decoder", False):
        steps = min(length, decoder_positions(config) or length)
        inputs["decoder_input_ids"] = words(config, (batch, steps), generator)
    if config.model_type == "layoutlm":
        corners = integers(generator, (batch, length, 2, 2), _LAYOUT_SIDE).sort(dim=2).values
        inputs["bbox"] = corners.flatten(2)
    return inputs


def _pictured(
    model: Built | ModelSource, config: Any, workload: Workload, length: int, generator: Any
) -> dict[str, Any]:
    """Inputs of a model that reads pictures as tokens, and whose family no list names."""
    batch, images, side = workload.batch_size or 1, workload.images or 1, workload.image_size or 0
    channels = getattr(getattr(config, "vision_config", config), "num_channels", None) or 3
    pixels = noise(generator, batch * images, channels, side, side)
    module = model.module if isinstance(model, Built) else build_meta(model, purpose="generation").module
    tokens = image_tokens(module.to("meta") if isinstance(model, ModelSource) else module, pixels[:1])
    placeholders = torch.full((batch, images * tokens), image_token(config), dtype=torch.long)
    inputs = with_words(config, length, placeholders, generator)
    if "token_type_ids" in inspect.signature(module.forward).parameters:
        inputs["token_type_ids"] = (inputs["input_ids"] == image_token(config)).long()
    return {**inputs, "pixel_values": pixels}


def _seen(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    """Inputs of models of images and clips, with a text beside them where they take one."""
    batch, side = workload.batch_size or 1, workload.image_size or 0
    takes = modalities(config)
    channels = getattr(config, "num_channels", None) or 3
    if config.model_type == "timm":
        return {"x": noise(generator, batch, config.num_channels, side, side)}
    inputs = _text(config, batch, length, generator) if takes.text else {}
    if takes.video:
        pixels = noise(generator, batch, workload.frames or 1, channels, side, side)
    else:
        pixels = noise(generator, batch * (workload.images or 1), channels, side, side)
    return {**inputs, "pixel_values": pixels}


def _heard(config: Any, workload: Workload, length: int, generator: torch.Generator) -> dict[str, Any]:
    """Inputs of models of sound, with a text beside it where they take one."""
    batch, seconds = workload.batch_size or 1, workload.audio_seconds or 0
    if config.model_type == "clap":
        frames = int(seconds * CLAP_SAMPLES_PER_SECOND) // CLAP_HOP + 1
        features = noise(generator, batch, 1, frames, config.audio_config.num_mel_bins)
        is_longer = torch.zeros(batch, 1, dtype=torch.bool)
        return {**_text(config, batch, length, generator), "input_features": features, "is_longer": is_longer}
    if config.model_type in RAW_AUDIO:
        return {"input_values": noise(generator, batch, int(seconds * SAMPLES_PER_SECOND))}
    if config.model_type != "whisper":
        inputs = sound(config, batch, seconds, generator)
        if getattr(config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = words(config, (batch, 1), generator)
        return inputs
    features = noise(generator, batch, config.num_mel_bins, 2 * config.max_source_positions)
    prompt = words(config, (batch, PROMPT_TOKENS), generator)
    return {"input_features": features, "decoder_input_ids": prompt}


def _text(config: Any, batch: int, length: int, generator: torch.Generator) -> dict[str, Any]:
    ids = words(config, (batch, length), generator)
    text = text_config(config)
    if config.model_type in (*TWO_TOWERS, "xclip") and isinstance(text.eos_token_id, int):
        # The text tower reads its summary where the text ends.
        ids[:, -1] = min(text.eos_token_id, text.vocab_size - 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
