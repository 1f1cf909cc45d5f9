"""Training steps of real models: right losses, each part timed, in the precisions that train."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
import torch

from domain.configuration import Workload
from domain.errors import UnsupportedPrecision, UnsupportedWorkload
from runner.measure.reference_outputs import reference_of
from runner.measure.training import TorchTraining
from runner.models.build import build
from runner.models.inputs import training_inputs
from runner.models.sources import resolve
from tests.integration.runner.workbench import case, failed, measured, verified

TRAINING: dict[str, Any] = {"mode": "training", "optimizer": "adamw"}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("bert-tiny", {"sequence_length": 16}),
        ("assay/deit-small", {}),
        ("assay/mt5-small", {"sequence_length": 16}),
        ("assay/gpt2-small", {"sequence_length": 16}),
        ("assay/wav2vec2-small", {}),
    ],
)
def test_every_kind_of_model_learns_one_batch(name: str, sizes: dict[str, Any]) -> None:
    result = verified(case(name, **TRAINING, **sizes))
    assert failed(result) == []
    losses = result["values"]["losses"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("precision", "optimizer"), [("amp-bf16", "sgd"), ("bf16", "adamw")])
def test_narrow_precisions_train_and_are_observed(precision: str, optimizer: str) -> None:
    result = verified(case("bert-tiny", precision=precision, mode="training", optimizer=optimizer, sequence_length=16))
    assert failed(result) == []
    assert result["observed"]["precision"] == precision


def test_the_parts_of_a_step_are_timed_and_fill_it() -> None:
    result = measured(case("assay/gpt2-small", **TRAINING, sequence_length=16))
    parts = result["parts"]
    assert set(parts) == {"forward_ms", "loss_ms", "backward_ms", "optimizer_ms"}
    filled = []
    for index, whole in enumerate(result["series"]["samples_ms"]):
        inner = sum(parts[name][index][0] for name in parts)
        assert inner <= whole
        assert all(parts[name][index][0] > 0 for name in parts)
        filled.append(inner / whole)
    # A neighbour may take the processor between two parts of one step, not of most.
    assert median(filled) > 0.7


def test_the_loss_begins_where_the_head_ends() -> None:
    """The loss of a class with 50,000 words takes long; the head beside it is part of the forward pass."""
    module, inputs = trained("assay/gpt2-small")
    steps = TorchTraining(module, inputs, Workload(mode="training"), 1e-4, synchronize=lambda: None)
    ends: list[str] = []
    module.lm_head.register_forward_hook(lambda *_: ends.append("head"))
    steps.forward()
    assert ends == ["head"] and len(module.lm_head._forward_hooks) == 2


def trained(name: str) -> tuple[Any, dict[str, Any]]:
    workload = Workload(mode="training", batch_size=2, sequence_length=16)
    built = build(resolve(name, "random"), purpose="training")
    return built.module, training_inputs(built, workload)


def test_checkpointing_computes_activations_again_and_changes_no_loss() -> None:
    module, inputs = trained("assay/gpt2-small")
    module.eval()
    plain = reference_of(module, inputs, Workload(mode="training"))["losses"]
    calls = {}
    for wanted in (False, True):
        module, inputs = trained("assay/gpt2-small")
        module.train()
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        workload = Workload(mode="training", gradient_checkpointing=wanted)
        steps = TorchTraining(module, inputs, workload, 1e-3, synchronize=lambda: None)
        seen: list[int] = []
        module.transformer.h[0].ln_1.register_forward_hook(lambda *_, into=seen: into.append(1))
        steps.forward()
        steps.backward()
        calls[wanted] = len(seen)
        assert steps.loss() == pytest.approx(float(plain[0]), rel=1e-5)
    assert calls == {False: 1, True: 2}


def test_the_optimizer_asked_for_moves_the_weights() -> None:
    moved = {}
    for optimizer in ("adamw", "sgd"):
        module, inputs = trained("bert-tiny")
        before = next(module.parameters()).detach().clone()
        workload = Workload(mode="training", optimizer=optimizer)
        steps = TorchTraining(module, inputs, workload, 1e-2, synchronize=lambda: None)
        steps.forward()
        steps.backward()
        assert steps.gradients_finite()
        steps.update()
        moved[optimizer] = (next(module.parameters()) - before).abs().max().item()
    # One AdamW step moves a weight by the rate; SGD by the rate times its gradient.
    assert moved["adamw"] == pytest.approx(1e-2, rel=0.05)
    assert 0 < moved["sgd"] < 1e-2


def test_what_cannot_be_trained_says_why() -> None:
    with pytest.raises(UnsupportedPrecision) as precision:
        verified(case("bert-tiny", precision="int8", **TRAINING))
    assert "amp-bf16" in (precision.value.remedy or "")
    with pytest.raises(UnsupportedWorkload) as platform:
        verified(case("bert-tiny", "openvino", **TRAINING))
    assert platform.value.field == "mode" and platform.value.remedy


def test_a_wrong_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def infinite(self: TorchTraining) -> None:
        self._loss.backward()
        for parameter in self._module.parameters():
            if parameter.grad is not None:
                parameter.grad.fill_(float("inf"))

    monkeypatch.setattr(TorchTraining, "backward", infinite)
    names = [name for name, _ in failed(verified(case("bert-tiny", **TRAINING, sequence_length=16)))]
    assert {"losses", "gradients"} <= set(names)
