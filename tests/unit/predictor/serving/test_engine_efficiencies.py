"""Shares that published times were made with are found again, and figures without rows say whose they are."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from domain.catalogues import engines, hardware, language_models
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.physics import device_of
from research import engine_efficiencies
from research.engine_efficiencies import Point, fit

DEVICES = ("nvidia-l4", "nvidia-rtx-4090", "nvidia-a100-sxm-80gb", "nvidia-h100-sxm")
MODELS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B")
LAUNCH_S = 4e-6


def points(served: Any, share: float, prefill: float, launch_s: float) -> list[Point]:
    made = []
    for name in DEVICES:
        for model in map(language_models.catalogue().__getitem__, MODELS):
            for phase in ("decode", "prefill"):
                row = served(model=model.id, hardware=name, precision="fp16", concurrency=1, count=1, parallelism={})
                deployment = deployment_of(row, model.heads)
                assert isinstance(deployment, Deployment)
                full = device_of(hardware.require(name), "cuda", deployment.storage, LAUNCH_S)
                assert full is not None
                point = Point(
                    engine="vllm", platform="cuda", kind="gpu", device=name, band="wide", phase=phase, seconds=1.0,
                    model=model, deployment=deployment, full=full, source="made up",
                )  # fmt: skip
                made.append(msgspec.structs.replace(point, seconds=point.made(share, prefill, launch_s)))
    return made


def test_shares_and_launch_are_those_that_the_times_were_made_with(served: Any) -> None:
    found = {(item.engine, item.platform): item for item in fit(points(served, 0.7, 0.4, LAUNCH_S))}
    item = found["vllm", "cuda"]
    assert item.decode["wide"].value == pytest.approx(0.7, rel=0.01)
    assert item.prefill["wide"].value == pytest.approx(0.4, rel=0.05)
    assert item.launch_s == pytest.approx(LAUNCH_S)
    assert (item.decode["wide"].rows, item.decode["wide"].devices) == (8, 4)
    assert item.source == "made up"
    # Engines without rows take them, wider, and say so.
    other = found["sglang", "cuda"]
    assert other.decode["wide"].value == item.decode["wide"].value
    assert (other.decode["wide"].rows, other.decode["wide"].width) == (0, engine_efficiencies.SPREAD)
    assert other.source == "no published row: as vllm on cuda"


def test_a_width_holds_four_of_five_rows_of_devices_that_were_left_out(served: Any) -> None:
    every = points(served, 0.7, 0.4, 0.0)
    slow = [
        msgspec.structs.replace(point, seconds=point.seconds * (2 if point.device == DEVICES[0] else 1))
        for point in every
    ]
    (item,) = (item for item in fit(slow) if item.engine == "vllm")
    assert item.decode["wide"].value == pytest.approx(0.7, rel=0.05)
    assert item.decode["wide"].width == pytest.approx(math.log(2), rel=0.1)


def test_every_published_figure_is_of_a_known_model_device_and_engine() -> None:
    own = list(engine_efficiencies.own_points())
    assert len(own) >= 200
    assert {point.engine for point in own} <= set(engines.catalogue())
    assert all(point.seconds > 0 and point.source for point in own)
