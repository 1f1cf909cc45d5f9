"""Classification: by config and operators, never by what a model is called."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues.classification import Classification, classified, families_by_operators, settled
from domain.catalogues.models import catalogue

VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
SAID_BERT = Classification(family="bert", category="embedding", task="fill-mask", basis="said", why="as it was sent")


@pytest.mark.parametrize("model", [one for one in catalogue() if one.config.get("model_type")], ids=lambda one: one.id)
def test_each_config_of_the_catalogue_is_classified_as_its_entry_says(model: Any) -> None:
    told = classified({**model.config, "architectures": [model.class_name]})
    assert (told.family, told.category) == (model.family, model.category)
    assert told.task in (model.task, None)


@pytest.mark.parametrize("model", [one for one in catalogue() if one.requires is None], ids=lambda one: one.id)
def test_a_class_tells_the_family_where_the_config_has_no_model_type(model: Any) -> None:
    told = classified({"architectures": [model.class_name]})
    same_class = {one.family for one in catalogue() if one.class_name == model.class_name}
    assert told.family in same_class
    assert told.basis == "class"
    assert model.class_name in told.why


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, ("bert", "embedding", "fill-mask")),
        ({"model_type": "bert"}, ("bert", "embedding", None)),
        ({"model_type": "nova", "architectures": ["NovaForCausalLM"]}, ("nova", "text_generation", "text-generation")),
        ({"model_type": "nova"}, ("nova", None, None)),
        ({"architectures": ["NovaForObjectDetection"]}, ("nova", "vision", "object-detection")),
        ({"model_type": "nova", "is_encoder_decoder": True}, ("nova", "text_to_text", "text2text-generation")),
        ({"architecture": "tf_efficientnetv2_s", "num_classes": 1000}, ("efficientnetv2", None, None)),
        ({"_class_name": "UNet2DConditionModel"}, ("unet", "diffusion", None)),
        ({"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]},
         ("qwen2_5_vl", "multimodal", "image-text-to-text")),
        ({}, (None, None, None)),
        ({"model_type": 7, "architectures": [None], "architecture": ["x"]}, (None, None, None)),
    ],
)  # fmt: skip
def test_family_category_and_task_of_a_config(config: dict[str, Any], expected: tuple[str | None, ...]) -> None:
    told = classified(config)
    assert (told.family, told.category, told.task) == expected
    assert told.why


def test_what_a_model_was_sent_as_gives_way_to_its_config() -> None:
    told = settled(config=VIT, said=SAID_BERT)
    assert (told.family, told.category, told.task) == ("vit", "vision", "image-classification")
    assert told.basis == "config"
    assert told.why.endswith("though it was sent as bert")


def test_where_config_and_sender_agree_the_sender_may_say_more() -> None:
    told = settled(config={"model_type": "bert"}, said=SAID_BERT)
    assert (told.family, told.task, told.basis) == ("bert", "fill-mask", "config")


def test_a_model_without_a_config_is_what_others_of_its_operators_are() -> None:
    by_operators = families_by_operators([("d1", "vit"), ("d1", "vit"), ("d2", "bert"), ("d2", "roberta")])
    told = settled(config=None, said=SAID_BERT, architecture="d1", by_operators=by_operators)
    assert (told.family, told.category, told.basis) == ("vit", "vision", "operators")
    shared = settled(config=None, said=SAID_BERT, architecture="d2", by_operators=by_operators)
    assert shared == SAID_BERT, "operators that two families share tell nothing"
    assert settled(config=None, said=Classification()).family is None
