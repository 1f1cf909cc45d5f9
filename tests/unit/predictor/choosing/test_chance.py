"""Chances from intervals."""

import pytest

from predictor.choosing.chance import MOST, chance_below, chance_of_all


@pytest.mark.parametrize("nominal", [0.5, 0.8, 0.9])
def test_the_ends_of_an_interval_have_the_chances_that_its_coverage_promises(nominal: float) -> None:
    low, high = chance_below(10, 8, 13, 8, nominal), chance_below(10, 8, 13, 13, nominal)
    assert low == pytest.approx((1 - nominal) / 2, abs=1e-6)
    assert high == pytest.approx((1 + nominal) / 2, abs=1e-6)


def test_half_the_time_a_figure_is_below_what_is_expected_and_a_farther_limit_is_likelier_kept() -> None:
    chances = [chance_below(10, 8, 13, limit) for limit in (5, 8, 10, 11, 13, 20)]
    assert chances[2] == pytest.approx(0.5)
    assert chances == sorted(chances)


def test_no_prediction_is_certain_but_what_was_measured_is() -> None:
    assert chance_below(10, 9, 11, 1e9) == MOST
    assert (chance_below(10, 10, 10, 11), chance_below(10, 10, 10, 9)) == (1.0, 0.0)


@pytest.mark.parametrize("ends", [(None, 12), (8, None), (0.0, 12)])
def test_without_an_interval_there_is_no_chance(ends: tuple[float | None, float | None]) -> None:
    assert chance_below(10, *ends, 11) is None


def test_all_limits_together_are_likelier_kept_than_if_they_had_nothing_to_do_with_each_other() -> None:
    both = chance_of_all([0.5, 0.8])
    assert both is not None
    assert 0.4 < both < 0.5
    assert chance_of_all([]) == 1.0
    assert chance_of_all([0.5, None]) is None
    assert chance_of_all([0.7]) == pytest.approx(0.7)


def test_an_interval_taken_for_wider_says_less() -> None:
    chances = [chance_below(10, 8, 13, 13, wider=wider) for wider in (1.0, 2.0, 4.0)]
    assert chances[0] == pytest.approx(0.9)
    assert chances == sorted(chances, reverse=True)
    assert chance_below(10, 8, 13, 10, wider=4.0) == pytest.approx(0.5)
