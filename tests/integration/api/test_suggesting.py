"""Suggestions over HTTP: plans within a budget, the same bytes twice, and what cannot be asked by its field."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from domain.answers import answer_document
from domain.catalogues.models import in_category
from domain.errors import AssayError, UnknownHardware, UnknownModel

DEVICE = "nvidia-l4"
UNMEASURED = "nvidia-a40"
"""On this one no test measures, in whatever order they run on one service."""
MODELS = [model.id for model in in_category("vision")][:3]


def trace(build: Any, model: str, width: float) -> dict[str, Any]:
    operator = {
        "name": "aten.addmm", "class": "mm", "count": 24, "flops": 2e8 * width, "read_elements": 98304,
        "write_elements": 98304, "weight_elements": 589824, "inner": 768, "kernel": None, "stride": None,
        "groups": None,
    }  # fmt: skip
    totals = {
        "flops": 4.8e9 * width, "read_elements": 2.4e6, "write_elements": 2.4e6, "weight_elements": 1.4e7,
        "operators": 24, "parameters": 14155776, "peak_activation_elements": 4e5,
    }  # fmt: skip
    return build.event(
        "assay.model.traced.v1",
        {
            "model": {"id": model, "category": "vision", "family": "vit", "architecture": "sha256:" + f"{width:064.0f}"},
            "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "image_size": 224},
            "tracer": {"name": "assay-tracer", "version": 1, "torch": "2.13.0"},
            "operators": [operator],
            "totals": totals,
        },
    )  # fmt: skip


@pytest.fixture
def traced(client: Any, build: Any) -> Any:
    events = [trace(build, model, 1.0 + index) for index, model in enumerate(MODELS)]
    client.wait_for(client.post_events(events)["last_position"])
    return client


def test_runs_come_within_the_budget_with_a_plan_for_each_device(service: Any, traced: Any) -> None:
    asked = {"budget_s": 90.0, "models": MODELS, "hardware": [UNMEASURED], "platform": "cuda"}
    answer = traced.suggest(**asked)
    assert 0 < answer.seconds <= 90.0
    assert answer.questions.source == "asked"
    (device,) = answer.devices
    assert (device.hardware, device.own) == (UNMEASURED, False)
    planned = [(model, *sweep.platforms) for sweep in device.plan.sweeps for model in sweep.models]
    assert planned == [(run.model, "cuda") for run in answer.runs]
    again = [httpx.post(f"{service.url}/v1/suggestions", json={**asked, "as_of": answer.position}) for _ in range(2)]
    assert again[0].content == again[1].content
    assert again[0].headers["etag"] == again[1].headers["etag"]
    assert again[0].json()["runs"] == answer_document(answer)["runs"]


def test_what_was_measured_since_is_not_suggested(traced: Any, build: Any) -> None:
    asked = {"models": MODELS, "hardware": [DEVICE], "platform": "cuda", "precision": "bf16", "batch_sizes": [1]}
    first = traced.suggest(600.0, **asked).runs[0].model
    measured = build.measurement(model=first, hardware=DEVICE, platform="cuda", precision="bf16")
    measured["data"]["workload"] = {
        "mode": "inference", "scenario": "single_stream", "batch_size": 1, "image_size": 224,
    }  # fmt: skip
    traced.wait_for(traced.post_events([measured])["last_position"])
    assert first not in [run.model for run in traced.suggest(600.0, **asked).runs]


def test_what_cannot_be_asked_is_named(service: Any, traced: Any) -> None:
    for body, field in (
        ({}, "budget_s"), ({"budget_s": -1}, "budget_s"), ({"budget_s": "2h"}, "budget_s"),
        ({"budget_s": 60, "model": MODELS[0]}, "model"), ({"budget_s": 60, "batch_sizes": ["a"]}, "batch_sizes[0]"),
        ({"budget_s": 60, "as_of": 10**8}, "as_of"),
    ):  # fmt: skip
        response = httpx.post(f"{service.url}/v1/suggestions", json=body)
        assert (response.status_code, response.json()["field"]) == (422, field), body
    with pytest.raises(UnknownModel):
        traced.suggest(60.0, models=["bert-base-uncasd"])
    with pytest.raises(UnknownHardware):
        traced.suggest(60.0, hardware=["nvidia-l5"])
    with pytest.raises(AssayError) as unknown:
        traced.suggest(60.0, as_of="no such snapshot")
    assert (unknown.value.status, unknown.value.field) == (422, "as_of")


def test_a_prediction_says_what_it_is_made_of(traced: Any) -> None:
    told = traced.predict(MODELS[0], hardware=DEVICE, platform="cuda", precision="fp16", batch_size=8)
    parts = told["explanation"]["parts"]
    assert sum(part["ms"] for part in parts) == pytest.approx(told["latency_ms"], rel=1e-4)
    assert told["explanation"]["by_class_ms"] == told["breakdown"]["by_class_ms"]
    assert {kind["kind"] for kind in told["explanation"]["kernels"]} == {"matrix products"}
    assert told["explanation"]["longest"][0]["calls"] == 24


def test_a_prediction_says_what_would_make_it_faster_unless_it_is_left_out(traced: Any) -> None:
    asked = {"hardware": DEVICE, "platform": "cuda", "precision": "fp16", "batch_size": 1}
    told, plain = traced.predict(MODELS[0], **asked), traced.predict(MODELS[0], **asked, faster=False)
    faster = told["faster"]
    assert (faster["best"] is None) == bool(faster["why"])
    assert faster["considered"] > 0
    assert plain["faster"] is None
    # What an answer is named by does not depend on the advice beside it.
    assert plain["id"] == told["id"]
