"""Small models with random weights, and examples for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domain.variants.lineage import DataReference
from runner.compression.contract import Examples, Made, Work
from runner.compression.recipes import carry_out, recipe_named
from runner.models.build import Built, build
from runner.models.sources import resolve


def build_saved(folder: Path, cls: Any, config: Any) -> Built:
    """Save a transformers module with seeded weights and build it again as Assay does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cls(config).eval().save_pretrained(folder)
    return build(resolve(str(folder)))


def examples(inputs: dict[str, Any], targets: Any = None) -> Examples:
    count = len(next(iter(inputs.values())))
    reference = DataReference(name="examples.npz", digest="sha256:" + "0" * 64, examples=count)
    return Examples(reference=reference, inputs=inputs, targets=targets)


def carried_out(recipe: str, built: Built, folder: Path, data: Examples | None = None, **parameters: Any) -> Made:
    """Carry out a recipe with other parameters, for every family."""
    import msgspec

    chosen = recipe_named(recipe)
    chosen = msgspec.structs.replace(
        chosen,
        parameters=chosen.parameters | parameters,
        by_family={family: values | parameters for family, values in chosen.by_family.items()},
    )
    folder.mkdir(parents=True, exist_ok=True)
    return carry_out(Work(recipe=chosen, built=built, folder=folder, examples=data), lambda *_: None)


@pytest.fixture(scope="package")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Built:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=8, patch_size=4, num_channels=1, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        num_labels=4, initializer_range=0.2,
    )  # fmt: skip
    return build_saved(tmp_path_factory.mktemp("models") / "small-vit", ViTForImageClassification, config)


@pytest.fixture(scope="package")
def pictures() -> Examples:
    random = np.random.default_rng(0)
    pixels = random.standard_normal((40, 1, 8, 8)).astype(np.float32)
    return examples({"pixel_values": pixels}, random.integers(0, 4, 40))


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower on several threads where others work beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
