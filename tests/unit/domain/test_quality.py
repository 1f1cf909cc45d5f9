"""The price of a variant in quality: intervals that cover, tests that are exact, and losses in the right order."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import InvalidInput
from domain.variants.quality import examples_needed, loss_of_pairs, mcnemar, tango_interval

REPEATS = 2000


def covers(planted: float, shares: list[float], n: int) -> float:
    """Return how many of the intervals of simulated pairs hold the planted loss."""
    cells = np.random.default_rng(n).multinomial(n, [*shares, 1 - sum(shares)], size=REPEATS)
    pairs, times = np.unique(cells[:, :2], axis=0, return_counts=True)
    intervals = [tango_interval(int(worse), int(better), n) for worse, better in pairs]
    hits = [low <= planted <= high for low, high in intervals]
    return float(times[hits].sum()) / REPEATS


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize(("worse", "better"), [(0.065, 0.015), (0.125, 0.025), (0.31, 0.01), (0.08, 0.08)])
def test_intervals_of_planted_losses_cover_95_percent(worse: float, better: float, n: int) -> None:
    assert 0.93 <= covers(worse - better, [worse, better], n) <= 0.98


def test_intervals_cover_at_least_as_often_where_few_pairs_differ() -> None:
    for n in (50, 200, 1000):
        assert covers(0.004, [0.006, 0.002], n) >= 0.93


@pytest.mark.parametrize(("n", "repeats"), [(50, 500), (200, 400), (1000, 150)])
def test_bootstrapped_intervals_cover_95_percent(n: int, repeats: int) -> None:
    random, hits = np.random.default_rng(n), 0
    base = random.normal(2.0, 0.5, n)
    for repeat in range(repeats):
        variant = base + 0.05 + random.exponential(0.1, n) - 0.1
        cost = loss_of_pairs(base, variant, metric="nll", unit="nat", direction="lower", seed=repeat)
        assert cost.method == "bootstrap-t"
        hits += cost.interval[0] <= 0.05 <= cost.interval[1]
    assert 0.93 <= hits / repeats <= 0.98


def test_a_loss_of_nothing_still_has_an_interval() -> None:
    right = [1.0] * 50
    cost = loss_of_pairs(right, right, metric="accuracy")
    assert (cost.loss, cost.worse, cost.better, cost.p_value) == (0.0, 0, 0, 1.0)
    # The rule of three gives 6 points for 50 examples.
    assert -8 < cost.interval[0] < -6 and 6 < cost.interval[1] < 8
    same = loss_of_pairs([0.2, 0.9] * 25, [0.2, 0.9] * 25, metric="f1", unit="score")
    assert same.method == "exact-bounds" and same.interval[0] < 0 < same.interval[1]


def test_few_differences_are_bounded_and_not_resampled() -> None:
    base = np.linspace(0.2, 0.8, 100)
    variant = base.copy()
    variant[:3] -= 0.1
    cost = loss_of_pairs(base, variant, metric="f1", unit="score")
    assert cost.method == "exact-bounds" and cost.loss == pytest.approx(0.003)
    assert cost.interval[0] < 0 and cost.interval[1] == pytest.approx(0.1 * 0.0852, rel=1e-2)


def test_mcnemar_is_the_exact_binomial_law() -> None:
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(8, 2) == pytest.approx(2 * sum(math.comb(10, k) for k in range(3)) / 1024)
    assert mcnemar(3, 3) == 1.0


def test_the_interval_ends_where_the_score_statistic_reaches_its_quantile() -> None:
    low, high = tango_interval(9, 1, 44)
    assert low < (9 - 1) / 44 < high
    for end in (low, high):
        share = restricted(9, 1, 44, end)
        spread = math.sqrt(44 * (2 * share + end * (1 - end)))
        assert abs(9 - 1 - 44 * end) / spread == pytest.approx(1.959964, rel=1e-4)


def restricted(worse: int, better: int, n: int, difference: float) -> float:
    """Return the likeliest share of `better` under a difference, by looking at all of them."""
    best, at = -math.inf, 0.0
    for share in np.linspace(max(0.0, -difference), (1 - difference) / 2, 20_001)[1:-1]:
        rest = 1 - 2 * share - difference
        if share + difference <= 0 or rest <= 0:
            continue
        likelihood = (
            worse * math.log(share + difference) + better * math.log(share) + (n - worse - better) * math.log(rest)
        )
        if likelihood > best:
            best, at = likelihood, float(share)
    return at


SCORES = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=60)


@given(SCORES)
def test_exchanging_base_and_variant_turns_the_sign(pairs: list[tuple[float, float]]) -> None:
    base, variant = zip(*pairs, strict=True)
    there = loss_of_pairs(base, variant, metric="score", unit="score")
    back = loss_of_pairs(variant, base, metric="score", unit="score")
    assert there.loss == pytest.approx(-back.loss, abs=1e-12)
    assert (there.worse, there.better) == (back.better, back.worse)
    assert there.interval[0] <= there.loss <= there.interval[1]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=300))
def test_points_of_proportions_lie_between_minus_and_plus_100(pairs: list[tuple[bool, bool]]) -> None:
    base, variant = zip(*pairs, strict=True)
    cost = loss_of_pairs(base, variant, metric="accuracy")
    assert -100 <= cost.interval[0] < cost.interval[1] <= 100
    assert cost.loss == pytest.approx(100 * (cost.base_value - cost.value), abs=1e-9)
    assert cost.method == "mcnemar-tango" and 0 <= (cost.p_value or 0) <= 1


def test_the_same_scores_give_the_same_interval() -> None:
    base, variant = np.random.default_rng(0).normal(size=(2, 500))
    first, second = (loss_of_pairs(base, variant, metric="s", unit="s", seed=3) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("base", "variant", "field"),
    [([], [], "scores"), ([1.0], [1.0, 0.0], "scores"), ([1.0, math.nan], [1.0, 1.0], "scores")],
)
def test_scores_that_cannot_be_paired_are_refused(base: list[float], variant: list[float], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        loss_of_pairs(base, variant, metric="accuracy")
    assert refused.value.field == field and refused.value.remedy


def test_the_number_of_examples_has_the_power_that_it_promises() -> None:
    n = examples_needed(0.02, 0.04)
    cells = np.random.default_rng(0).multinomial(n, [0.03, 0.01, 0.96], size=3000)
    shown = np.mean([mcnemar(int(worse), int(better)) < 0.05 for worse, better in cells[:, :2]])
    assert 0.74 <= shown <= 0.86
    with pytest.raises(InvalidInput):
        examples_needed(0.05, 0.01)


def test_the_table_of_the_documentation_is_what_the_function_gives() -> None:
    page = (Path(__file__).parents[3] / "docs" / "quality.md").read_text()
    shares = (0.005, 0.01, 0.02, 0.05, 0.10)
    for points in (0.25, 0.5, 1, 2, 5):
        loss = points / 100
        cells = [f"{examples_needed(loss, share):,}" if share >= loss else "–" for share in shares]
        assert f"| {points:g} pt | {' | '.join(cells)} |" in page
