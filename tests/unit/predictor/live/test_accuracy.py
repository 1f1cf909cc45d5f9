"""Live accuracy: the figures of a few scores that can be reckoned by hand."""

from __future__ import annotations

from typing import Any

import pytest

from predictor.live.answerer import accuracy, score
from predictor.live.scored_predictions import Scored


def scored(predicted: float, measured: float, **changes: Any) -> Scored:
    told: dict[str, Any] = {
        "target": "latency", "basis": "predicted", "model": "a", "family": "bert", "hardware": "h", "platform": "cuda",
        "precision": "fp16", "configuration": "c", "predicted": predicted, "measured": measured, "low": 0.9 * predicted,
        "high": 1.1 * predicted, "interval": 0.8, "supported": True, "predictor": "sha256:1", "position": 1,
        "event_id": "p", "measured_position": 2, "measured_event_id": "e",
    }  # fmt: skip
    return Scored(**{**told, **changes})


def test_the_figures_are_those_of_the_errors() -> None:
    told = score([scored(1.05, 1.0), scored(1.15, 1.0), scored(0.7, 1.0, model="b"), scored(1.0, 1.0, model="b")])
    assert (told["rows"], told["models"]) == (4, 2)
    assert told["mape"] == pytest.approx((0.05 + 0.15 + 0.3 + 0) / 4, abs=1e-6)
    assert told["median_ape"] == pytest.approx(0.1, abs=1e-6)
    assert (told["within_10"], told["within_20"]) == (0.5, 0.75)
    assert told["coverage_80"] == 0.5
    assert told["width_80"] == pytest.approx(0.2)


def test_a_model_counts_once_in_the_macro_average() -> None:
    told = score([scored(1.4, 1.0)] + [scored(1.0, 1.0, model="b")] * 9)
    assert told["mape"] == pytest.approx(0.04)
    assert told["macro_mape"] == pytest.approx(0.2)


def test_coverage_is_of_intervals_that_measurement_supports() -> None:
    told = score([scored(1.0, 1.0), scored(1.0, 5.0, supported=False), scored(1.0, 5.0, low=None, high=None)])
    assert (told["coverage_80"], told["unsupported_80"]) == (1.0, 0.0)


def test_nothing_scored_is_null_and_not_zero() -> None:
    told = accuracy([])
    assert told["overall"] == {"rows": 0, "models": 0, **dict.fromkeys(set(told["overall"]) - {"rows", "models"})}
    assert told["overall"].keys() == score([scored(1.0, 1.0)]).keys()
    assert told["by_basis"] == {}


def test_groups_are_apart() -> None:
    told = accuracy([scored(1.1, 1.0), scored(1.3, 1.0, basis="roofline", family=None, hardware="k", predictor="x")])
    assert {name: list(told[name]) for name in told if name != "overall"} == {
        "by_basis": ["predicted", "roofline"], "by_hardware": ["h", "k"], "by_family": ["bert", "unknown"],
        "by_predictor": ["sha256:1", "x"],
    }  # fmt: skip
    assert told["by_basis"]["roofline"]["mape"] == pytest.approx(0.3)
