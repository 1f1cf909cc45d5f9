from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dashboard.screens.recommend import limits
from dashboard.screens.recommend.question import LIMITS, Question
from domain.answers import ExcludedConfigurations, Reach
from presentation import formatting


def would_do(constraint: str, limit: float, value: float, hardware: str = "h") -> Reach:
    return Reach(
        constraint=constraint, limit=limit, would_do=value, hardware=hardware, platform="cuda",
        precision="fp16", batch_size=4, concurrency=None, basis="predicted",
    )  # fmt: skip


def left_out(row: dict[str, Any]) -> ExcludedConfigurations:
    return msgspec.convert(row, ExcludedConfigurations)


def test_every_limit_and_filter_has_a_chip_and_can_be_taken_away() -> None:
    apart = {"model", "objective", "pct", "top", "add"}
    changed: dict[str, Any] = {
        "mode": "training", "confidence": 0.9, "hw": ("a", "b"), "compiled": "eager", "spot": True, "per_hw": False,
        "batch": (1, 8), "as_of": 7, **dict.fromkeys(("vendor", "platform", "precision", "region", "provider"), ("x",)),
    }  # fmt: skip
    question = Question(
        model="m", **{name: changed.get(name, 3) for name in Question.__struct_fields__ if name not in apart}
    )
    chips = limits.chips(question)
    assert set(chips.values()) == set(Question.__struct_fields__) - apart
    assert chips["hardware: a, b"] == "hw"
    assert limits.chips(Question(model="m", objective="cost", top=3)) == {}
    assert limits.without(question, list(chips.values())) == Question(model="m")


def test_each_added_device_has_a_chip_of_its_own() -> None:
    question = Question(model="m", add=("nvidia-l4", "acme-one"), batch=(1,))
    chips = limits.chips(question)
    assert chips == {"batch: 1": "batch", "+ L4": "add:nvidia-l4", "+ acme-one": "add:acme-one"}
    assert limits.without(question, ["add:nvidia-l4"]) == Question(model="m", add=("acme-one",), batch=(1,))


def test_a_probability_is_never_said_to_be_certain() -> None:
    assert [formatting.plain(limits.chance(one)) for one in (0.934, 0.99996, 1, 0, None)] == [
        "93.4 %", "> 99.9 %", "> 99.9 %", "< 0.1 %", "nobody knows how likely",
    ]  # fmt: skip


def test_a_limit_is_met_with_a_probability_or_by_a_figure() -> None:
    meets = [
        {"constraint": "max_ttft_ms", "limit": 200, "value": 120.0, "probability": 0.87},
        {"constraint": "max_memory_mb", "limit": 8200, "value": 900.0, "probability": None},
        {"constraint": "max_power_w", "limit": 300, "value": 72.0, "probability": 1},
    ]
    assert [formatting.plain(told) for told in limits.met({"meets": meets})] == [
        "first token ≤ 200 ms: 87.0 %", "memory ≤ 8.2 GB: nobody knows how likely", "power ≤ 300 W: 72.0 W",
    ]  # fmt: skip
    assert limits.met({}) == []


@pytest.mark.parametrize("field", LIMITS)
def test_what_would_do_sets_that_limit_alone(field: str) -> None:
    question = Question(model="m", **{LIMITS[field]: 2.0})
    found = limits.relaxed(question, [would_do(field, 2000.0 if field == "max_memory_mb" else 2.0, 5000.0)])
    assert len(found) == 1
    assert getattr(found[0].question, LIMITS[field]) == (5.0 if field == "max_memory_mb" else 5000.0)
    assert limits.without(found[0].question, [LIMITS[field]]) == Question(model="m")
    assert "h · cuda · fp16 · batch 4 (▷ predicted)" in found[0].words


def test_limits_that_one_configuration_misses_are_set_together() -> None:
    question = Question(model="m", max_ms=1.0, max_usd=0.5)
    both = [would_do("max_latency_ms", 1.0, 3.0), would_do("max_usd_per_hour", 0.5, 0.7)]
    found = limits.relaxed(question, both)
    assert [(one.question.max_ms, one.question.max_usd) for one in found] == [(3.0, 0.7)]
    assert found[0].words.startswith("latency ≤ 3 ms instead of 1 ms and price ≤ $0.7/h instead of $0.5/h: h")
    either = [both[0], would_do("max_usd_per_hour", 0.5, 0.7, hardware="other")]
    assert [(one.question.max_ms, one.question.max_usd) for one in limits.relaxed(question, either)] == [
        (3.0, 0.5),
        (1.0, 0.7),
    ]


def test_what_was_left_out_is_counted_by_rule_and_named_with_its_evidence() -> None:
    row = {"hardware": "h", "platform": None, "rule": "failed", "detail": "timeout", "precisions": ["fp16", "int8"],
           "batch_sizes": [], "evidence": ["e1"]}  # fmt: skip
    missed = {**row, "rule": "max_latency_ms", "platform": "cuda", "detail": "9 ms against 3"}
    assert limits.excluded_table([left_out(row)]).iloc[0].tolist() == [
        "h",
        "—",
        "failed",
        "timeout",
        "fp16, int8",
        "—",
        "e1",
    ]
    counted = limits.counted([left_out(row), left_out(missed), left_out({**missed, "hardware": "i"})])
    assert counted.to_numpy().tolist() == [["latency", 2, "h · cuda: 9 ms against 3"], ["failed", 1, "h: timeout"]]
