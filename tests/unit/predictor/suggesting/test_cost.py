"""Seconds of runs: the budget for short calls, the calls for long ones, and what a platform took to prepare."""

from __future__ import annotations

import pytest

from predictor.suggesting.suggestion import BUDGET_S, PREPARE_S, START_S, Costs, run_seconds


def row(platform: str, origin: str = "measured", **stages: float | None) -> dict[str, object]:
    return {"platform": platform, "origin": origin, "load_ms": None, "convert_ms": None, "compile_ms": None, **stages}


def test_short_calls_cost_the_budget_and_long_ones_their_calls() -> None:
    assert run_seconds(0.001) == run_seconds(0.1) == START_S + PREPARE_S + BUDGET_S
    # A segmentation model of 5.68 s a call, loaded in 6.4 s, took 59.9 s from start to event.
    assert run_seconds(5.68, prepare_s=6.4) == pytest.approx(59.9, rel=0.1)


def test_preparing_is_the_median_of_what_was_measured_on_the_platform() -> None:
    rows = [row("openvino", load_ms=1000.0, convert_ms=9000.0, compile_ms=2000.0) for _ in range(3)]
    rows += [row("openvino", load_ms=9e6), row("openvino", origin="imported", load_ms=1.0), row("openvino")]
    costs = Costs(rows)
    assert costs.seconds("openvino", 10.0) == pytest.approx(START_S + 12.0 + BUDGET_S)
    assert costs.seconds("cuda", None) == pytest.approx(START_S + PREPARE_S + BUDGET_S)
