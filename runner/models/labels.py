"""Labels with which a class of transformers computes its own loss."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import torch

from domain.configuration import Workload
from domain.errors import PartMissing, UnsupportedWorkload, UsageError
from runner.models.build import Built
from runner.models.processor_inputs import image_token
from runner.models.random_inputs import integers, words
from runner.models.sizes import VISION_LANGUAGE, decoder_positions

__all__ = ["with_labels"]

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
