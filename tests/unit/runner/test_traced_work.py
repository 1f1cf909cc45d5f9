"""The operators of one measured call, from literal traces."""

from __future__ import annotations

from typing import Any

from domain.configuration import Workload
from runner.tracing.combined_traces import operators_of_call


def traced(phase: str, flops: float, **sizes: Any) -> dict[str, Any]:
    mode = "training" if phase == "training" else "inference"
    return {
        "workload": {"mode": mode, "phase": phase, "batch_size": 1, **sizes},
        "operators": [{"name": phase, "count": 2, "flops": flops}],
    }


def flops(workload: Workload, *traces: dict[str, Any]) -> float:
    return sum(row["count"] * row["flops"] for row in operators_of_call(workload, traces))


SHORT, LONG = traced("forward", 10.0, sequence_length=32), traced("forward", 40.0, sequence_length=128)


def test_the_trace_of_the_same_sizes_is_taken_whatever_the_batch() -> None:
    work = Workload(mode="inference", scenario="single_stream", batch_size=8, sequence_length=128)
    assert flops(work, SHORT, LONG) == 80.0
    assert operators_of_call(work, [SHORT]) == []
    assert operators_of_call(work, []) == []


def test_a_generation_is_its_prefill_and_a_step_for_each_later_token() -> None:
    prefill, decode = traced("prefill", 100.0, input_tokens=16), traced("decode", 7.0, input_tokens=16)
    forward = traced("forward", 100.0, sequence_length=16)
    work = Workload(mode="inference", batch_size=1, input_tokens=16, output_tokens=4)
    assert flops(work, forward, prefill, decode) == 200.0 + 3 * 14.0
    assert flops(Workload(mode="inference", input_tokens=16, output_tokens=1), prefill, decode) == 200.0
    assert operators_of_call(work, [forward, prefill]) == []


def test_a_training_step_is_its_own_trace_or_three_forward_passes() -> None:
    step = traced("training", 25.0, sequence_length=32)
    again = traced("training", 33.0, sequence_length=32, gradient_checkpointing=True)
    work = Workload(mode="training", batch_size=2, sequence_length=32, optimizer="adamw")
    assert flops(work, SHORT, step, again) == 50.0
    assert flops(work, SHORT) == 60.0
    checkpointed = Workload(mode="training", batch_size=2, sequence_length=32, gradient_checkpointing=True)
    assert flops(checkpointed, SHORT, step, again) == 66.0
    assert flops(checkpointed, SHORT, step) == 60.0
