"""Changes of literal series, laws that hold for any series, and rates of alarms under noise."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.history.detector import Detection, detect

QUIET = [100.2, 99.1, 100.6, 99.7, 100.9, 99.4, 100.1, 100.4, 98.9, 99.8, 100.7, 99.5, 100.3, 99.9, 100.5, 99.2]
HIGHER = [110.3, 109.2, 110.8, 109.6, 110.1, 110.9, 109.4, 110.5, 109.9, 110.2]


def places(detection: Detection) -> list[tuple[int, int]]:
    return [(change.index, change.confirmed_at) for change in detection.changes]


def test_step_is_confirmed_by_its_fifth_point_with_effect_and_range() -> None:
    detection = detect(QUIET + HIGHER)
    (change,) = detection.changes
    assert (change.index, change.confirmed_at, change.kind) == (16, 20, "step")
    assert change.start < 16 <= change.end
    assert change.before == pytest.approx(99.95, rel=0.002)
    assert change.after == pytest.approx(110.1, rel=0.002)
    assert change.low < 0.1015 < change.high
    assert change.effect == pytest.approx(0.1015, abs=0.003)
    assert len(change.votes) >= 2
    assert set(change.votes) <= {"l2", "rank", "rbf"}
    assert [(segment.start, segment.stop) for segment in detection.segments] == [(0, 16), (16, 26)]


def test_four_points_of_a_step_are_suspect_and_no_change() -> None:
    detection = detect(QUIET + HIGHER[:4])
    assert detection.changes == ()
    assert detection.suspect == (16, 17, 18, 19)


def test_points_of_a_confirmed_change_are_no_longer_suspect() -> None:
    assert detect(QUIET + HIGHER).suspect == ()


def test_improvement_is_found_like_its_mirror_image() -> None:
    worse, better = detect(QUIET + HIGHER), detect([1e4 / value for value in QUIET + HIGHER])
    assert places(worse) == places(better)
    assert better.changes[0].effect == pytest.approx(1 / (1 + worse.changes[0].effect) - 1)


@pytest.mark.parametrize(
    "outliers",
    [
        {9: 180.0},
        {9: 180.0, 10: 240.0},
        {9: 20.0, 10: 20.0},
        {12: 150.0, 13: 150.0, 15: 150.0},
        {15: 180.0},
        dict(zip(range(20, 25), (204.0, 133.0, 167.0, 145.0, 126.0), strict=True)),
    ],
    ids=["one", "burst of two", "two below", "three of four", "newest", "five that differ"],
)
def test_outliers_are_suspect_and_no_change(outliers: dict[int, float]) -> None:
    values = [outliers.get(place, value) for place, value in enumerate(QUIET * 3)]
    assert detect(values).changes == ()
    assert set(outliers) <= set(detect(values).suspect)


def test_clear_step_after_slow_waves_is_confirmed_by_its_fifth_point() -> None:
    values = [100 * (1 + 0.02 * math.sin(place / 3)) * (1.3 if place >= 40 else 1) for place in range(60)]
    assert places(detect(values)) == [(40, 44)]


def test_slow_rise_is_one_drift() -> None:
    rise = [value * (1 + 0.011 * min(place, 20)) for place, value in enumerate(QUIET + QUIET)]
    (change,) = detect(QUIET * 2 + rise).changes
    assert change.kind == "drift"
    assert change.effect == pytest.approx(0.22, abs=0.02)
    assert change.start >= 28


def test_two_large_steps_are_two_changes() -> None:
    values = QUIET + [1.3 * value for value in QUIET] + [1.7 * value for value in QUIET]
    assert [(change.index, change.kind) for change in detect(values).changes] == [(16, "step"), (32, "step")]


def test_change_and_its_reversal_are_two_changes() -> None:
    effects = [change.effect for change in detect(QUIET + HIGHER + QUIET).changes]
    assert [effect > 0 for effect in effects] == [True, False]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1.0],
        [None] * 20,
        [math.nan] * 20,
        [5.0] * 60,
        [0.0] * 60,
        [100, 101, 99, 180, 182, 181, 183],
        [-5.0] * 30,
        [0.0, 3.0, 3.1, 2.9] * 15,
        [sys.float_info.max] * 20,
        [math.inf] * 20,
        [1.0, -math.inf, math.nan] * 15,
        [3.0, 4.0] * 30,
    ],
    ids=lambda values: f"{values[:2]} x {len(values)}",
)
def test_edge_cases_raise_no_alarm(values: list[float | None]) -> None:
    assert detect(values).changes == ()


def test_missing_points_keep_positions() -> None:
    values = [item for value in QUIET + HIGHER for item in (value, None)]
    (change,) = detect(values).changes
    assert (change.index, change.confirmed_at) == (32, 40)


def test_infinite_and_impossible_values_are_suspect() -> None:
    values = [*QUIET, math.inf, *QUIET, 0.0, -1.0, *QUIET]
    assert {16, 33, 34} <= set(detect(values, logarithm=True).suspect)
    assert detect(values, logarithm=True).changes == ()


def test_values_around_zero_are_compared_by_differences() -> None:
    (change,) = detect([value - 100 for value in QUIET + HIGHER]).changes
    assert change.index == 16
    assert change.after == pytest.approx(10.1, abs=0.3)


def test_restart_in_the_range_of_a_change_makes_it_expected() -> None:
    detection = detect(QUIET + HIGHER, restarts=[16])
    assert detection.changes == ()
    assert [segment.start for segment in detection.segments] == [0, 16]


def test_restart_anywhere_in_the_range_keeps_the_level_where_it_begins() -> None:
    values = (
        100 * np.exp(np.random.default_rng(8).normal(0, 0.03, 80)) * np.where(np.arange(80) < 40, 1, 1.06)
    ).tolist()
    (change,) = detect(values).changes
    assert change.end > change.index + 1
    expected = detect(values, restarts=[change.end])
    assert expected.changes == ()
    assert [segment.start for segment in expected.segments] == [0, change.index]


def test_change_after_a_restart_is_found() -> None:
    assert places(detect(HIGHER + QUIET + HIGHER, restarts=[10])) == [(26, 30)]


def test_next_point_outside_the_interval_is_suspect_and_inside_is_not() -> None:
    low, high = detect(QUIET).interval
    assert low < min(QUIET)
    assert high > max(QUIET)
    assert detect([*QUIET, high * 1.001]).suspect == (16,)
    assert detect([*QUIET, high * 0.999]).suspect == ()


series = st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), max_size=60)


@given(series, st.lists(st.integers(-5, 70), max_size=3), st.booleans() | st.none())
@settings(max_examples=60, deadline=None)
def test_any_series_has_an_answer_within_it(
    values: list[float | None], restarts: list[int], logarithm: bool | None
) -> None:
    detection = detect(values, restarts, logarithm=logarithm)
    for change in detection.changes:
        assert 0 <= change.start < change.index <= change.end < len(values)
        assert change.index <= change.confirmed_at < len(values)
        assert math.isfinite(change.before)
        assert math.isfinite(change.after)
    assert all(0 <= place < len(values) for place in detection.suspect)
    assert detect(values, restarts, logarithm=logarithm) == detection


walks = st.builds(
    lambda seed, steps, noise: wandering(seed, steps, noise),
    st.integers(0, 10**6),
    st.lists(st.sampled_from([0.5, 0.9, 1.03, 1.06, 1.2, 2.0]), max_size=4),
    st.sampled_from([0.0, 0.003, 0.03, 0.1]),
)


def wandering(seed: int, steps: list[float], noise: float) -> list[float]:
    source, level, values = np.random.default_rng(seed), 40.0, []
    for step in [1.0, *steps]:
        level *= step
        values += (level * np.exp(source.normal(0, noise, source.integers(4, 30)))).tolist()
    return values


def test_range_of_every_change_lies_within_the_known_points() -> None:
    for seed in range(120):
        values = wandering(seed, [(0.9, 1.06, 1.2)[seed % 3], (1.06, 0.5)[seed % 2], 1.06], (0.0, 0.03, 0.1)[seed % 3])
        for change in detect(values).changes:
            assert 0 <= change.start < change.index <= change.end < len(values)
            assert change.kind == "drift" or change.end <= change.confirmed_at


@given(walks, st.integers(0, 150))
@settings(max_examples=60, deadline=None)
def test_appended_points_neither_move_nor_remove_a_confirmed_change(values: list[float], count: int) -> None:
    earlier, later = detect(values[:count]), detect(values)
    assert places(earlier) == [change for change in places(later) if change[1] < count]


@given(walks, st.integers(-30, 30))
@settings(max_examples=40, deadline=None)
def test_unit_of_values_does_not_matter(values: list[float], exponent: int) -> None:
    scaled = detect([math.ldexp(value, exponent) for value in values])
    assert [(c.index, c.start, c.end, c.kind) for c in scaled.changes] == [
        (c.index, c.start, c.end, c.kind) for c in detect(values).changes
    ]
