"""Statistics on literal series with known answers."""

import random

import pytest

from domain.errors import InvalidInput
from domain.statistics import (
    SAMPLES_NEEDED,
    dependence,
    latency_summary,
    mean_interval,
    median,
    median_interval,
    quantile,
    quantile_interval,
    series_interval,
)


def test_percentiles_need_the_samples_that_bound_them() -> None:
    assert SAMPLES_NEEDED == {"p90": 44, "p95": 90, "p99": 459}
    assert latency_summary([1.0] * 43).p90 is None
    assert latency_summary([1.0] * 44).p90 == 1.0
    assert latency_summary([1.0] * 89).p95 is None
    assert latency_summary([1.0] * 90).p95 == 1.0
    assert latency_summary([1.0] * 459).p99 == 1.0


def test_quantile_is_hyndman_fan_type_7() -> None:
    # R: quantile(c(1, 2, 4, 8), c(.25, .5, .9), type = 7)
    assert [quantile([1, 2, 4, 8], q) for q in (0.25, 0.5, 0.9)] == pytest.approx([1.75, 3.0, 6.8])


def test_the_interval_of_the_median_is_the_binomial_one() -> None:
    # Conover, Practical Nonparametric Statistics: n = 10 gives ranks 2 and 9 at 97.9 %.
    assert median_interval(range(1, 11)) == (2, 9)
    assert median_interval(range(1, 7)) == (1, 6)
    assert median_interval(range(1, 6)) is None
    low, high = median_interval(range(1, 10_001)) or (0, 0)
    assert (low, high) == (4902, 5099)


def test_summary_of_a_known_series() -> None:
    summary = latency_summary([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
    assert (summary.min, summary.p50, summary.max, summary.mean, summary.n) == (1.0, 3.5, 6.0, 3.5, 6)
    assert summary.stddev == pytest.approx(1.8708286933869707)
    assert summary.ci95 == {"p50": (1.0, 6.0)}


def test_one_sample_has_no_spread_and_none_is_refused() -> None:
    summary = latency_summary([2.5])
    assert summary.stddev is None
    assert summary.ci95 is None
    with pytest.raises(InvalidInput):
        latency_summary([])
    assert median([3, 1, 2]) == 2


def test_intervals_of_percentiles_are_order_statistics() -> None:
    # P(B < 84) = 2.06 %, P(B >= 96) = 2.37 % for B binomial (100, 0.9): ranks 84 and 96 cover 95.6 %.
    assert quantile_interval(range(1, 101), 0.9) == (84, 96)
    assert quantile_interval(range(1, 31), 0.9) is None
    summary = latency_summary(random.Random(5).sample([float(value) for value in range(1, 301)], 300))
    assert summary.ci95 is not None
    assert summary.ci95.keys() >= {"p50", "p90", "p95"}
    low, high = summary.ci95["p95"]
    assert low < summary.p95 < high <= summary.max


def test_the_interval_of_the_mean_is_students() -> None:
    values = [9.0, 11.0] * 15
    # t(0.975, 29) = 2.04523, s = 1.017095
    low, high = mean_interval(values) or (0, 0)
    assert (low, high) == pytest.approx((10 - 0.379791, 10 + 0.379791), abs=1e-4)
    assert mean_interval(values[:29]) is None
    assert mean_interval([0.001] * 29 + [1000.0]) is None


def test_samples_that_come_in_spells_are_worth_fewer() -> None:
    spells = ([10.0, 10.1] * 25 + [11.0, 11.1] * 25) * 4
    mixed = random.Random(3).sample(spells, len(spells))
    assert dependence(spells) > 5
    assert dependence(mixed) < 2.5
    assert dependence(spells[:19]) == 1.0
    assert dependence([10.0] * 100) == 1.0
    narrow, wide = series_interval(mixed), series_interval(spells)
    assert narrow and (wide is None or wide[1] - wide[0] >= narrow[1] - narrow[0])


@pytest.mark.parametrize(("memory", "least"), [(0.0, 0.93), (0.5, 0.90), (0.8, 0.85)])
def test_the_interval_covers_the_median_of_samples_that_depend_on_each_other(memory: float, least: float) -> None:
    generator = random.Random(11)
    covered = 0
    for _ in range(200):
        state, samples = generator.gauss(0, 1), []
        for _ in range(300):
            state = memory * state + (1 - memory**2) ** 0.5 * generator.gauss(0, 1)
            samples.append(10 + state)
        low, high = series_interval(samples) or (0.0, 20.0)
        covered += low <= 10 <= high
    assert covered / 200 >= least
