"""Recipes in processes of their own: what is there is taken, what fails leaves nothing, and the others go on."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.errors import AssayError, UsageError
from domain.events import MEASUREMENT_RECORDED, QUALITY_MEASURED, TEST_REPORTED, VARIANT_CREATED
from runner.compression.compress import Compressed, compress
from runner.compression.contract import Compression
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


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import sys; sys.exit('no table')", "no table"),
        ('print(\'{"id": 1, "score": NaN}}\')', "nan"),
        ('import time; print(\'{"id": 1, "score": %f}}\' % (time.time() % 1))', "changes between runs"),
    ],
)
def test_an_evaluation_that_gives_nothing_is_refused_before_anything_is_made(
    model: Path, tmp_path: Path, script: str, says: str
) -> None:
    (tmp_path / "judge.py").write_text(script.replace("{{", "{").replace("}}", "}"))
    with pytest.raises(AssayError) as refused:
        _asked(model, tmp_path / "out", evaluate=f"{sys.executable} {tmp_path / 'judge.py'} {{model}}")
    assert says in refused.value.detail and refused.value.remedy
    assert not (tmp_path / "out").exists()


def test_labels_that_the_model_has_not_are_refused_before_anything_is_made(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", pixel_values=np.zeros((3, 1, 8, 8), np.float32), labels=[0, 9, 10])
    with pytest.raises(UsageError) as refused:
        _asked(model, tmp_path / "out", evaluate=str(tmp_path / "other.npz"))
    assert "10" in refused.value.detail and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("precision", "evaluate"), [("int8", f"{sys.executable} -V"), ("fp4", None)])
def test_a_precision_that_cannot_be_judged_here_is_refused_before_anything_is_made(
    model: Path, tmp_path: Path, precision: str, evaluate: str | None
) -> None:
    with pytest.raises(AssayError) as refused:
        _asked(model, tmp_path / "out", precisions=(precision,), evaluate=evaluate)
    assert refused.value.field == "precision" and refused.value.remedy
    assert not (tmp_path / "out").exists()


def _asked(model: Path, out: Path, **how: Any) -> Compressed:
    asked = Compression(model=str(model), recipes=(recipe_named("prune-50"),), out=out, platforms=("cpu",), **how)
    return compress(asked, lambda _: None, lambda *_: None)


@pytest.mark.torture
def test_precisions_of_the_model_itself_are_measured_verified_and_judged_once(model: Path, tmp_path: Path) -> None:
    """Eight processes, each of which imports torch, take half a minute."""
    pixels = np.random.default_rng(0).standard_normal((20, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", pixel_values=pixels, labels=np.arange(20) % 10)
    asked = Compression(
        model=str(model),
        recipes=(),
        out=tmp_path / "out",
        platforms=("openvino",),
        precisions=("int8",),
        evaluate=str(tmp_path / "data.npz"),
        budget_s=0.1,
    )
    result = compress(asked, lambda _: None, lambda *_: None, cache=tmp_path / "cache")
    assert result.unjudged == []
    (quality,) = (event["data"] for event in result.events if event["type"] == QUALITY_MEASURED)
    assert quality["model"]["id"] == quality["base"]["id"] == result.base
    assert quality["execution"]["precision"] == "int8" and quality["examples"] == 20
    measured = [event["data"] for event in result.events if event["type"] == MEASUREMENT_RECORDED]
    assert [row["execution"]["precision"] for row in measured] == ["fp32", "int8"]
    (tested,) = (event["data"] for event in result.events if event["type"] == TEST_REPORTED)
    assert tested["execution"]["precision"] == "int8"
    again = compress(asked, lambda _: None, lambda *_: None, cache=tmp_path / "cache")
    facts = (MEASUREMENT_RECORDED, TEST_REPORTED, QUALITY_MEASURED)
    first, second = ([event["id"] for event in each.events if event["type"] in facts] for each in (result, again))
    assert first == second


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
