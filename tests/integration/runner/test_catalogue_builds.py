"""Every model of the catalogue can be built, and has the parameters that its publisher states."""

from __future__ import annotations

import sys

import pytest

from domain.catalogues.models import catalogue
from domain.errors import PartMissing, UnsupportedWorkload
from runner.models.build import build_meta
from runner.models.sources import resolve


def rounds_to(exact: int, published: int) -> bool:
    """Whether a count is what its publisher rounded it to, or off by 2 % where a head was counted otherwise."""
    unit = 10 ** (len(str(published)) - len(str(published).rstrip("0")))
    return abs(exact - published) <= max(unit / 2, 0.02 * published)


@pytest.mark.parametrize("model", [m for m in catalogue() if not m.requires], ids=lambda model: model.id)
def test_builds_on_the_meta_device_with_the_published_parameters(model) -> None:
    built = build_meta(resolve(model.id, "random"))
    assert type(built.module).__name__ == model.class_name
    assert not built.module.training
    assert {parameter.device.type for parameter in built.module.parameters()} == {"meta"}
    if model.parameters is not None:
        assert built.parameters == model.parameters
    if model.parameters_about is not None:
        assert rounds_to(built.parameters, model.parameters_about)
    if model.variant == "small":
        assert built.parameters < 20_000_000


@pytest.mark.parametrize("model", [m for m in catalogue() if m.requires], ids=lambda model: model.id)
def test_a_model_of_another_package_builds_with_it_and_names_it_where_it_is_not(model, monkeypatch) -> None:
    source = resolve(model.id, "random")
    built = build_meta(source)
    assert type(built.module).__name__ == model.class_name
    assert rounds_to(built.parameters, model.parameters_about or built.parameters)
    monkeypatch.setitem(sys.modules, model.requires, None)
    with pytest.raises(PartMissing, match=model.requires) as caught:
        build_meta(source)
    assert f"pip install {model.requires}" in (caught.value.remedy or "")


def test_what_is_built_says_what_it_is() -> None:
    built = build_meta(resolve("bert-base-uncased", "random"))
    described = built.model(architecture="a" * 64)
    assert (described.id, described.category, described.family, described.task) == (
        "google-bert/bert-base-uncased",
        "embedding",
        "bert",
        "feature-extraction",
    )
    assert (described.parameters, described.weights, described.architecture) == (109_482_240, "random", "a" * 64)


def test_building_leaves_the_catalogue_as_it_is() -> None:
    before = [repr(model) for model in catalogue()]
    build_meta(resolve("clip-vit-base-patch32", "random"))
    build_meta(resolve("qwen2-vl", "random"))
    assert [repr(model) for model in catalogue()] == before


@pytest.mark.parametrize(
    ("name", "purpose", "class_name"),
    [
        ("bert-tiny", "training", "BertForSequenceClassification"),
        ("assay/llama-small", "training", "LlamaForCausalLM"),
        ("assay/deit-small", "training", "DeiTForImageClassification"),
        ("assay/hubert-small", "training", "HubertForSequenceClassification"),
        ("assay/clip-small", "training", "CLIPModel"),
        ("assay/bart-small", "generation", "BartForConditionalGeneration"),
        ("assay/whisper-small", "generation", "WhisperForConditionalGeneration"),
    ],
)
def test_a_purpose_picks_the_class_that_serves_it(name: str, purpose: str, class_name: str) -> None:
    built = build_meta(resolve(name, "random"), purpose=purpose)
    assert type(built.module).__name__ == class_name
    assert built.module.training == (purpose == "training")
    assert built.config.use_cache == (purpose == "generation") if hasattr(built.config, "use_cache") else True


@pytest.mark.parametrize(
    ("name", "purpose", "field"),
    [
        ("bert-tiny", "generation", "output_tokens"),
        ("assay/wav2vec2-small", "generation", "output_tokens"),
        ("assay/dpt-small", "training", "mode"),
        ("assay/dpr-small", "training", "mode"),
    ],
)
def test_a_purpose_that_a_model_cannot_serve_is_unsupported_with_its_field(name, purpose, field) -> None:
    with pytest.raises(UnsupportedWorkload) as caught:
        build_meta(resolve(name, "random"), purpose=purpose)
    assert caught.value.field == field
    assert caught.value.remedy
