"""The search for the first bad version: how often it is right under noise, and what it does where there is no answer."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.history.bisection import Bisection, BisectionLimits
from research.bisection import LAWS, Law, search


def searched(bisection, figure):
    """Run the search over a function of the version and of how often that was run; None skips."""
    counts, order = {}, []
    while (index := bisection.next()) is not None:
        counts[index] = counts.get(index, 0) + 1
        order.append(index)
        bisection.record(index, figure(index, counts[index]))
    return order


@pytest.mark.parametrize("law", [law for law in LAWS if law.deviation == 0.03], ids=lambda law: law.name)
def test_a_step_of_15_percent_among_32_commits_is_found_in_at_most_8_commits(law: Law) -> None:
    searches = [search(law, 0.15, seed) for seed in range(60)]
    assert sum(each.right and each.commits <= 8 for each in searches) >= 0.95 * len(searches)
    assert sum(each.covered for each in searches) >= 0.9 * len(searches)


def test_nothing_is_bisected_where_no_difference_can_be_seen() -> None:
    source = random.Random(0)
    bisection = Bisection(32, limits=BisectionLimits(most=12))
    order = searched(bisection, lambda index, n: math.exp(source.gauss(0, 0.03)))
    assert bisection.outcome == "no-difference"
    assert set(order) == {0, 31} and len(order) == 24


@pytest.mark.parametrize(("better", "outcome"), [("lower", "found"), ("higher", "inverted")])
def test_direction_decides_which_end_is_worse(better, outcome) -> None:
    bisection = Bisection(9, better=better)
    searched(bisection, lambda index, n: (2.0 if index >= 6 else 1.0) * (1 + 0.01 * (n % 2)))
    assert bisection.outcome == outcome
    assert outcome != "found" or bisection.suspects == [6]


def test_change_of_a_rate_that_falls_is_negative() -> None:
    bisection = Bisection(9, better="higher")
    searched(bisection, lambda index, n: (80.0 if index >= 6 else 100.0) * (1 + 0.01 * (n % 2)))
    change, low, high = bisection.step
    assert change == pytest.approx(-0.2, abs=0.02)
    assert low < change < high < 0


@settings(max_examples=60, deadline=None)
@given(count=st.integers(2, 70), data=st.data(), exact=st.booleans())
def test_answer_holds_the_first_bad_version_whatever_is_skipped(count, data, exact) -> None:
    first_bad = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, count - 2))) if count > 2 else set()
    bisection = Bisection(count, limits=BisectionLimits(repeats=1 if exact else 3, exact=exact))
    levels = (0.0, 1.0) if exact else (1.0, 1.15)
    order = searched(bisection, lambda index, n: None if index in skipped else levels[index >= first_bad])
    assert bisection.outcome == ("found" if len(bisection.suspects) == 1 else "range")
    assert first_bad in bisection.suspects
    assert set(bisection.suspects[:-1]) <= skipped
    if not skipped:
        assert len(set(order)) <= 2 + math.ceil(math.log2(count))


def test_a_long_row_of_versions_that_do_not_build_is_left_soon() -> None:
    bisection = Bisection(200)
    order = searched(bisection, lambda index, n: None if 60 <= index < 140 else 1.0 + (index >= 150))
    assert (bisection.outcome, bisection.suspects) == ("found", [150])
    assert sum(60 <= index < 140 for index in order) <= 16


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), kept=st.integers(0, 60))
def test_search_goes_on_from_its_records_as_if_it_had_not_stopped(seed, kept) -> None:
    def values():
        source = random.Random(seed)
        return lambda index, n: (1.2 if index >= 11 else 1.0) * math.exp(source.gauss(0, 0.05))

    whole, records = Bisection(24), []
    figure = values()
    while (index := whole.next()) is not None:
        records.append((index, figure(index, 0)))
        whole.record(*records[-1])
    again = Bisection(24)
    for index, value in records[:kept]:
        again.next()
        again.record(index, value)
    rest = iter(records[kept:])
    while (index := again.next()) is not None:
        expected, value = next(rest)
        assert index == expected
        again.record(index, value)
    assert (again.outcome, again.suspects, again.step) == (whole.outcome, whole.suspects, whole.step)


def test_a_wrong_decision_is_dropped_when_the_neighbour_turns_out_alike() -> None:
    def figure(index, n):
        disturbed = index == 7 and n <= 3
        return (1.3 if index >= 12 or disturbed else 1.0) * (1 + 0.005 * (n % 3))

    bisection = Bisection(16)
    searched(bisection, figure)
    assert bisection.outcome == "found"
    assert bisection.suspects == [12]


@pytest.mark.parametrize("seed", range(5))
def test_several_small_steps_are_not_blamed_on_one_version(seed) -> None:
    source = random.Random(seed)
    bisection = Bisection(16)
    searched(bisection, lambda index, n: math.exp(0.02 * index + source.gauss(0, 0.02)))
    assert bisection.whole == pytest.approx(math.expm1(0.3), abs=0.05)
    assert bisection.outcome == "unconfirmed" or bisection.step[2] < 0.5 * bisection.whole


def test_an_answer_is_given_when_the_intervals_of_both_versions_are_apart() -> None:
    outcomes = []
    for seed in range(20):
        source = random.Random(seed)
        bisection = Bisection(8)
        searched(bisection, lambda index, n: (1.15 if index >= 5 else 1.0) * math.exp(source.gauss(0, 0.08)))  # noqa: B023
        outcomes.append(bisection.outcome)
        if bisection.outcome == "found":
            levels = {level.index: level for level in bisection.levels()}
            low, high = bisection.bounds
            assert levels[low].high < levels[high].low
    assert outcomes.count("found") > 10


def test_check_that_fails_now_and_then_counts_as_failed() -> None:
    bisection = Bisection(16, limits=BisectionLimits(repeats=4, exact=True))
    searched(bisection, lambda index, n: float(index >= 9 and n % 3 == 0))
    assert (bisection.outcome, bisection.suspects) == ("found", [9])


def test_figures_that_are_not_above_zero_change_by_a_difference() -> None:
    bisection = Bisection(8)
    searched(bisection, lambda index, n: -5.0 + 3.0 * (index >= 4) + 0.1 * (n % 2))
    assert not bisection.relative
    assert bisection.suspects == [4]
    assert bisection.step[0] == pytest.approx(3.0, abs=0.2)


def test_an_end_that_cannot_be_measured_ends_the_search() -> None:
    bisection = Bisection(8)
    searched(bisection, lambda index, n: None if index == 7 else 1.0)
    assert bisection.outcome == "unmeasurable"


def test_runs_to_go_reach_zero() -> None:
    bisection, left = Bisection(32), []
    while (index := bisection.next()) is not None:
        left.append(bisection.left())
        bisection.record(index, 1.5 if index >= 20 else 1.0)
    assert min(left) >= 1
    assert abs(left[0] - len(left)) <= 5
    assert bisection.left() == 0
