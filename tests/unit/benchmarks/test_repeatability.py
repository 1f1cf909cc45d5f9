"""How far sources agree with themselves: spreads of repeated configurations, and the error of a perfect predictor."""

from __future__ import annotations

from collections import Counter

import pytest

from research.repeatability import Source, page, repeated_figures


def test_rows_are_compared_by_their_latency_or_the_first_figure_that_several_have() -> None:
    by_median = [{"latency_ms": {"p50": 10.0, "mean": 99.0}}, {"latency_ms": {"mean": 12.0}}]
    assert repeated_figures(by_median) == [10.0, 12.0]
    assert repeated_figures([{"tpot_ms": 5.0, "ttft_ms": 7.0}, {"tpot_ms": 6.0}]) == [5.0, 6.0]
    assert repeated_figures([{"tpot_ms": 5.0}, {"ttft_ms": 6.0}]) == []


def test_a_perfect_predictor_is_off_by_the_distance_to_the_median_of_each_configuration() -> None:
    source = Source("a.csv", "table", "MIT", Counter(rows=6), 0, 3, [[8.0, 10.0, 12.5], [4.0, 4.0]])
    assert source.spreads == pytest.approx([12.5 / 8 - 1, 0.0])
    assert source.errors == pytest.approx([0.25, 0.0, 0.2, 0.0, 0.0])
    cells = page([source]).splitlines()[-1].strip("| ").split(" | ")
    assert cells[-6:] == ["3", "2", "28.1%", "50.6%", "9.0%", "0.0%"]
    empty = Source("b.csv", "table", "MIT", Counter(rows=1), 0, 1, [])
    assert page([empty]).splitlines()[-1].strip("| ").split(" | ")[-4:] == ["–", "–", "–", "–"]
