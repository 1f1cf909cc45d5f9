"""What a configuration serves of a load, and the memory that is set aside for it."""

from __future__ import annotations

from typing import Any

import pytest

from domain.answers import RankedOption
from domain.errors import UsageError
from predictor.fleet.question import Load
from predictor.fleet.replicas import fastest_first, rates_of, replicas_of

from .conftest import option, replica

ITEMS = Load(model="acme/net", items_per_s=1.0)
TOKENS = Load(model="acme/net", tokens_per_s=1.0)


def entry(**more: Any) -> RankedOption:
    return option(**{
        "batch_size": 8, "basis": "predicted", "latency_ms": 10.0, "latency_ms_low": 5.0, "latency_ms_high": 20.0,
        "throughput_per_s": 800.0, **more,
    })  # fmt: skip


def test_the_interval_of_the_latency_is_that_of_the_throughput_turned_over() -> None:
    assert rates_of(entry(), ITEMS) == (400.0, 800.0, 1600.0)


def test_without_an_interval_what_was_seen_counts_and_an_estimate_does_not() -> None:
    bare = {"latency_ms_low": None, "latency_ms_high": None}
    assert rates_of(entry(**bare, basis="imported"), ITEMS) == (800.0, 800.0, 800.0)
    assert rates_of(entry(**bare), ITEMS) is None
    assert replicas_of(0, ITEMS, [entry(**bare), entry(throughput_per_s=None)]) == []


def test_tokens_are_those_that_are_told_else_generated_else_read() -> None:
    told = {"tokens_per_s": 90.0, "tokens_per_s_low": 80.0, "tokens_per_s_high": 100.0}
    assert rates_of(entry(**told), TOKENS) == (80.0, 90.0, 100.0)
    assert rates_of(entry(output_tokens=10, sequence_length=128), TOKENS) == (4000.0, 8000.0, 16000.0)
    assert rates_of(entry(sequence_length=2), TOKENS) == (800.0, 1600.0, 3200.0)
    with pytest.raises(UsageError) as raised:
        rates_of(entry(), TOKENS)
    assert raised.value.field == "tokens_per_s"


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"memory_high_bytes": 3e9, "peak_memory_bytes": 2e9}, (3e9, "high end of the interval")),
        ({"peak_memory_bytes": 2e9, "basis": "measured"}, (2e9, "measured peak")),
        ({"memory_floor_bytes": 2e9}, (None, "not known")),
        ({}, (None, "not known")),
    ],
)
def test_memory_is_set_aside_by_the_best_that_is_known(figures: dict[str, Any], expected: tuple[Any, str]) -> None:
    (one,) = replicas_of(0, ITEMS, [entry(**figures)])
    assert (one.memory_bytes, one.memory_basis) == expected


def test_only_what_no_other_beats_in_both_is_left() -> None:
    fast, middle, slow = replica(0, "a", 9.0, 3.0), replica(0, "a", 5.0, 2.0), replica(0, "a", 1.0, 1.0)
    beaten = replica(0, "a", 4.0, 2.5)
    assert fastest_first([slow, beaten, fast, middle], 0) == [fast, middle, slow]
    unknown = replica(0, "a", 10.0, None)
    assert fastest_first([fast, unknown], 0) == [unknown, fast]
