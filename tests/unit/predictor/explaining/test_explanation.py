"""Parts of a prediction: they add up, physics keeps its own, and the names say what bounds it."""

from __future__ import annotations

import math

import pytest

from domain.performance.roofline import Limits, Roofline, roofline
from predictor.explaining.explanation import CALIBRATION, USUAL, Explanation, explain

LIMITS = Limits(peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-5, activation_bytes=4.0, weight_bytes=4.0)


def operator(kind: str, flops: float, elements: float, count: int = 1) -> dict[str, object]:
    return {
        "class": kind, "count": count, "flops": flops, "read_elements": elements, "write_elements": 0.0,
        "weight_elements": 0.0,
    }  # fmt: skip


def floor(*operators: dict[str, object]) -> Roofline:
    return roofline(operators, LIMITS, batch_size=1)


MIXED = floor(operator("mm", 4e9, 1e6), operator("norm", 0.0, 25e6), operator("elementwise", 0.0, 25e4, 10))
"""4 ms of arithmetic, 1 ms and 0.1 ms of traffic, 12 launches of 0.01 ms."""


def by_group(told: Explanation) -> dict[str, tuple[float, float]]:
    return {part.group: (part.roofline_ms, part.learned_ms) for part in told.parts}


@pytest.mark.parametrize("latency_ms", [0.5, 5.0, MIXED.latency_ms, 40.0])
def test_the_parts_add_up_to_the_prediction(latency_ms: float) -> None:
    told = explain(latency_ms, MIXED, {USUAL: 0.4, "attention": -0.3, "compute": 0.1, "runtime": 0.05})
    assert sum(part.ms for part in told.parts) == pytest.approx(latency_ms, rel=1e-12)
    assert sum(part.roofline_ms for part in told.parts) == pytest.approx(MIXED.latency_ms, rel=1e-12)


def test_physics_is_told_as_it_is() -> None:
    parts = by_group(explain(10.0, MIXED, {}))
    assert parts["compute"][0] == pytest.approx(4.0)
    assert parts["memory traffic"][0] == pytest.approx(1.1)
    assert parts["launches"][0] == pytest.approx(0.12)


def test_what_is_learned_keeps_its_proportions_and_its_sign() -> None:
    parts = by_group(explain(MIXED.latency_ms * math.exp(0.5), MIXED, {"attention": 0.8, "runtime": -0.3}))
    assert CALIBRATION not in parts
    assert parts["attention"][1] / parts["runtime"][1] == pytest.approx(0.8 / -0.3)
    assert parts["runtime"][1] < 0


def test_what_the_trees_leave_unsaid_is_the_calibration() -> None:
    latency_ms = MIXED.latency_ms * math.exp(0.4 + 0.25)
    parts = by_group(explain(latency_ms, MIXED, {USUAL: 0.4}))
    assert parts[CALIBRATION][1] / parts[USUAL][1] == pytest.approx(0.25 / 0.4)
    bare = by_group(explain(latency_ms, MIXED, {}, rest=USUAL))
    assert bare[USUAL][1] == pytest.approx(latency_ms - MIXED.latency_ms)


@pytest.mark.parametrize(
    ("bound", "word", "one"),
    [
        ("compute", "compute-bound: 99%", operator("conv", 1e9, 1.0)),
        ("memory", "bandwidth-bound: 99%", operator("norm", 0.0, 25e6)),
        ("launch", "launch-bound: 100%", operator("elementwise", 0.0, 1.0, 100)),
    ],
)
def test_the_bottleneck_is_named_with_its_share(bound: str, word: str, one: dict[str, object]) -> None:
    told = explain(50.0, floor(one), {})
    assert told.bottleneck == bound
    assert told.told.startswith(word)


def test_documents_are_rounded_and_brief_ones_keep_the_two_largest() -> None:
    told = explain(9.87654321, MIXED, {USUAL: 0.2, "attention": 0.1})
    document = told.document()
    assert document.latency_ms == 9.87654
    assert document.by_class_ms["mm"] == pytest.approx(4.01)
    sizes = [abs(part.ms) for part in document.parts]
    assert sizes == sorted(sizes, reverse=True)
    assert [part.group for part in told.brief().parts] == [part.group for part in document.parts[:2]]
