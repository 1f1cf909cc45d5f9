"""Statistics on literal series with known answers."""

import pytest

from domain.errors import InvalidInput
from domain.statistics import SAMPLES_NEEDED, latency_summary, median, median_interval, quantile


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
