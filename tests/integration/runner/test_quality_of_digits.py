"""The whole way on a model that was trained here: weights taken away by hand, and what that costs on pictures of digits.

Training takes ten seconds and more on a busy machine, which is why it is part of `make torture`; tests/unit/domain/test_quality.py
and tests/integration/runner/test_evaluation.py decide the same on planted losses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.variants.quality import loss_of_pairs
from runner.models.sources import resolve
from runner.quality.evaluation import evaluate, read_evaluator
from runner.quality.examples import read_examples
from tests.digits import trained_digits

pytestmark = pytest.mark.torture
SUBSETS, SIZE = 200, 150


def pruned(share: float) -> Any:
    """The trained model without the smallest weights of its layers."""
    import torch
    from transformers import ViTForImageClassification

    module = ViTForImageClassification.from_pretrained(trained_digits().model).eval()
    for layer in module.vit.modules():
        if isinstance(layer, torch.nn.Linear):
            weight = layer.weight.data
            weight[weight.abs() < torch.quantile(weight.abs().flatten(), share)] = 0
    return module


def right(module: Any, examples: Any) -> Any:
    import torch

    with torch.no_grad():
        logits = module(torch.from_numpy(examples.inputs["pixel_values"])).logits.numpy()
    return (logits.argmax(1) == examples.targets).astype(float)


def test_losses_of_pruning_are_ordered_and_intervals_hold_what_all_examples_say(tmp_path: Path) -> None:
    digits = trained_digits()
    examples = read_examples(digits.evaluation, resolve(str(digits.model)))
    base = right(pruned(0.0), examples)
    scores = {share: right(pruned(share), examples) for share in (0.3, 0.6, 0.9)}
    costs = {share: loss_of_pairs(base, each, metric="accuracy") for share, each in scores.items()}
    assert base.mean() > 0.9
    assert costs[0.3].loss < costs[0.6].loss < costs[0.9].loss
    assert costs[0.9].p_value is not None and costs[0.9].p_value < 1e-9 and costs[0.9].interval[0] > 20
    random = np.random.default_rng(0)
    for share, each in scores.items():
        hits = 0
        for _ in range(SUBSETS):
            rows = random.choice(len(base), SIZE, replace=False)
            low, high = loss_of_pairs(base[rows], each[rows], metric="accuracy").interval
            hits += low <= costs[share].loss <= high
        assert hits / SUBSETS >= 0.93
    pruned(0.6).save_pretrained(tmp_path / "pruned")
    evaluator = read_evaluator(str(digits.evaluation))
    variant = evaluate(evaluator, str(tmp_path / "pruned"), examples=examples, batch_size=100, threads=1)
    assert variant.values.tolist() == scores[0.6].tolist()
