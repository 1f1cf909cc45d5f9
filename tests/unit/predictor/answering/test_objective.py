"""What is better: single figures, weighted ones, ties, and how likely one is better than another."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.answering.objective import better, tied, value_of
from predictor.answering.option import Option
from predictor.answering.ranking import front_axes, ordered, undominated

ONE = Option(
    hardware="a", platform="cuda", precision="fp16", batch_size=4, basis="measured", latency_ms=10.0, low_ms=9.9,
    high_ms=10.1, covered=True, throughput_per_s=400.0, peak_memory_bytes=1e9, usd_per_hour=3.6, energy_j=8.0,
)  # fmt: skip


def other(**changes: object) -> Option:
    return msgspec.structs.replace(ONE, **{"hardware": "b", **changes})


def test_each_objective_has_its_figure() -> None:
    assert [value_of(ONE, name) for name in ("latency", "throughput", "energy", "memory")] == [10.0, 400.0, 2.0, 1e9]
    assert value_of(ONE, "cost") == pytest.approx(2.5)


def test_weights_decide_between_fast_and_cheap() -> None:
    fast, cheap = other(latency_ms=5.0, usd_per_hour=36.0), ONE
    assert ordered([cheap, fast], {"latency": 0.9, "cost": 0.1})[0] is fast
    assert ordered([cheap, fast], {"latency": 0.1, "cost": 0.9})[0] is cheap


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_weighted_order_does_not_depend_on_units(scale: float, cost: float) -> None:
    fast, cheap = other(latency_ms=5.0, usd_per_hour=cost), ONE
    weights = {"latency": 0.5, "cost": 0.5}
    scaled = [
        msgspec.structs.replace(one, latency_ms=one.latency_ms * scale, low_ms=None, high_ms=None)
        for one in (fast, cheap)
    ]
    bare = [msgspec.structs.replace(one, low_ms=None, high_ms=None) for one in (fast, cheap)]
    first = ordered(bare, weights)[0].hardware
    ratio = value_of(bare[0], weights) / value_of(bare[1], weights)
    if abs(ratio - 1) > 1e-9:
        assert ordered(scaled, weights)[0].hardware == first


def test_equal_options_are_even_and_certain_ones_are_told_apart() -> None:
    assert better(ONE, other(), "latency") == pytest.approx(0.5)
    assert better(ONE, other(latency_ms=20.0, low_ms=19.9, high_ms=20.1), "latency") > 0.999
    assert better(other(throughput_per_s=800.0), ONE, "throughput") > 0.999
    wide = other(basis="predicted", latency_ms=11.0, low_ms=8.0, high_ms=15.0)
    assert 0.5 < better(ONE, wide, "latency") < 0.8
    assert better(ONE, other(basis="predicted", low_ms=None, high_ms=None), "latency") is None


def test_weighted_figures_tie_where_their_intervals_meet() -> None:
    near = other(latency_ms=10.05, low_ms=9.9, high_ms=10.2)
    assert tied(ONE, near, {"latency": 0.5, "memory": 0.5})
    assert not tied(ONE, msgspec.structs.replace(near, peak_memory_bytes=2e9), {"latency": 0.5, "memory": 0.5})


FIGURES = st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.1, 1e3)), max_size=30)


@given(FIGURES)
def test_the_front_is_what_no_other_beats_in_both(figures: list[tuple[float, float]]) -> None:
    options = [
        other(latency_ms=latency, throughput_per_s=rate, low_ms=None, high_ms=None, usd_per_hour=None)
        for latency, rate in figures
    ]
    axes = front_axes(options)
    front = undominated(options, axes)
    assert axes == ("latency", "throughput")

    def beats(one: Option, two: Option) -> bool:
        return (one.latency_ms <= two.latency_ms and one.throughput_per_s > two.throughput_per_s) or (
            one.latency_ms < two.latency_ms and one.throughput_per_s >= two.throughput_per_s
        )

    for option in options:
        beaten = any(beats(one, option) for one in options)
        if any(option is one for one in front):
            assert not beaten
        else:
            same = [
                one
                for one in front
                if (one.latency_ms, one.throughput_per_s) == (option.latency_ms, option.throughput_per_s)
            ]
            assert beaten or same


def test_where_there_are_prices_the_front_trades_latency_against_cost() -> None:
    dear, slow = other(latency_ms=5.0, usd_per_hour=30.0), other(latency_ms=20.0, usd_per_hour=1.0)
    worse = other(latency_ms=25.0, usd_per_hour=2.0)
    axes = front_axes([dear, slow, worse])
    assert axes == ("latency", "cost")
    assert undominated([worse, slow, dear], axes) == [dear, slow]
