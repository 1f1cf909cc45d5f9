"""Shapes of series whose answer is known."""

from __future__ import annotations

import random

import pytest

from domain.verdicts import drift, held_up_share, leading_warmup, modes

FLAT = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95] * 10


def test_a_level_that_changes_between_the_halves_is_a_drift() -> None:
    assert drift(FLAT + [value * 1.1 for value in FLAT]) == pytest.approx(0.1)
    assert drift([value * 1.1 for value in FLAT] + FLAT) == pytest.approx(-1 / 11)
    assert drift([10 + at / 50 for at in range(100)]) == pytest.approx(0.0952, abs=0.001)


def test_what_is_small_or_lost_in_the_noise_is_no_drift() -> None:
    assert drift(FLAT + [value * 1.04 for value in FLAT]) is None
    wide = [5.0, 15.0, 10.0, 7.0, 13.0, 9.0]
    # The medians of the halves differ by 10 %, and yet a sample of one exceeds one of the other in half of all pairs.
    assert drift([*wide, *(value + 1 for value in wide)]) is None
    assert drift([3.0]) is None


def test_slow_first_samples_are_counted() -> None:
    assert leading_warmup([40.0, 25.0, 15.0, 12.0, *FLAT]) == 4
    assert leading_warmup([40.0, 25.0, *FLAT]) == 0
    assert leading_warmup([10.2, 10.3, 10.2, *FLAT]) == 0
    assert leading_warmup(FLAT) == 0
    assert leading_warmup([5.0, 4.0, 3.0]) == 0


def test_two_modes_are_found_wherever_their_samples_lie() -> None:
    found = modes([10.0, 10.1, 12.0, 12.1] * 20)
    assert found is not None
    assert (found.low, found.high, found.share) == (pytest.approx(10.05, abs=0.06), pytest.approx(12.05, abs=0.06), 0.5)
    assert modes([10.0] * 80 + [13.0] * 20) is not None


@pytest.mark.parametrize(
    "samples",
    [
        FLAT,
        [10.0, 10.1, 12.0, 12.1] * 9,  # 36 samples are too few to tell
        [10.0, 10.3] * 50,  # two levels, 3 % apart
        [10 + at / 10 for at in range(100)],  # evenly spread
        [10.0] * 95 + [30.0] * 5,  # a tail is no mode
        [10.0] * 88 + [30.0] * 12,  # nor one of which a tenth does not remain without its outermost part
    ],
)
def test_one_mode_is_no_two(samples: list[float]) -> None:
    assert modes(samples) is None


def test_noise_of_one_mode_is_seldom_taken_for_two() -> None:
    random.seed(7)
    laws = [
        lambda: random.gauss(10, 1.5),
        lambda: random.uniform(8, 12),
        lambda: 10 + random.expovariate(1),
        lambda: random.lognormvariate(2, 0.2),
    ]
    wrong = sum(modes([law() for _ in range(60)]) is not None for law in laws for _ in range(100))
    assert wrong <= 8


def test_time_lost_in_long_calls_is_what_lies_beyond_the_median() -> None:
    assert held_up_share([10.0] * 90 + [100.0] * 10) == pytest.approx(900 / 1900)
    assert held_up_share([10.0] * 90 + [19.0] * 10) == 0.0
