"""Rows of a device correct what the general route says of other models there; the truth is stated by factors of that route."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.answering.facts import trace_from_row
from predictor.answering.question import PredictQuestion
from predictor.artifact.artifact import load_shipped
from predictor.features.dataset import Row
from predictor.features.operators_route import asked
from predictor.features.shipped_traces import shipped_rows
from predictor.features.traces import TraceBook

MODELS = (
    "timm/resnet18",
    "timm/resnet50",
    "timm/vit_base_patch16_224",
    "timm/mobilenetv3_large_100",
    "timm/convnext_tiny",
)
OTHER = "timm/efficientnet_b0"
NEW, T4 = "nvidia-a10g", "nvidia-t4"


def general_ms(
    model: str, device: str, platform: str, precision: str, batch: int, runtime: str, launch: float = 1.0
) -> float:
    """What the shipped general route says; with `launch` where a launch takes as many times as long."""
    trace = TraceBook(map(trace_from_row, shipped_rows([model]))).work(model, "inference", {"image_size": 224})
    spec, general = hardware.require(device), load_shipped().general
    limits = limits_of(spec, precision, platform)
    assert trace is not None and limits is not None and general is not None
    row = Row(
        model=model,
        hardware=device,
        platform=platform,
        precision=precision,
        batch_size=batch,
        image_size=224,
        runtime=runtime,
        runtime_version="2.9.1",
        hardware_kind=spec.kind,
    )
    table = asked(trace, [row], [limits])
    parts = general.parts(table)
    seconds = table.prior * np.exp(general.predict(table).residual) * parts.seconds(launch=launch) / parts.seconds()
    return float(seconds[0] * 1e3)


@pytest.fixture
def measured(build: Any) -> Callable[..., dict[str, Any]]:
    def make(
        ms: float, model: str, device: str, platform: str, precision: str, batch: int, runtime: str
    ) -> dict[str, Any]:
        event = build.measurement(ms, model=model, hardware=device, platform=platform, precision=precision)
        event["data"]["workload"] = {"mode": "inference", "batch_size": batch, "image_size": 224}
        event["data"]["execution"]["runtime"] = {"name": runtime, "version": "2.9.1"}
        return event

    return make


def predicted(
    service: Any, model: str, device: str, platform: str, precision: str, batch: int, **asked: Any
) -> dict[str, Any]:
    question = {"hardware": device, "platform": platform, "precision": precision, "batch_size": batch}
    return service.answers.predict(PredictQuestion(model=model, **{"image_size": 224, **question, **asked}))


def width(answer: dict[str, Any]) -> float:
    return math.log(answer["latency_ms_high"] / answer["latency_ms_low"])


def off(answer: dict[str, Any], true_ms: float) -> float:
    return abs(math.log(answer["latency_ms"] / true_ms))


def rows_of(
    measured: Callable[..., Any], factor: float, device: str, platform: str, precision: str, runtime: str, **more: Any
) -> list[dict[str, Any]]:
    """Ten rows of five models whose times are `factor` times what the general route says, with 3 % of noise."""
    noise = np.random.default_rng(0).normal(scale=0.03, size=2 * len(MODELS))
    software = (device, platform, precision)
    return [
        measured(
            factor * math.exp(noise[2 * index + place]) * general_ms(model, *software, batch, runtime, **more),
            model,
            *software,
            batch,
            runtime,
        )
        for index, model in enumerate(MODELS)
        for place, batch in enumerate((1, 32) if index % 2 else (8, 64))
    ]


@pytest.mark.parametrize(
    ("device", "platform", "precision", "runtime", "origin"),
    [
        (NEW, "cuda", "fp16", "TensorRT", "measured"),
        (NEW, "cuda", "fp16", "TensorRT", "imported"),
        ("intel-core-ultra-7-155h-igpu", "openvino", "fp16", "openvino", "measured"),
    ],
)
def test_ten_rows_correct_another_model_under_their_software(
    service: Any, told: Any, measured: Any, device: str, platform: str, precision: str, runtime: str, origin: str
) -> None:
    software = (device, platform, precision)
    before = predicted(service, OTHER, *software, 16)
    rows = rows_of(measured, 1.7, *software, runtime)
    for row in rows:
        row["data"]["provenance"] = {"origin": origin}
    told(*rows)
    after = predicted(service, OTHER, *software, 16)
    assert (after["basis"], after["runtime"]) == ("calibrated", runtime)
    assert set(after["evidence"]) == {row["id"] for row in rows}
    true_ms = 1.7 * general_ms(OTHER, *software, 16, runtime)
    assert off(after, true_ms) < 0.12
    assert after["latency_ms_low"] < true_ms < after["latency_ms_high"]
    assert width(after) <= width(before)
    assert after["interval_covered"]


def test_eight_rows_at_mixed_batches_mend_batch_1(service: Any, told: Any, measured: Any) -> None:
    software = (T4, "cuda", "fp16")
    truth = {batch: general_ms(OTHER, *software, batch, "torch", launch=4.0) for batch in (1, 64)}
    before = {batch: predicted(service, OTHER, *software, batch) for batch in truth}
    rows = [
        measured(general_ms(model, *software, batch, "torch", launch=4.0), model, *software, batch, "torch")
        for model in MODELS[:4]
        for batch in (1, 64)
    ]
    told(*rows)
    after = {batch: predicted(service, OTHER, *software, batch) for batch in truth}
    assert off(before[1], truth[1]) > 0.5
    assert off(after[1], truth[1]) < 0.5 * off(before[1], truth[1])
    assert off(after[64], truth[64]) < 0.2
    assert {after[batch]["basis"] for batch in truth} == {"calibrated"}


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_a_shot_never_widens_an_interval(service: Any, told: Any, measured: Any, count: int) -> None:
    software = ("intel-core-ultra-7-155h-igpu", "openvino", "int8")
    questions = [(model, batch) for model in (OTHER, MODELS[0], "bert-base-uncased") for batch in (1, 16)]

    def widths() -> list[float]:
        sizes = {"image_size": None, "sequence_length": 128}
        return [
            width(predicted(service, model, *software, batch, **(sizes if "bert" in model else {})))
            for model, batch in questions
        ]

    before = widths()
    told(*rows_of(measured, 2.5, *software, "openvino")[:count])
    assert all(after <= first + 1e-9 for after, first in zip(widths(), before, strict=True))


def test_an_earlier_position_gives_the_earlier_answer_and_the_same_log_the_same(
    service: Any, told: Any, measured: Any
) -> None:
    software = (NEW, "cuda", "fp16")
    rows = rows_of(measured, 1.7, *software, "TensorRT")
    told(*rows[:5])
    position, first = service.projection.position, predicted(service, OTHER, *software, 16)
    told(*rows[5:])
    second = predicted(service, OTHER, *software, 16)
    assert second["latency_ms"] != first["latency_ms"] and len(second["evidence"]) == 2 * len(first["evidence"])
    again = predicted(service, OTHER, *software, 16, as_of=position)
    kept = ("latency_ms", "latency_ms_low", "latency_ms_high", "basis", "evidence", "why")
    assert {name: again[name] for name in kept} == {name: first[name] for name in kept}
    other = service.another_answerer().predict(
        PredictQuestion(model=OTHER, hardware=NEW, platform="cuda", precision="fp16", batch_size=16, image_size=224)
    )
    assert {name: other[name] for name in kept} == {name: second[name] for name in kept}


@pytest.mark.parametrize("times", [8.0, 60.0, 0.02])
def test_a_wrong_row_does_not_ruin_answers(service: Any, told: Any, measured: Any, times: float) -> None:
    software = (NEW, "cuda", "fp16")
    rows: Sequence[dict[str, Any]] = rows_of(measured, 1.7, *software, "TensorRT")
    latency = rows[3]["data"]["metrics"]["latency_ms"]
    wrong = measured(latency["p50"] * times, MODELS[1], *software, 32, "TensorRT")
    told(*(row for index, row in enumerate(rows) if index != 3), wrong)
    after = predicted(service, OTHER, *software, 16)
    assert off(after, 1.7 * general_ms(OTHER, *software, 16, "TensorRT")) < 0.2
    contradicted = service.answers.predictor_info()["contradictions"]
    assert [item["evidence"] for item in contradicted] == ([] if times == 8.0 else [[wrong["id"]]])
