"""Recipes as data: names, families, parameters, and who is refused before anything is built."""

import importlib.util

import msgspec
import pytest

from domain.errors import PartMissing, UnsupportedWorkload, UsageError
from runner.compression import recipes as module
from runner.compression.contract import Recipe
from runner.compression.recipes import forms_for, parameters_for, recipe_named, recipes, refusal
from runner.models.sources import resolve

NAMES = {
    "int8-ptq", "int8-ptq-onnx", "int8-dynamic", "int8-dynamic-onnx", "int4-weights", "int8-qat", "mixed", "prune-50", "prune-90", "prune-70",
    "prune-2:4", "distill-half", "distill-tiny", "onnx-optimised",
}  # fmt: skip


def test_every_recipe_is_there_once_with_a_method_a_form_and_known_needs():
    assert {recipe.name for recipe in recipes()} == NAMES
    assert len(recipes()) == len(NAMES)
    for recipe in recipes():
        assert recipe.method in module._METHODS
        assert recipe.forms and set(recipe.forms) <= {"checkpoint", "openvino", "onnx"}
        assert recipe.needs in (None, "calibration", "training")
        assert not recipe.needs or recipe.parameters["least_examples"] >= 2
        assert not any(name.startswith("@") for name in recipe.by_family)
        assert all(importlib.util.find_spec(package) for package in recipe.packages)


def test_a_familys_parameters_go_over_those_of_its_group_and_the_common_ones():
    recipe = recipe_named("int8-ptq")
    assert parameters_for(recipe, "resnet").get("model_type") is None
    assert parameters_for(recipe, "vit")["model_type"] == "transformer"
    assert "fast_bias_correction" not in parameters_for(recipe, "vit")
    assert parameters_for(recipe, "swin") == parameters_for(recipe, "vit") | {"fast_bias_correction": False}
    assert parameters_for(recipe_named("prune-50"), "resnet")["keep"] == ["classifier", "embedder"]


def test_parameters_are_a_copy_of_the_packaged_ones():
    parameters_for(recipe_named("prune-50"), "vit")["keep"].append("everything")
    assert "everything" not in parameters_for(recipe_named("prune-50"), "vit")["keep"]


def test_unknown_recipe_names_the_nearest_ones():
    with pytest.raises(UsageError, match="int8-ptq") as error:
        recipe_named("int8-pqt")
    assert error.value.field == "recipe"


@pytest.mark.parametrize("name", ["int8-ptq", "int8-ptq-onnx", "mixed", "int8-qat", "onnx-optimised"])
def test_graph_recipes_refuse_a_model_that_writes_token_after_token(name):
    error = refusal(recipe_named(name), resolve("gpt2", "random"))
    assert isinstance(error, UnsupportedWorkload)
    assert error.field == "recipe"
    assert "int8-dynamic" in str(error.remedy) and name not in str(error.remedy).split(", ")


def test_int4_of_a_model_that_writes_tokens_is_its_checkpoint_alone():
    source = resolve("gpt2", "random")
    assert refusal(recipe_named("int4-weights"), source) is None
    assert forms_for(recipe_named("int4-weights"), source) == ("checkpoint",)
    assert forms_for(recipe_named("int4-weights"), resolve("bert-tiny", "random")) == ("openvino", "checkpoint")


def test_a_denoiser_is_refused_by_every_recipe():
    source = msgspec.structs.replace(resolve("bert-tiny", "random"), kind="diffusers")
    assert all(isinstance(refusal(recipe, source), UnsupportedWorkload) for recipe in recipes())


def test_timm_gets_graphs_and_no_checkpoint():
    source = msgspec.structs.replace(resolve("bert-tiny", "random"), kind="timm", family="resnet")
    assert "int8-ptq" in str(refusal(recipe_named("prune-50"), source).remedy)
    assert refusal(recipe_named("int8-ptq"), source) is None
    assert forms_for(recipe_named("int4-weights"), source) == ("openvino",)


def test_recipe_for_other_families_names_them_and_a_recipe_that_is_possible():
    recipe = Recipe(name="own", title="", method="prune", forms=("checkpoint",), precision="fp32", families=("vit",))
    error = refusal(recipe, resolve("bert-tiny", "random"))
    assert isinstance(error, UnsupportedWorkload)
    assert "vit" in error.detail and "prune-50" in str(error.remedy)


def test_absent_package_is_refused_with_the_command_that_installs_it():
    recipe = msgspec.structs.replace(recipe_named("int8-ptq"), packages=("no_such_package",))
    error = refusal(recipe, resolve("bert-tiny", "random"))
    assert isinstance(error, PartMissing)
    assert error.remedy == "pip install no_such_package"
