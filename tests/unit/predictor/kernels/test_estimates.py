"""Intervals of kernel estimates: from chips that were left out, and from own kernels that are left out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from domain.performance.roofline import Limits
from predictor.artifact.artifact import load_shipped
from predictor.kernels.columns import PRODUCT, Columns, device_columns
from predictor.kernels.correction import NOISE, Corrected
from predictor.kernels.estimates import left_out_width
from predictor.kernels.fitting import FittedClass

GPU = Limits(
    peak_flops=300e12, bandwidth_bytes_per_s=2e12, launch_s=4e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=40e6,
    units=100.0, clock_hz=1.8e9, power_w=400.0, year=2020,
)  # fmt: skip


def products(count: int) -> Columns:
    random = np.random.default_rng(3)
    ones = np.ones(count)
    sizes = {name: 2.0 ** random.integers(5, 13, count) for name in "mnk"}
    more = {"batch": ones, "area": ones, "left_bytes": 2 * ones, "right_bytes": 2 * ones, "out_bytes": 2 * ones}
    return Columns(sizes=sizes | more, device=device_columns([GPU] * count), regime=np.full(count, "graph"))


@pytest.fixture(scope="module")
def fitted() -> FittedClass:
    shipped = load_shipped()
    assert shipped.card.kernels is not None
    return FittedClass.kept(PRODUCT, shipped.card.kernels.parameters[PRODUCT], shipped.others)


def scores(median: float, mean: float, bias: float = -0.1) -> dict[str, float]:
    return {"median_ape": median, "mape": mean, "bias": bias}


def test_the_width_holds_the_share_of_a_log_normal_error() -> None:
    # Of many alike chips with a median error of 20 % the 80 % width is that of one: median × exp(0.8416 σ).
    chips = [[scores(0.2, 0.26)]] * 2000
    middle, mean = math.log1p(0.2), math.log1p(0.26)
    spread = math.sqrt(2 * math.log(mean / middle))
    assert left_out_width(chips) == pytest.approx(middle * math.exp(0.8416 * spread), rel=1e-2)


def test_few_chips_give_a_wider_interval_and_siblings_count_as_one() -> None:
    chip, other = scores(0.1, 0.13), scores(0.4, 0.5)
    assert left_out_width([[chip]] * 4) > left_out_width([[chip]] * 20) > left_out_width([[chip]] * 2000)
    siblings = left_out_width([[chip], [chip], [chip], [other] * 9])
    assert siblings == pytest.approx(left_out_width([[chip], [chip], [chip], [other]]))
    # Estimates half as long as the measurement are off by a factor of two, those twice as long by one too.
    short = left_out_width([[scores(0.5, 0.55, bias=0.7)]] * 10)
    long = left_out_width([[scores(1.0, 1.2, bias=-0.7)]] * 10)
    assert short == pytest.approx(long, rel=0.05)


def test_a_shot_that_is_left_out_is_what_the_others_alone_say(fitted: FittedClass) -> None:
    shots = products(24)
    seconds = fitted.seconds(shots) * np.exp(0.2 + 0.02 * np.sin(np.arange(24)))
    blind, spread = Corrected(fitted, shots, seconds).left_out()
    for place in (0, 7, 23):
        others = np.arange(24) != place
        alone = Corrected(fitted, shots.take(others), seconds[others])
        here = shots.take(~others)
        assert blind[place] == pytest.approx(alone.seconds(here)[0], rel=1e-6)
        assert spread[place] == pytest.approx(alone.spread(here)[0], rel=1e-6)


def test_intervals_are_as_wide_as_left_out_shots_need(fitted: FittedClass) -> None:
    shots = products(60)
    usual = fitted.seconds(shots)
    random = np.random.default_rng(1)
    calm = Corrected(fitted, shots, usual * np.exp(0.02 * random.normal(size=60)))
    noisy = usual * np.exp(3 * NOISE * random.normal(size=60))
    wild = Corrected(fitted, shots, noisy)
    assert calm.reach(0.8) < 1.2816 < wild.reach(0.8)
    blind, spread = wild.left_out()
    held = np.mean(np.abs(np.log(noisy / blind)) <= wild.reach(0.8) * spread)
    assert 0.7 <= held <= 0.85
    assert np.mean(np.abs(np.log(noisy / blind)) <= 1.2816 * spread) < 0.7
    few = Corrected(fitted, shots.take(np.arange(3)), usual[:3])
    # Kernels of a usual device stand beside few of the device's own.
    assert 0.5 * 1.2816 < few.reach(0.8) <= 1.2816
