"""Power laws: planted exponents come back, and what is extrapolated has an interval that holds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.power_law import UPPER, fit
from benchmarks.rows.growth import sizes

SIZES = sizes(1_000_000)
EXPONENTS = st.floats(-1.5, 2.0)
FACTORS = st.floats(1e-6, 1e6)


@given(exponent=EXPONENTS, factor=FACTORS)
def test_planted_exponent_comes_back(exponent: float, factor: float) -> None:
    law = fit(SIZES, [factor * size**exponent for size in SIZES])
    assert law is not None
    assert law.exponent.value == pytest.approx(exponent, abs=1e-6)
    assert law.at(10**8).value == pytest.approx(factor * 1e8**exponent, rel=1e-5)


@given(exponent=st.floats(0.6, 1.6), factor=FACTORS, fixed=st.floats(0.0, 1e4))
def test_planted_fixed_part_is_taken_off(exponent: float, factor: float, fixed: float) -> None:
    # The fixed part is as large as what so many events cost.
    part = factor * fixed**exponent
    law = fit(SIZES, [part + factor * size**exponent for size in SIZES], total=True)
    assert law is not None
    assert law.exponent.value == pytest.approx(exponent, abs=1e-3)
    assert law.at(10**8).value == pytest.approx(factor * 1e8**exponent, rel=1e-2)


@given(exponent=st.floats(0.5, 1.5), seed=st.integers(0, 10_000))
def test_interval_is_about_the_value_and_widens_with_the_distance(exponent: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.05, len(SIZES))
    law = fit(SIZES, [size**exponent * float(np.exp(shift)) for size, shift in zip(SIZES, noise, strict=True)])
    assert law is not None
    near, far = law.at(10**6), law.at(10**8)
    assert near.low < near.value < near.high
    assert far.high / far.low > near.high / near.low
    assert law.exponent.low < law.exponent.value < law.exponent.high


def test_interval_holds_the_planted_value_in_nineteen_of_twenty_runs() -> None:
    chance = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        law = fit(SIZES, [size * float(np.exp(chance.normal(0, 0.1))) for size in SIZES])
        assert law is not None
        held += law.exponent.low <= 1.0 <= law.exponent.high
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_only_the_upper_sizes_count() -> None:
    values = [5.0 if size < 1_000_000 / UPPER else float(size) for size in SIZES]
    law = fit(SIZES, values)
    assert law is not None
    assert law.exponent.value == pytest.approx(1.0)
    assert law.points == 4


def test_too_few_sizes_give_no_law() -> None:
    assert fit([1_000, 3_000], [1.0, 3.0]) is None


@given(exponent=st.floats(0.2, 2.0), factor=FACTORS)
def test_size_at_a_value_is_where_the_law_reaches_it(exponent: float, factor: float) -> None:
    law = fit(SIZES, [factor * size**exponent for size in SIZES])
    assert law is not None
    assert law.size_at(factor * 1e9**exponent) == pytest.approx(1e9, rel=1e-3)


def test_what_does_not_rise_reaches_nothing() -> None:
    law = fit(SIZES, [1 / size for size in SIZES])
    assert law is not None
    assert law.size_at(1e9) is None
