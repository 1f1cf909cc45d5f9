"""What a model is, by its config and the operators it runs, whatever it is called.

A config's `model_type` names the family; without one its class does. A model that came without a config is what
another model of exactly the same operators is. Only where neither is known does the word of the sender count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from domain.catalogues import language_models
from domain.catalogues.models import catalogue, timm_family

__all__ = ["Classification", "classified", "families_by_operators", "settled"]

Basis = Literal["config", "class", "operators", "said"]

# What a class is for, by the ending of its name.
_TASKS = (
    ("ForCausalLM", "text_generation", "text-generation"),
    ("LMHeadModel", "text_generation", "text-generation"),
    ("ForImageClassification", "vision", "image-classification"),
    ("ForObjectDetection", "vision", "object-detection"),
    ("ForSemanticSegmentation", "vision", "image-segmentation"),
    ("ForMaskedLM", "embedding", "fill-mask"),
    ("ForPreTraining", "embedding", "feature-extraction"),
    ("ForSequenceClassification", "embedding", "text-classification"),
    ("ForTokenClassification", "embedding", "token-classification"),
    ("ForQuestionAnswering", "embedding", "question-answering"),
    ("ForCTC", "audio", "automatic-speech-recognition"),
    ("ForAudioClassification", "audio", "audio-classification"),
    ("ForSpeechSeq2Seq", "audio", "automatic-speech-recognition"),
    ("ForVideoClassification", "video", "video-classification"),
    ("ForDepthEstimation", "vision", "depth-estimation"),
)
_CONDITIONAL = "ForConditionalGeneration"
"""A class that generates; what from and what, its family says."""
_TEXT = ("embedding", "text_generation", "text_to_text", None)
_FURTHER = {
    "multimodal": "qwen2_5_vl paligemma gemma3 internvl florence2 got_ocr2",
    "audio": "wavlm speech_to_text moonshine wav2vec2-bert wav2vec2-conformer unispeech sew data2vec-audio",
    "vision": "beit dinov2 dinov2_with_registers dinov3_vit swinv2 convnextv2 hiera",
    "text_to_text": "marian",
    "text_generation": "gpt_neox mistral phi phi3 gemma",
}
"""Families that no catalogue has."""
_CLASS_END = re.compile(
    r"(?:For[A-Z]\w*|WithLMHead\w*|LMHead\w*|DoubleHeads\w*|PreTrained\w*|(?:2D)?(?:Condition)?Model)$"
)


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """A model's place in the vocabulary; None is not known. `basis` says what decided the family, `why` in a sentence."""

    family: str | None = None
    category: str | None = None
    task: str | None = None
    basis: Basis | None = None
    why: str = "nothing says what it is"


def classified(config: Mapping[str, Any]) -> Classification:
    """Return what a transformers, timm or diffusers config tells of its model; its name is not looked at.

    The category is that of the class where its ending tells, else that of the family; the task that of the class.
    """
    named = config.get("architectures") or [config.get("_class_name")]
    class_name = named[0] if isinstance(named, list | tuple) and isinstance(named[0], str) else None
    family, basis, why = _family(config, class_name)
    category, task = _categories().get(family or ""), None
    for ending, its_category, its_task in _TASKS:
        if class_name and class_name.endswith(ending):
            category, task = its_category, its_task
    if config.get("is_encoder_decoder") and category in _TEXT:
        category, task = "text_to_text", "text2text-generation"
    if task is None and class_name and class_name.endswith(_CONDITIONAL):
        task = _conditional().get(family or "")
    if basis == "class" or (class_name and task):
        why += "" if basis == "class" else f", and its class is {class_name}"
    return Classification(family=family, category=category, task=task, basis=basis, why=why)


def _family(config: Mapping[str, Any], class_name: str | None) -> tuple[str | None, Basis | None, str]:
    architecture = config.get("architecture")
    if isinstance(architecture, str) and architecture:
        return timm_family(architecture), "config", f"its config names timm's architecture {architecture}"
    said = config.get("model_type")
    if isinstance(said, str) and said and said != "timm":
        return said, "config", f"its config says model_type {said}"
    if class_name and (base := _CLASS_END.sub("", class_name)):
        return _of_class().get(_plain(base), base.lower()), "class", f"its config names the class {class_name}"
    return None, None, "its config names neither a model_type nor a class"


def settled(
    *,
    config: Mapping[str, Any] | None,
    said: Classification,
    architecture: str | None = None,
    by_operators: Mapping[str, str] = MappingProxyType({}),
) -> Classification:
    """Return what a model is: by its config, else by its operators, else as it was said.

    `said` is what came along with it; `architecture` names its operator trace, and `by_operators` gives the family that
    models of known configs have under such a name (`families_by_operators`). Where the family is as it was said, what
    was said of category and task stays.
    """
    classification = classified(config) if config else Classification()
    if classification.family is None and architecture in by_operators:
        family = by_operators[architecture or ""]
        why = f"it runs exactly the operators of models whose configs say {family}"
        classification = Classification(family=family, category=_categories().get(family), basis="operators", why=why)
    if classification.family is None:
        return said
    if said.family not in (None, classification.family):
        return msgspec.structs.replace(classification, why=f"{classification.why}, though it was sent as {said.family}")
    return msgspec.structs.replace(
        classification, category=said.category or classification.category, task=said.task or classification.task
    )


def families_by_operators(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the family of each architecture digest, of (digest, family by config); none where two families share it."""
    texts: dict[str, set[str]] = {}
    for digest, family in names:
        texts.setdefault(digest, set()).add(family)
    return {digest: next(iter(families)) for digest, families in texts.items() if len(families) == 1}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _categories() -> Mapping[str, str]:
    categories = {family: category for category, families in _FURTHER.items() for family in families.split()}
    categories |= {model.family: "text_generation" for model in language_models.catalogue().values()}
    categories |= {model.family: model.category for model in catalogue()}
    return MappingProxyType(categories)


@cache
def _conditional() -> Mapping[str, str]:
    """What a class that generates does, by family."""
    tasks = dict.fromkeys(_FURTHER["multimodal"].split(), "image-text-to-text")
    tasks |= dict.fromkeys(("speech_to_text", "moonshine"), "automatic-speech-recognition")
    tasks |= {model.family: model.task for model in catalogue() if model.class_name.endswith(_CONDITIONAL)}
    return MappingProxyType(tasks)


@cache
def _of_class() -> Mapping[str, str]:
    """The family by the base of a class name, in letters and digits alone."""
    families = {_plain(family): family for family in _categories()}
    return MappingProxyType(
        families | {_plain(_CLASS_END.sub("", model.class_name)): model.family for model in catalogue()}
    )
