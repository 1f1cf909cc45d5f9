"""Every model of the catalogue can be built, and has the parameters that its publisher states."""

from __future__ import annotations

import pytest

from domain.models import catalogue
from runner.build import build_meta
from runner.sources import resolve


@pytest.mark.parametrize("model", catalogue(), ids=lambda model: model.id)
def test_builds_on_the_meta_device_with_the_published_parameters(model) -> None:
    built = build_meta(resolve(model.id, "random"))
    assert type(built.module).__name__ == model.class_name
    assert not built.module.training
    assert {parameter.device.type for parameter in built.module.parameters()} == {"meta"}
    if model.parameters is not None:
        assert built.parameters == model.parameters
    if model.parameters_about is not None:
        assert built.parameters == pytest.approx(model.parameters_about, rel=0.02)
    if model.variant == "small":
        assert built.parameters < 20_000_000


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
