"""The catalogue: every key class in two sizes, names that resolve, figures that are sourced or null with a reason."""

from __future__ import annotations

import re

import msgspec
import pytest

from domain.catalogues import language_models, models
from domain.catalogues.models import (
    KEY_CLASSES,
    OWN_PREFIX,
    catalogue,
    default_workload,
    find,
    in_category,
    models_set,
    nearest,
    resolve_alias,
    smaller_siblings,
    timm_base_name,
    timm_family,
)
from domain.errors import UsageError
from domain.vocabulary import CATEGORIES

OLDER_NAMES = ("assay/qwen-small", "assay/qwen-vl-small")

MAPPED = (
    "bert", "distilbert", "roberta", "gpt_neo", "gptj", "bart", "mt5", "mbart", "electra", "longformer", "deberta-v2",
    "gpt2", "dpr", "mobilebert", "mpnet", "camembert", "flaubert", "codegen", "xlm-roberta", "albert", "opt", "wav2vec2",
    "clip", "t5", "blenderbot", "blenderbot-small", "pegasus", "led", "bloom", "vit", "deit", "detr", "swin", "convnext",
    "hubert", "squeezebert", "layoutlm", "deberta", "whisper", "clap", "qwen2", "llava", "llava_next", "llama", "xclip",
    "videomae", "qwen2_vl",
)  # fmt: skip
FURTHER = ("qwen3", "qwen3_vl", "blip", "musicgen", "upernet", "dpt", "mobilevit", "unet", "sd3", "flux", "siglip")


def test_every_key_class_has_one_full_and_at_least_one_small_variant() -> None:
    full = [model.key_class for model in catalogue() if model.variant == "full"]
    assert sorted(full) == sorted(KEY_CLASSES)
    assert {model.key_class for model in catalogue() if model.variant == "small"} >= set(KEY_CLASSES)
    assert len(KEY_CLASSES) == 13


def test_every_family_has_one_published_size_or_more_and_exactly_one_small_variant() -> None:
    assert len(MAPPED) == 47
    small = [model.family for model in catalogue() if model.variant == "small"]
    assert sorted(small) == sorted({model.family for model in catalogue()})
    published = {model.family for model in catalogue() if model.variant != "small"}
    assert published >= {*MAPPED, *FURTHER}
    assert find("sentence-transformers/all-MiniLM-L6-v2").category == "embedding"
    assert find("whisper-large-v3").parameters == 1_543_490_560


def test_sets_are_one_for_each_family_one_for_each_key_class_and_all() -> None:
    families = {model.family for model in catalogue()}
    assert sorted(model.family for model in models_set("small")) == sorted(families)
    assert [model.key_class for model in models_set("key")] == list(KEY_CLASSES)
    assert models_set("all") == catalogue()
    with pytest.raises(UsageError, match=r"no set of models named 'tiny'.*small, key, all"):
        models_set("tiny")


def test_smaller_siblings_are_ungated_kin_largest_first_and_the_small_variant_last() -> None:
    assert [s.id for s in smaller_siblings("llama-3.2-1b")] == [
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "facebook/opt-125m",
        "assay/llama-small",
    ]
    published = smaller_siblings("llama-3.2-1b", published=True)
    assert [s.id for s in published] == [
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        "facebook/opt-125m",
        "openai-community/gpt2",
    ]
    assert [s.id for s in smaller_siblings("gpt-j-6b")] == ["assay/gptj-small"]
    assert smaller_siblings("bert-tiny") == ()
    assert smaller_siblings("nobody/nothing") == ()


def test_a_model_behind_a_gate_is_not_offered(monkeypatch) -> None:
    closed = tuple(msgspec.structs.replace(m, gated=m.gated or m.id == "facebook/opt-125m") for m in catalogue())
    monkeypatch.setattr(models, "catalogue", lambda: closed)
    assert "facebook/opt-125m" not in [s.id for s in smaller_siblings("llama-3.2-1b")]


@pytest.mark.parametrize("model", catalogue(), ids=lambda model: model.id)
def test_a_parameter_count_has_its_source_and_a_missing_one_its_reason(model) -> None:
    if model.parameters is None:
        assert model.parameters_reason
        assert model.parameters_source is None
    else:
        assert model.parameters_source
        assert model.parameters_reason is None
    if model.id.startswith("assay/"):
        assert model.parameters is None
    assert model.category in CATEGORIES
    assert model.config["model_type"] == model.family
    if model.variant == "small" and model.id.startswith("assay/"):
        assert model.id in (f"assay/{model.family.replace('_', '-')}-small", *OLDER_NAMES)


def test_no_two_models_share_a_name() -> None:
    names = [name.lower() for model in catalogue() for name in (model.id, *model.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("  BERT-Base-Uncased ", "google-bert/bert-base-uncased"),
        ("vit-tiny-patch16-224", "WinKawaks/vit-tiny-patch16-224"),
        ("whisper-small", "openai/whisper-small"),
        ("assay/whisper-small", "assay/whisper-small"),
        ("clip-small", None),
        ("bert-base", "google-bert/bert-base-uncased"),
        ("no-such-model", None),
    ],
)
def test_names_resolve_whatever_their_case_with_or_without_owner(name: str, canonical: str | None) -> None:
    assert resolve_alias(name) == canonical
    found = find(name)
    assert (found.id if found else None) == canonical


def test_nearest_offers_what_was_probably_meant_and_nothing_for_noise() -> None:
    assert nearest("bert-bse-uncased")[0] == "google-bert/bert-base-uncased"
    assert nearest("whisper-tny", n=1) == ("openai/whisper-tiny",)
    assert len(nearest("qwen", n=2)) <= 2
    assert nearest("zzzzzzzz") == ()


def test_categories_select_and_unknown_ones_are_named() -> None:
    assert {model.category for model in in_category("vision")} == {"vision"}
    with pytest.raises(UsageError) as caught:
        in_category("visual")
    assert caught.value.field == "category"


def test_defaults_hold_only_the_sizes_a_category_has() -> None:
    assert default_workload("embedding").sequence_length == 128
    assert default_workload("embedding").image_size is None
    assert default_workload("vision").sequence_length is None
    assert default_workload("video").frames == 8


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("timm/resnet50", "resnet"),
        ("resnet50d", "resnet"),
        ("wide_resnet50_2", "resnet"),
        ("resnetv2_50x1_bit", "resnetv2"),
        ("tf_efficientnetv2_s.in21k", "efficientnetv2"),
        ("ens_adv_inception_resnet_v2", "inception"),
        ("vit_base_patch16_224", "vit"),
        ("eva02_small_patch14_224", "eva"),
        ("cs3darknet_m", "cs3darknet"),
        ("res2net50_26w_8s", "res2net"),
        ("mobilenetv3_small_050", "mobilenetv3"),
        ("swinv2_tiny_window8_256", "swin"),
        ("swin_v2_cr_tiny_224", "swin"),
        ("jx_nest_tiny", "nest"),
        ("nest_tiny_jx", "nest"),
        ("seresnet50", "resnet"),
        ("flexivit_base", "vit"),
        ("maxxvitv2_rmlp_base_rw_224", "maxvit"),
    ],
)
def test_a_timm_name_tells_its_family(name: str, family: str) -> None:
    assert timm_family(name) == family


def test_a_variant_of_a_design_keeps_its_base_name() -> None:
    names = (
        "seresnet50",
        "resnet50d",
        "tf_efficientnetv2_s.in21k",
        "timm/swin_v2_cr_tiny_224",
        "maxxvitv2_rmlp_base_rw_224",
    )
    assert [timm_base_name(name) for name in names] == ["seresnet", "resnet", "efficientnetv2", "swinv2", "maxxvitv2"]


def test_licences_are_those_that_a_card_tags_and_unknown_ones_are_not_called_open() -> None:
    licences = {model.id: model.licence for model in catalogue()}
    assert all(licence is None for name, licence in licences.items() if name.startswith(OWN_PREFIX))
    tags = r"(apache-2\.0|mit|bsd-3-clause|cc-by-nc-4\.0|llama[23](\.\d)?|[a-z-]+rail(-m|-1\.0)|openrail\+\+|other)"
    assert all(licence is None or re.fullmatch(tags, licence) for licence in licences.values())
    assert all(one.licence is None or re.fullmatch(tags, one.licence) for one in language_models.catalogue().values())
    assert find("whisper-tiny").open is True
    assert find("meta-llama/Llama-3.2-1B").open is False
    assert find("openai/clip-vit-base-patch32").open is None
    both = {one.id: one.licence for one in language_models.catalogue().values() if one.id in licences}
    assert both.items() <= licences.items()
