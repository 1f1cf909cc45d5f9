"""What fits, asked of a real log and its projection, with the shipped predictor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.catalogues.hardware import require
from domain.errors import ImpossibleConstraint, TraceNeeded, UnknownHardware, UnknownModel, UsageError
from predictor.capacity.question import FitQuestion

MODEL = "acme/net"
GPU = "amd-instinct-mi300x"
"""ROCm, of which the shipped predictor has no memory measured."""
ROOM = float(require(GPU).memory_bytes.value)  # type: ignore[union-attr]


@pytest.fixture
def traced(build: Any, make_trace: Any) -> Any:
    return build.event("assay.model.traced.v1", make_trace(MODEL, "net", "vision", 3))


@pytest.fixture
def measured(build: Any) -> Any:
    """A measurement with its peak."""

    def made(batch: int, peak: float, p50: float = 8.0, precision: str = "fp32") -> Any:
        event = build.measurement(p50, model=MODEL, hardware=GPU, platform="rocm", precision=precision)
        workload = {"mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224}
        event["data"] |= {"workload": workload}
        event["data"]["metrics"] |= {"peak_memory_bytes": int(peak), "throughput_per_s": None}
        return event

    return made


def ask(service: Any, **asked: Any) -> dict[str, Any]:
    question = {"model": MODEL, "hardware": [GPU], "platform": "rocm", **asked}
    answer: dict[str, Any] = service.answers.fit(FitQuestion(**question))
    return answer


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (one,) = answer["fits"]
    return dict(one)


def test_where_nothing_was_measured_the_usual_need_bounds_the_batch(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    answer = ask(service, max_memory_mb=4000.0)
    assert [one["precision"] for one in answer["fits"]] == sorted(
        (one["precision"] for one in answer["fits"]), key=["fp32", "tf32", "fp16", "bf16", "amp-fp16"].index
    )
    for one in answer["fits"]:
        memory, batch = one["memory"], one["largest_batch"]
        assert memory["basis"] == "estimated"
        # A runtime of 1 GB and 1.6 times the live activations at the middle; 90 % sure is less.
        middle = (4e9 - 1e9 - memory["weights_bytes"]) / (1.6 * memory["activations_bytes"])
        assert 0.5 * middle < batch < middle
        assert one["best"]["batch_size"] <= batch
        assert one["output_error"] is None
        assert one["longest"]["tokens"] is None
    by_precision = {one["precision"]: one for one in answer["fits"]}
    assert by_precision["fp16"]["largest_batch"] > by_precision["fp32"]["largest_batch"]
    assert by_precision["fp32"]["speedup_over_fp32"] == 1.0
    assert by_precision["fp16"]["speedup_over_fp32"] > 0.5
    assert json.dumps(ask(service, max_memory_mb=4000.0)) == json.dumps(answer)
    assert ask(service)["fits"][0]["largest_basis"].startswith("no larger batch was tried")


def test_less_memory_holds_no_larger_batch_and_the_best_one_fits(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    batches = []
    for limit in (50_000.0, 20_000.0, 2_000.0, 400.0, 150.0):
        one = only(ask(service, precision="fp32", max_memory_mb=limit))
        assert one["room_bytes"] == min(limit * 1e6, ROOM)
        batches.append(one["largest_batch"])
        if one["best"] is not None:
            assert one["best"]["memory_bytes"] <= one["room_bytes"]
    assert batches == sorted(batches, reverse=True)
    assert batches[-1] < batches[0]
    nothing = only(ask(service, precision="fp32", max_memory_mb=1.0))
    assert (nothing["largest_batch"], nothing["best"]) == (0, None)


def test_a_measured_peak_comes_before_what_is_expected(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced)
    before = only(ask(service, precision="fp32"))
    events = [measured(1, 4e9), measured(8, 6e9)]
    told(*events)
    after = only(ask(service, precision="fp32"))
    assert after["memory"]["basis"] == "measured"
    assert after["memory"]["peak_bytes"] == 4e9
    parts = after["memory"]
    assert parts["runtime_bytes"] == parts["peak_bytes"] - parts["weights_bytes"] - parts["activations_bytes"]
    assert 8 <= after["largest_batch"] < before["largest_batch"]
    assert set(after["evidence"]) == {event["id"] for event in events}
    # What ran within the limit fits, whatever is expected of it; what needed more does not.
    at_limit = only(ask(service, precision="fp32", max_memory_mb=6000.0))
    assert (at_limit["largest_batch"], at_limit["largest_basis"]) == (8, "measured")
    assert only(ask(service, precision="fp32", max_memory_mb=5999.0))["largest_batch"] < 8


def test_a_batch_that_ran_out_of_memory_ends_it(service: Any, told: Any, traced: Any, build: Any) -> None:
    told(traced)
    before = only(ask(service, precision="fp32"))["largest_batch"]
    failed = build.failure("out_of_memory", "run", model=MODEL, hardware=GPU, platform="rocm", precision="fp32")
    failed["data"]["workload"] = {"mode": "inference", "scenario": "single_stream", "batch_size": 16, "image_size": 224}
    told(failed)
    assert before > 16
    answer = ask(service, precision="fp32")
    # Nothing else of this configuration ever ran: it is left out, and says so.
    if answer["fits"]:
        one = only(answer)
        assert one["largest_batch"] == 15
        assert one["out_of_memory"] == {"16": failed["id"]}
    else:
        assert answer["excluded"][0]["rule"] == "failed"


def test_a_batch_that_ran_out_beside_one_that_ran(
    service: Any, told: Any, traced: Any, measured: Any, build: Any
) -> None:
    failed = build.failure("out_of_memory", "run", model=MODEL, hardware=GPU, platform="rocm", precision="fp32")
    failed["data"]["workload"] = {"mode": "inference", "scenario": "single_stream", "batch_size": 16, "image_size": 224}
    told(traced, measured(8, 1e9), failed)
    one = only(ask(service, precision="fp32"))
    assert one["largest_batch"] == 15
    assert one["largest_basis"] == "batch 16 ran out of memory"
    assert one["out_of_memory"] == {"16": failed["id"]}


def test_a_precision_is_told_with_its_verified_error(service: Any, told: Any, traced: Any, build: Any) -> None:
    test = build.test(model=MODEL, platform="rocm")
    test["data"]["execution"]["precision"] = test["data"]["observed"]["precision"] = "fp16"
    test["data"]["checks"] = {"outputs": [{"cosine": 0.9995, "max_absolute": 0.01}]}
    told(traced, test)
    errors = {one["precision"]: one["output_error"] for one in ask(service)["fits"]}
    assert errors["fp32"] is None
    assert errors["fp16"]["cosine"] == 0.9995
    assert errors["fp16"]["evidence"] == test["id"]


def test_a_language_model_without_a_trace_is_told_by_its_published_sizes(service: Any) -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "precision": "fp16", "hardware": ["nvidia-l4"], "platform": "cuda"}
    one = only(ask(service, **asked))
    memory = one["memory"]
    assert memory["weights_bytes"] == pytest.approx(16.1e9, rel=0.02)
    # 32 layers, 8 heads of 128 for keys and for values, 16 bits: 131,072 bytes a token, 2,048 tokens.
    assert memory["kv_cache_bytes"] == 131072 * 2048
    held = memory["weights_bytes"] + memory["runtime_bytes"] + 1.6 * memory["activations_bytes"]
    middle = (one["room_bytes"] - held) / memory["kv_cache_bytes"]
    assert 0.5 * middle < one["largest_batch"] < middle
    assert 0.5 * middle * 2048 < one["longest"]["tokens"] < middle * 2048
    longer = only(ask(service, **asked, input_tokens=8000, output_tokens=192))
    assert 0 < longer["largest_batch"] <= one["largest_batch"] // 4


def test_own_hardware_is_meant_where_none_is_named(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced)
    nothing = ask(service, hardware="own")
    assert nothing["fits"] == []
    assert nothing["abstained"].startswith("No hardware of yours is known")
    told(measured(8, 1e9))
    assert {one["hardware"] for one in ask(service, hardware="own")["fits"]} == {GPU}


def test_bad_input_is_named_by_its_field(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    cases: list[tuple[dict[str, Any], type, str]] = [
        ({"model": " "}, UsageError, "model"),
        ({"model": "nobody/knows-it"}, UnknownModel, "model"),
        ({"model": "resnet-50", "image_size": 999}, TraceNeeded, "model"),
        ({"mode": "dreaming"}, UsageError, "mode"),
        ({"max_memory_mb": 0.0}, ImpossibleConstraint, "max_memory_mb"),
        ({"hardware": ["nvidia-l5"]}, UnknownHardware, "hardware"),
        ({"precision": "fp99"}, UsageError, "precision"),
    ]
    for asked, error, field in cases:
        with pytest.raises(error) as raised:
            ask(service, **asked)
        assert raised.value.field == field
