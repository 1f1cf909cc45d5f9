"""Recipes in processes of their own: what is there is taken, what fails leaves nothing, and the others go on."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from domain.errors import UsageError
from domain.events import VARIANT_CREATED
from runner.compression.compress import Compressed, Compression, compress
from runner.compression.folder import check_variant
from runner.compression.recipes import recipe_named


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small vision transformer with random weights."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32, "num_hidden_layers": 1}
    config = ViTConfig(**sizes, num_attention_heads=2, intermediate_size=64, num_labels=10)
    folder = tmp_path_factory.mktemp("model") / "small-vit"
    ViTForImageClassification(config).save_pretrained(folder)
    return folder


def _compressed(model: Path, out: Path, *names: str) -> tuple[Compressed, list[dict[str, Any]], list[str]]:
    events: list[dict[str, Any]] = []
    begun: list[str] = []
    recipes = tuple(recipe_named(name) for name in names)
    asked = Compression(model=str(model), recipes=recipes, out=out, platforms=("cpu",), measure=False)
    result = compress(asked, events.append, lambda name, what, _: begun.append(name) if what == "begin" else None)
    return result, events, begun


def test_a_variant_is_made_once_and_a_recipe_without_its_data_ends_no_other(model: Path, tmp_path: Path) -> None:
    first, events, begun = _compressed(model, tmp_path, "int8-ptq", "prune-50")
    refused, made = first.made
    assert refused.failed is not None and "--calibrate" in (refused.failed.remedy or "")
    assert begun == ["prune-50"]
    assert made.folder is not None and made.variant == check_variant(made.folder)
    (created,) = (event for event in events if event["type"] == VARIANT_CREATED)
    assert created["data"]["model"]["id"] == made.variant.id
    assert created["data"]["base_bytes"] == (model / "model.safetensors").stat().st_size

    second, again, begun = _compressed(model, tmp_path, "prune-50")
    assert begun == []
    assert second.made[0].reused and second.made[0].variant == made.variant
    assert [event["id"] for event in again] == [created["id"]]
    assert [event["id"] for event in second.events] == [created["id"]]
    with pytest.raises(UsageError, match="a variant already"):
        _compressed(made.folder, tmp_path, "prune-50")


@pytest.mark.torture
def test_a_disk_that_takes_no_more_leaves_nothing_and_says_what_is_needed(model: Path, tmp_path: Path) -> None:
    """Its child takes ten seconds; what is said of a full disk is tested without it in test_variants.py."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        result, events, _ = _compressed(model, tmp_path, "prune-50")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (outcome,) = result.made
    assert outcome.failed is not None
    assert outcome.failed.error == "NoRoom"
    assert "bytes" not in outcome.failed.message or "free" in outcome.failed.message
    assert events == []
    assert [path.name for path in tmp_path.iterdir()] == ["events.ndjson"]
