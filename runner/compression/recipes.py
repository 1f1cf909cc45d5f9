"""Recipes by name, read from `domain/data/compression.json`: what each needs, whom it refuses, and the method that does it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

import domain
from domain.errors import AssayError, PartMissing, UnsupportedWorkload, UsageError
from domain.variants.lineage import FormKind
from runner.compression.contract import Carry, Made, OnStep, Recipe, Work
from runner.models.heads import generates
from runner.models.sources import ModelSource

__all__ = ["carry_out", "forms_for", "parameters_for", "recipe_named", "recipes", "refusal"]

_METHODS = {
    "at-load": ("quantizing", "quantize_at_load"),
    "int4-weights": ("quantizing", "compress_weights"),
    "openvino-int8": ("quantizing", "quantize_openvino"),
    "mixed": ("quantizing", "search_mixed"),
    "int8-qat": ("quantizing", "train_quantized"),
    "onnx-static": ("onnx_methods", "quantize_static"),
    "onnx-dynamic": ("onnx_methods", "quantize_dynamic"),
    "onnx-optimised": ("onnx_methods", "optimise"),
    "prune": ("pruning", "prune"),
    "distill": ("distilling", "distill"),
}
"""The module of this package and its function that carry out a method."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: dict[str, tuple[str, ...]]
    recipes: tuple[Recipe, ...]


@cache
def recipes() -> tuple[Recipe, ...]:
    """Return the recipes in the order of the file, with groups of families (`@transformer`) written out."""
    path = files(domain) / "data" / "compression.json"
    content = msgspec.json.decode(path.read_bytes(), type=_File)
    return tuple(_written_out(recipe, content.groups) for recipe in content.recipes)


def _written_out(recipe: Recipe, groups: dict[str, tuple[str, ...]]) -> Recipe:
    families = tuple(name for entry in recipe.families for name in _families(entry, groups))
    by_family: dict[str, dict[str, Any]] = {}
    # A family's own entry goes over that of its group.
    for entry in sorted(recipe.by_family, key=lambda name: not name.startswith("@")):
        for name in _families(entry, groups):
            by_family[name] = by_family.get(name, {}) | recipe.by_family[entry]
    return msgspec.structs.replace(recipe, families=families, by_family=by_family)


def _families(entry: str, groups: dict[str, tuple[str, ...]]) -> Iterable[str]:
    return groups[entry[1:]] if entry.startswith("@") else (entry,)


def recipe_named(name: str) -> Recipe:
    """Return the recipe of this name; raises UsageError with the nearest names."""
    by_name = {recipe.name: recipe for recipe in recipes()}
    if name in by_name:
        return by_name[name]
    close = difflib.get_close_matches(name, by_name, 3) or list(by_name)
    raise UsageError(f"no recipe is known as {name!r}.", field="recipe", remedy=f"One of {', '.join(close)}.")


def parameters_for(recipe: Recipe, family: str) -> dict[str, Any]:
    """Return the recipe's parameters for a family: its common ones, and over them those of the family."""
    return json.loads(msgspec.json.encode(recipe.parameters | recipe.by_family.get(family, {})))  # type: ignore[no-any-return]


def forms_for(recipe: Recipe, source: ModelSource) -> tuple[FormKind, ...]:
    """Return the forms that this model gets.

    No graph of one that writes token after token, because it would hold no cache; no checkpoint of timm's, which are not read from folders.
    """
    refused = {"checkpoint"} if source.kind == "timm" else {"openvino", "onnx"} if generates(source) else set()
    return tuple(form for form in recipe.forms if form not in refused)


def refusal(recipe: Recipe, source: ModelSource) -> AssayError | None:
    """Return why the recipe cannot be carried out for this model or here, before anything is built; None where it can."""
    return _wrong_model(recipe, source) or _missing_package(recipe)


def _wrong_model(recipe: Recipe, source: ModelSource) -> AssayError | None:
    if source.kind == "diffusers":
        return UnsupportedWorkload(
            f"{source.id} is a denoiser, whose outputs are judged after many steps; no recipe is for it.",
            field="model",
            remedy="Measure it in another precision: assay bench MODEL --precision bf16.",
        )
    if recipe.families and source.family not in recipe.families:
        return UnsupportedWorkload(
            f"{recipe.name} is for {', '.join(recipe.families)}, not for the family {source.family}.",
            field="recipe",
            remedy=f"Take one of {', '.join(_possible(source, recipe)) or 'the other recipes'}.",
        )
    if not forms_for(recipe, source):
        reason = (
            "writes a checkpoint, and timm's own are not read from a folder"
            if source.kind == "timm"
            else f"makes a graph of one forward pass without a cache, and {source.id} writes token after token"
        )
        return UnsupportedWorkload(
            f"{recipe.name} {reason}.",
            field="recipe",
            remedy=f"Take one of {', '.join(_possible(source, recipe))}.",
        )
    return None


def _possible(source: ModelSource, refused: Recipe) -> list[str]:
    return [
        each.name
        for each in recipes()
        if each.name != refused.name
        and (not each.families or source.family in each.families)
        and forms_for(each, source)
    ]


def _missing_package(recipe: Recipe) -> AssayError | None:
    missing = [name for name in recipe.packages if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return PartMissing(
        f"{recipe.name} needs {' and '.join(missing)}, which cannot be imported here.",
        field="recipe",
        remedy=f"pip install {' '.join(missing)}",
    )


def carry_out(work: Work, on_step: OnStep) -> Made:
    """Carry out a recipe: write its forms below `work.folder` and return what they are.

    Raises what `refusal` returns, UsageError for examples that the model cannot take or that are too few, and
    UnsupportedWorkload for a model without what the recipe works on. The module in `work.built` stays as it is.
    """
    if error := refusal(work.recipe, work.built.source):
        raise error
    module, function = _METHODS[work.recipe.method]
    method: Carry = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    # A method gets the parameters and forms of this very model.
    recipe = msgspec.structs.replace(
        work.recipe,
        parameters=parameters_for(work.recipe, work.built.family),
        forms=forms_for(work.recipe, work.built.source),
    )
    made = method(msgspec.structs.replace(work, recipe=recipe), on_step)
    if work.recipe.remark:
        made = msgspec.structs.replace(made, notes=(*made.notes, work.recipe.remark))
    return made
