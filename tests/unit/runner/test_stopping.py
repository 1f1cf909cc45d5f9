"""The rules of warming up and of stopping, on series whose answer is known."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from domain.statistics import series_interval
from runner.measure.stopping import PERCENTILE_SAMPLES, Method, is_steady, next_look, steady_window, stop_reason

STILL = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.0, 10.1, 9.9, 10.0]
FALLING = [50.0, 40.0, 32.0, 26.0, 21.0, 17.0, 14.0, 12.0, 11.0, 10.5]


def test_a_flat_series_is_steady_and_a_falling_one_is_not() -> None:
    assert is_steady(STILL)
    assert not is_steady(FALLING)


def test_a_falling_series_becomes_steady_once_two_windows_agree() -> None:
    series = FALLING + STILL
    ends = [n for n in range(1, len(series) + 1) if is_steady(series[:n])]
    # 11 and 10.5 are still in the older window until three more have passed.
    assert ends and ends[0] > len(FALLING) + 3


def test_too_few_samples_are_never_steady() -> None:
    assert not is_steady(STILL[:9])
    assert is_steady(STILL[:6], window=3)


@pytest.mark.parametrize(
    ("call_ms", "window"), [(0.01, 500), (1.0, 50), (10.0, 5), (160.0, 5), (170.0, 3), (270.0, 3), (300.0, 2), (9e3, 2)]
)
def test_the_window_fits_in_the_time_for_warm_up(call_ms: float, window: int) -> None:
    assert steady_window(call_ms, Method(budget_s=5.0)) == window


def test_noise_larger_than_two_percent_does_not_hide_steadiness() -> None:
    assert is_steady([10.0, 12.0, 8.0, 11.0, 9.0, 10.4, 12.1, 8.2, 11.0, 9.1])


def test_a_narrow_interval_ends_a_series_but_not_in_its_first_tenth() -> None:
    method = Method(budget_s=5.0)
    assert stop_reason([10.0] * 30, 0.5, method) == "interval"
    assert stop_reason([10.0] * 30, 0.1, method) is None


def test_a_wide_series_goes_on_until_the_budget_is_spent() -> None:
    wide = [8.0, 12.0] * 20
    assert stop_reason(wide, 4.9, Method(budget_s=5.0)) is None
    assert stop_reason(wide, 5.0, Method(budget_s=5.0)) == "budget"


def test_iterations_are_counted_exactly() -> None:
    method = Method(iterations=7)
    assert stop_reason([1.0] * 6, 100.0, method) is None
    assert stop_reason([1.0] * 7, 0.0, method) == "iterations"


@pytest.mark.parametrize(("percentile", "needed"), [("p90", 44), ("p95", 90), ("p99", 459)])
def test_a_percentile_keeps_a_series_going_past_its_budget(percentile: str, needed: int) -> None:
    method = Method(percentile=percentile)
    assert PERCENTILE_SAMPLES[percentile] == needed
    assert stop_reason([1.0] * (needed - 1), 60.0, method) is None
    assert stop_reason([1.0] * needed, 60.0, method) == "interval"


def test_slow_calls_end_with_three_samples_when_the_budget_is_over() -> None:
    assert stop_reason([4000.0] * 2, 8.0, Method(budget_s=5.0)) is None
    assert stop_reason([4000.0] * 3, 12.0, Method(budget_s=5.0)) == "budget"


def test_a_series_never_outgrows_one_event() -> None:
    assert stop_reason([8.0, 12.0] * 4000, 0.0, Method()) == "samples"


def test_looks_thin_out() -> None:
    assert [next_look(n) for n in (1, 10, 100)] == [2, 11, 110]


def test_a_window_has_the_time_in_which_clocks_settle_but_leaves_room_in_a_short_warm_up() -> None:
    assert steady_window(1.0, Method(budget_s=0.2)) == 25


def narrow(times: list[float]) -> bool:
    low, high = series_interval(times) or (0.0, 99.0)
    return high - low <= 0.02 * median(times)


def test_two_looks_have_to_agree() -> None:
    generator = random.Random(4)
    series = [generator.gauss(10, 0.4) for _ in range(400)]
    single = next(n for n in range(20, 400) if narrow(series[:n]))
    ended = next(n for n in range(20, 400) if stop_reason(series[:n], 1.0, Method()) == "interval")
    assert narrow(series[:ended]) and narrow(series[: ended - ended // 11])
    assert ended > single and stop_reason(series[:single], 1.0, Method()) is None


def test_samples_that_come_in_spells_need_more_of_them() -> None:
    wave = [10 * (1 + 0.03 * math.sin(2 * math.pi * at / 100)) for at in range(400)]
    mixed = random.Random(2).sample(wave, len(wave))
    assert stop_reason(mixed, 1.0, Method()) == "interval"
    assert stop_reason(wave, 1.0, Method()) is None


def test_too_few_samples_to_see_their_dependence_never_end_a_series() -> None:
    assert stop_reason([10.0] * 19, 2.0, Method()) is None
    assert stop_reason([10.0] * 22, 2.0, Method()) == "interval"
