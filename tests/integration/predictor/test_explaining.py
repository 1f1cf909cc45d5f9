"""Why a prediction is what it is, asked of a real log: parts add up whatever method made it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from predictor.answering.question import PredictQuestion, Question
from predictor.explaining.entries import BEYOND, RUNTIME
from predictor.explaining.explanation import CALIBRATION, HOST, SIBLING, USUAL
from predictor.explaining.kernels import KINDS

ROOT = Path(__file__).resolve().parents[3]
MODEL = "acme/net"
GPU = "nvidia-rtx-4090"
UNTRAINED = "nvidia-rtx-4080"
"""No model was measured on it: where some were, the trees learned what its kernels say."""


@pytest.fixture
def traced(build: Any, make_trace: Any) -> Any:
    def made(model: str = MODEL, category: str = "vision", seed: int = 3) -> Any:
        return build.event("assay.model.traced.v1", make_trace(model, "net", category, seed))

    return made


@pytest.fixture
def measured(build: Any) -> Any:
    def made(p50: float, model: str, platform: str = "cuda", precision: str = "bf16", batch: int = 8) -> Any:
        event = build.measurement(p50, model=model, hardware=GPU, platform=platform, precision=precision)
        event["data"]["workload"] = {
            "mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224,
        }  # fmt: skip
        return event

    return made


@pytest.fixture(scope="module")
def resnet() -> dict[str, Any]:
    """The trace of a network like those that trained, as a runner made it."""
    (path,) = ROOT.glob("data/intel-xeon-2c-2026-11.ndjson.gz")
    with gzip.open(path, "rt") as lines:
        found = (json.loads(line) for line in lines if '"type":"assay.model.traced.v1"' in line[:400])
        return next(event for event in found if event["subject"] == "microsoft/resnet-50")


def predict(service: Any, **asked: Any) -> dict[str, Any]:
    whole = {"model": MODEL, "hardware": GPU, "platform": "cuda", "precision": "amp-fp16", "batch_size": 64, **asked}
    return service.answers.predict(PredictQuestion(**whole))


EXACT = 1e-5
"""Answers have six significant digits, each part its own."""


def groups(told: dict[str, Any]) -> dict[str, float]:
    explanation = told["explanation"]
    parts = explanation["parts"]
    largest = max(abs(part["ms"]) for part in parts)
    assert sum(part["ms"] for part in parts) == pytest.approx(told["latency_ms"], abs=EXACT * largest)
    assert all(
        part["ms"] == pytest.approx(part["roofline_ms"] + part["learned_ms"], abs=EXACT * largest) for part in parts
    )
    assert sum(part["roofline_ms"] for part in parts) == pytest.approx(told["breakdown"]["latency_ms"], rel=EXACT)
    assert explanation["bottleneck"] == told["breakdown"]["bound"] == told["bottleneck"]
    for kind in explanation["kernels"]:
        assert kind["arithmetic_ms"] + kind["traffic_ms"] + kind["launch_ms"] == pytest.approx(kind["ms"], rel=EXACT)
    times = [operator["ms"] for operator in explanation["longest"]]
    assert times == sorted(times, reverse=True)
    assert 0 < len(times) <= 5
    assert sum(times) <= sum(kind["ms"] for kind in explanation["kernels"]) * (1 + EXACT)
    return {part["group"]: part["learned_ms"] for part in parts}


def test_of_trees_every_part_is_a_group_of_features_and_nothing_is_left(
    service: Any, told: Any, resnet: dict[str, Any]
) -> None:
    told(resnet)
    answer = predict(service, model="microsoft/resnet-50")
    assert (answer["basis"], answer["method"]) == ("predicted", "trees")
    parts = groups(answer)
    assert {USUAL, "attention", "convolution", "batch and sizes", "runtime"} <= parts.keys()
    # Nothing measured this device: what the features leave unsaid would be an error of the attribution.
    assert abs(parts.get(CALIBRATION, 0.0)) < 1e-4 * answer["latency_ms"]


def test_of_few_rows_the_parts_are_kinds_of_work(service: Any, told: Any, traced: Any, measured: Any) -> None:
    models = [f"acme/net-{index}" for index in range(6)]
    told(traced(), *(traced(model, seed=index) for index, model in enumerate(models)))
    told(*(measured(2.0 + index, model) for index, model in enumerate(models)))
    answer = predict(service, precision="bf16")
    assert (answer["basis"], answer["method"]) == ("calibrated", "few")
    assert {"compute", "memory traffic", "launches", "runtime"} <= groups(answer).keys()
    assert CALIBRATION not in groups(answer)


def test_a_sum_of_kernels_is_told_with_what_the_runtime_takes_beyond_it(service: Any, told: Any, traced: Any) -> None:
    told(traced(category="audio"))
    answer = predict(service, precision="bf16")
    assert (answer["basis"], answer["method"]) == ("predicted", "general")
    assert groups(answer).keys() == {*KINDS.values(), HOST, RUNTIME}
    explanation = answer["explanation"]
    parts = {part["group"]: part for part in explanation["parts"]}
    for kind in explanation["kernels"]:
        assert parts[kind["kind"]]["ms"] == pytest.approx(kind["ms"], rel=EXACT)
    assert (parts[HOST]["roofline_ms"], parts[RUNTIME]["roofline_ms"]) == (0.0, 0.0)
    assert parts[HOST]["ms"] > 0


def test_the_longest_operators_have_their_sizes_at_the_batch(service: Any, told: Any, traced: Any) -> None:
    told(traced(category="audio"))
    one, eight = (predict(service, precision="bf16", batch_size=size)["explanation"]["longest"] for size in (1, 8))
    named = {(item["name"], item["kind"]) for item in (*one, *eight)}
    assert ("aten.attention", "attention") in named
    assert {item["sizes"] for item in one}.isdisjoint(item["sizes"] for item in eight)
    assert all(item["calls"] >= 1 for item in one)


def test_measured_kernels_of_a_device_move_the_parts(service: Any, told: Any, traced: Any, build: Any) -> None:
    told(traced(category="audio"))
    before = predict(service, hardware=UNTRAINED, precision="bf16")
    rows = [1024 * size for size in range(1, 13)]
    slow_ms = [8 * 2 * size * 4096 * 4096 / 165e12 * 1e3 for size in rows]
    kernels = build.kernels(rows, slow_ms, hardware=UNTRAINED, platform="cuda", precision="bf16")
    kernels["data"]["fixed"] = {"n": 4096, "k": 4096}
    told(kernels)
    after = predict(service, hardware=UNTRAINED, precision="bf16")
    assert after["basis"] == "calibrated"
    products = [
        next(part["ms"] for part in answer["explanation"]["parts"] if part["group"] == "matrix products")
        for answer in (before, after)
    ]
    assert products[1] > 1.5 * products[0]
    groups(after)


def test_entries_of_a_ranking_have_the_sentence_and_two_parts(
    service: Any, told: Any, traced: Any, measured: Any
) -> None:
    told(traced(), measured(50.0, MODEL))
    asked = Question(
        model=MODEL, hardware=[GPU], platform="cuda", precision=["bf16"], batch_sizes=[8, 16], per_hardware=False
    )
    seen, unseen = sorted(service.answers.recommend(asked)["ranked"], key=lambda one: one["basis"] != "measured")
    for one in (seen, unseen):
        assert BEYOND in [part["group"] for part in one["explanation"]["parts"]]
        assert one["explanation"]["told"].partition(":")[0] in ("compute-bound", "bandwidth-bound", "launch-bound")
        assert len(one["explanation"]["parts"]) == 2


def test_what_has_no_trace_is_not_explained(service: Any, told: Any, measured: Any) -> None:
    told(measured(5.0, MODEL))
    answer = predict(service, precision="bf16", batch_size=8)
    assert (answer["basis"], answer["explanation"], answer["bottleneck"]) == ("measured", None, None)


def test_what_a_sibling_device_measured_is_a_part_of_its_own(
    service: Any, told: Any, resnet: dict[str, Any], measured: Any
) -> None:
    there = measured(9.0, "microsoft/resnet-50", precision="amp-fp16", batch=64)
    there["data"]["execution"]["runtime"] = {"name": "torch", "version": "2.9.1"}
    told(resnet, there)
    answer = predict(service, model="microsoft/resnet-50", hardware="nvidia-l4")
    assert answer["basis"] == "reference"
    assert abs(groups(answer)[SIBLING]) > 0
