"""Kernels in the log correct answers about their device, each arithmetic precision by its own."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.answering.question import PredictQuestion

NEW, TRAINED = "nvidia-a10g", "nvidia-t4"


def predicted(service: Any, device: str, precision: str) -> dict[str, Any]:
    question = PredictQuestion(
        model="timm/vit_base_patch16_224", hardware=device, platform="cuda", precision=precision, batch_size=64
    )
    return service.answers.predict(question)


@pytest.fixture
def products(build: Any) -> Any:
    """Large matrix products of a device that reach a share of its peak."""

    def make(device: str, precision: str, share: float) -> dict[str, Any]:
        limits = limits_of(hardware.require(device), precision, "cuda")
        assert limits is not None
        rows = [1024 * step for step in range(1, 13)]
        times = [2 * m * 4096 * 4096 / (limits.peak_flops * share) * 1e3 for m in rows]
        event = build.kernels(rows, times, hardware=device, platform="cuda", precision=precision)
        event["data"]["fixed"] = {"n": 4096, "k": 4096}
        return event

    return make


def test_slow_products_of_a_precision_slow_that_precision_alone(service: Any, told: Any, products: Any) -> None:
    before = {precision: predicted(service, NEW, precision) for precision in ("fp16", "bf16", "int8")}
    event = products(NEW, "fp16", 0.3)
    told(event)
    after = {precision: predicted(service, NEW, precision) for precision in before}
    ratio = {name: after[name]["latency_ms"] / before[name]["latency_ms"] for name in before}
    # The same units multiply both forms of 16 bits.
    assert ratio["fp16"] > 1.2 and ratio["bf16"] == pytest.approx(ratio["fp16"], rel=0.1)
    assert abs(ratio["int8"] - 1) < 0.1
    assert {after[name]["basis"] for name in ("fp16", "bf16")} == {"calibrated"}
    assert after["fp16"]["evidence"] == [event["id"]]
    assert "12 measured kernels" in after["fp16"]["why"]


def test_kernels_move_no_device_whose_models_trained(service: Any, told: Any, products: Any) -> None:
    before = predicted(service, TRAINED, "fp16")
    told(products(TRAINED, "fp16", 0.3))
    after = predicted(service, TRAINED, "fp16")
    kept = ("basis", "latency_ms", "latency_ms_low", "latency_ms_high", "evidence")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
