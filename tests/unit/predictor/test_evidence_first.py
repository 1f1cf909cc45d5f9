"""What may stand first: an estimate from specifications alone only where it is surely better, on a device that was measured."""

from __future__ import annotations

from predictor.answering.option import Option
from predictor.answering.ranking import evidence_first, ordered


def option(hardware: str, basis: str, low: float, value: float, high: float) -> Option:
    return Option(
        hardware=hardware,
        platform="cuda",
        precision="fp16",
        batch_size=1,
        basis=basis,
        latency_ms=value,
        low_ms=low,
        high_ms=high,
        covered=basis != "roofline",
    )


MEASURED = option("measured", "measured", 9.9, 10.0, 10.1)
CLOSE = option("exotic", "roofline", 2.0, 4.0, 8.0)
FAR = option("much-faster", "roofline", 0.01, 0.02, 0.04)


def names(options: list[Option], measured_on: set[str]) -> list[str]:
    return [item.hardware for item in evidence_first(ordered(options, "latency"), "latency", measured_on)]


def test_an_exotic_device_does_not_stand_before_evidence() -> None:
    assert [item.hardware for item in ordered([MEASURED, CLOSE], "latency")] == ["exotic", "measured"]
    assert names([MEASURED, CLOSE], set()) == ["measured", "exotic"]
    assert names([MEASURED, FAR], set()) == ["measured", "much-faster"]


def test_a_measured_device_stands_first_where_it_is_surely_better_with_the_evidence_beside_it() -> None:
    assert names([MEASURED, CLOSE], {"exotic"}) == ["measured", "exotic"]
    assert names([CLOSE, MEASURED, FAR], {"much-faster"}) == ["much-faster", "measured", "exotic"]


def test_without_evidence_a_device_that_was_measured_comes_first_unless_it_is_surely_worse() -> None:
    near = option("near", "roofline", 2.1, 4.1, 8.1)
    assert names([CLOSE, near], {"near"}) == ["near", "exotic"]
    assert names([CLOSE, FAR], {"exotic"}) == ["much-faster", "exotic"]
    assert names([CLOSE, FAR], set()) == ["much-faster", "exotic"]
    assert names([], set()) == []
