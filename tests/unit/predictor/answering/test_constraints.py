"""How likely an option meets a limit: certain of what was seen, careful with what was not."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.answers import QualityLoss
from predictor.answering.constraints import constraints_of
from predictor.answering.option import Option
from predictor.answering.question import LIMITS, Question
from predictor.answering.ranking import constrained

ESTIMATE = Option(
    hardware="a", platform="cuda", precision="fp16", batch_size=4, basis="predicted", latency_ms=10.0, low_ms=8.0,
    high_ms=12.5, covered=True, throughput_per_s=400.0, peak_memory_bytes=1e9, memory_low_bytes=0.8e9,
    memory_high_bytes=1.25e9, ttft_ms=50.0, ttft_low_ms=40.0, ttft_high_ms=62.5, tpot_ms=5.0, tpot_low_ms=4.0,
    tpot_high_ms=6.25, tokens_per_s=800.0, tokens_low_per_s=640.0, tokens_high_per_s=1000.0, usd_per_hour=2.0,
    rated_power_w=300.0, size_bytes=80_000_000, quality=QualityLoss(
        metric="accuracy", unit="pt", loss=0.4, low=-0.2, high=1.0, examples=2000, data="held-out", method="mcnemar", worse=12,
        better=4, hardware="a", platform="cuda", precision="fp16", evidence="0198c0de-0000-7000-8000-000000000001",
    ),
)  # fmt: skip
VALUES = {
    "max_latency_ms": 10.0, "max_ttft_ms": 50.0, "max_tpot_ms": 5.0, "min_throughput_per_s": 400.0,
    "min_tokens_per_s": 800.0, "max_memory_mb": 1000.0, "max_power_w": 300.0, "max_usd_per_hour": 2.0,
    "max_quality_loss_pt": 1.0, "max_size_mb": 80.0,
}  # fmt: skip


def probability(option: Option, name: str, limit: float) -> float | None:
    (constraint,) = constraints_of(Question(model="m", **{name: limit}).checked())
    return constraint.probability(option)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_at_the_value_is_as_likely_met_as_not_and_exact_figures_are_certain(name: str) -> None:
    exact = name in ("max_power_w", "max_usd_per_hour", "max_quality_loss_pt", "max_size_mb")
    assert probability(ESTIMATE, name, VALUES[name]) == (1.0 if exact else pytest.approx(0.5))
    easier = 0.8 if name.startswith("min_") else 1.25
    assert probability(ESTIMATE, name, VALUES[name] * easier) == pytest.approx(1.0 if exact else 0.9)
    assert probability(ESTIMATE, name, VALUES[name] / easier) == pytest.approx(0.0 if exact else 0.1, abs=1e-9)


def test_an_interval_that_nothing_checked_counts_as_wider() -> None:
    unchecked = msgspec.structs.replace(ESTIMATE, covered=False)
    assert probability(unchecked, "max_latency_ms", 12.5) < probability(ESTIMATE, "max_latency_ms", 12.5)
    assert probability(msgspec.structs.replace(ESTIMATE, low_ms=None), "max_latency_ms", 1e6) is None


def test_the_least_that_is_needed_alone_never_meets_a_limit() -> None:
    floor = msgspec.structs.replace(ESTIMATE, peak_memory_bytes=None, memory_floor_bytes=1e9)
    assert probability(floor, "max_memory_mb", 1e6) is None
    kept, left = constrained([floor], Question(model="m", max_memory_mb=1100).checked())
    assert (kept, left[0][1].rule) == ([], "max_memory_mb")


def test_what_was_measured_is_judged_by_its_value_and_what_was_not_by_its_probability() -> None:
    asked = Question(model="m", max_latency_ms=10.5).checked()
    measured = msgspec.structs.replace(ESTIMATE, basis="measured")
    kept, left = constrained([ESTIMATE, measured], asked)
    assert kept == [measured]
    assert left[0][1].detail == "10 ms against 10.5, met with a probability of 62% only"
    assert constrained([ESTIMATE], msgspec.structs.replace(asked, confidence=0.5))[0] == [ESTIMATE]


@given(st.floats(0.01, 1e6), st.floats(1.0, 50.0), st.floats(0.01, 1e6), st.floats(1.0, 10.0), st.booleans())
def test_a_looser_limit_is_never_less_likely_met(
    value: float, width: float, limit: float, looser: float, covered: bool
) -> None:
    option = msgspec.structs.replace(
        ESTIMATE, latency_ms=value, low_ms=value / width, high_ms=value * width, covered=covered
    )
    first, second = probability(option, "max_latency_ms", limit), probability(option, "max_latency_ms", limit * looser)
    assert first is not None
    assert second is not None
    assert 0 <= first <= second <= 1
    assert not math.isnan(first)


def test_a_missing_figure_is_not_known_to_be_met() -> None:
    bare: dict[str, Any] = {"hardware": "a", "platform": "cpu", "precision": "fp32", "batch_size": 1}
    option = Option(**bare, basis="measured", latency_ms=1.0)
    for name in LIMITS:
        if name == "max_latency_ms":
            continue
        _, left = constrained([option], Question(model="m", **{name: 1.0}).checked())
        unknown = "never evaluated" if name == "max_quality_loss_pt" else "not known"
        assert left[0][1].rule == name
        assert unknown in left[0][1].detail
