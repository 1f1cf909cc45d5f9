"""Workloads: their parts add up, and belong to the calls that were asked about."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest

from domain.configuration import Workload
from runner.measure.workloads import Generation, Training, purpose_of


class Counting:
    """Steps that note in which order they were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def prefill(self) -> None:
        self.called.append("prefill")

    def decode(self) -> None:
        self.called.append("decode")

    def tokens(self) -> Any:
        return None

    def logits(self) -> Any:
        return None

    def cache_bytes(self) -> int | None:
        return 64

    def forward(self) -> float | None:
        self.called.append("forward")
        return perf_counter()

    def backward(self) -> None:
        self.called.append("backward")

    def update(self) -> None:
        self.called.append("update")

    def loss(self) -> float:
        return 1.0

    def gradients_finite(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("workload", "purpose"),
    [
        (Workload(mode="inference"), "inference"),
        (Workload(mode="inference", output_tokens=1), "generation"),
        (Workload(mode="training", output_tokens=4), "training"),
    ],
)
def test_output_tokens_make_inference_a_generation(workload: Workload, purpose: str) -> None:
    assert purpose_of(workload) == purpose


def test_a_generation_waits_after_the_prompt_and_after_each_token() -> None:
    steps, waited = Counting(), []
    work = Generation(steps, lambda: waited.append(len(steps.called)), 4)
    work()
    assert steps.called == ["prefill", "decode", "decode", "decode"]
    assert waited == [1, 2, 3, 4]
    assert work.facts() == {"kv_cache_bytes": 64}


def test_parts_are_those_of_the_last_calls() -> None:
    work = Generation(Counting(), lambda: None, 3)
    for _ in range(5):
        work()
    parts = work.parts(2)
    assert [len(call) for call in parts["ttft_ms"]] == [1, 1]
    assert [len(call) for call in parts["token_ms"]] == [2, 2]
    assert parts["ttft_ms"] == work.parts(5)["ttft_ms"][-2:]


def test_one_token_has_no_time_between_tokens() -> None:
    work = Generation(Counting(), lambda: None, 1)
    work()
    assert set(work.parts(1)) == {"ttft_ms"}


def test_a_training_step_waits_after_each_part_and_its_parts_fill_it() -> None:
    steps, waited = Counting(), []
    work = Training(steps, lambda: waited.append(steps.called[-1]))
    started = perf_counter()
    work()
    whole_ms = (perf_counter() - started) * 1e3
    assert steps.called == waited == ["forward", "backward", "update"]
    parts = {name: calls[0][0] for name, calls in work.parts(1).items()}
    assert set(parts) == {"forward_ms", "loss_ms", "backward_ms", "optimizer_ms"}
    assert all(value >= 0 for value in parts.values()) and sum(parts.values()) <= whole_ms


def test_a_loss_that_cannot_be_told_apart_is_left_out() -> None:
    class Whole(Counting):
        def forward(self) -> float | None:
            super().forward()
            return None

    work = Training(Whole(), lambda: None)
    work()
    assert set(work.parts(1)) == {"forward_ms", "backward_ms", "optimizer_ms"}
