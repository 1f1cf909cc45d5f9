"""Kernels of a device that was left out, corrected by a few of its own: figures made from physics with known deviations."""

import numpy as np
import pytest

from domain.performance.roofline import Limits
from predictor.kernels.columns import PRODUCT, Columns, device_columns
from predictor.kernels.correction import Corrected
from predictor.kernels.fitting import ALL, HALF, FittedClass, fit_class
from predictor.kernels.physics import START, Parameters, seconds_of

GPU = Limits(
    peak_flops=300e12, bandwidth_bytes_per_s=2e12, launch_s=4e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=40e6,
    units=100.0, clock_hz=1.8e9, power_w=400.0, year=2020,
)  # fmt: skip
PARAMETERS = Parameters(values=dict(START[PRODUCT]), floors_us={"graph": 2.5})


def products(seed: int, count: int, left_bytes: float = 2.0, right_bytes: float = 2.0) -> Columns:
    m, n, k = (2.0 ** np.random.default_rng(seed).uniform(0, 13, (3, count))).round()
    ones = np.ones(count)
    return Columns(
        sizes={
            "batch": ones, "m": m, "n": n, "k": k, "area": ones,
            "left_bytes": left_bytes * ones, "right_bytes": right_bytes * ones, "out_bytes": 2 * ones,
        },
        device=device_columns([GPU] * count),
        regime=np.full(count, "graph"),
    )  # fmt: skip


def usual(columns: Columns) -> np.ndarray:
    return seconds_of(PRODUCT, PARAMETERS, columns)


def wide(columns: Columns) -> np.ndarray:
    """A deviation from physics that trees can learn: products of many columns are slow."""
    return 0.4 * (columns.sizes["n"] > 512)


@pytest.fixture(scope="module")
def fitted() -> FittedClass:
    columns = products(0, 3000)
    return fit_class(PRODUCT, columns, usual(columns) * np.exp(wide(columns)))


def error(predicted: np.ndarray, measured: np.ndarray) -> float:
    return float(np.abs(np.log(predicted / measured)).mean())


def test_few_kernels_correct_the_others_of_a_device_that_reaches_less(fitted: FittedClass) -> None:
    given, request = products(1, 20), products(2, 500)
    corrected = Corrected(fitted, given, 1.4 * fitted.seconds(given))
    measured = 1.4 * fitted.seconds(request)
    assert error(fitted.seconds(request), measured) == pytest.approx(np.log(1.4))
    assert error(corrected.seconds(request), measured) < 0.1


def test_a_device_with_a_slow_floor_is_slow_on_small_kernels_alone(fitted: FittedClass) -> None:
    given, request = products(1, 30), products(2, 500)
    slow = 4e-6
    corrected = Corrected(fitted, given, fitted.seconds(given) + slow)
    factor = corrected.seconds(request) / fitted.seconds(request)
    small, large = fitted.seconds(request) < 4e-6, fitted.seconds(request) > 1e-4
    assert np.median(factor[small]) > 1.4
    assert np.median(factor[large]) == pytest.approx(1.0, abs=0.1)


def test_kernels_of_one_software_correct_another_less_than_its_own(fitted: FittedClass) -> None:
    given, request = products(1, 40), products(2, 200)
    software = np.repeat(["fast", "slow"], 20)
    corrected = Corrected(fitted, given, fitted.seconds(given) * np.where(software == "slow", 1.25, 1.0), software)
    fast, slow = (
        np.median(corrected.seconds(request, np.full(200, name)) / fitted.seconds(request)) for name in ("fast", "slow")
    )
    assert 1.0 <= fast < slow <= 1.25
    alone = Corrected(fitted, given.take(software == "slow"), 1.25 * fitted.seconds(given.take(software == "slow")))
    assert np.median(alone.seconds(request) / fitted.seconds(request)) > slow


def test_an_odd_kernel_hardly_moves_the_others(fitted: FittedClass) -> None:
    given, request = products(1, 20), products(2, 300)
    seconds = fitted.seconds(given)
    odd = seconds.copy()
    odd[7] *= 10.0
    plain, moved = (Corrected(fitted, given, item).seconds(request) for item in (seconds, odd))
    assert np.median(np.abs(np.log(moved / plain))) < 0.05


def test_intervals_are_wider_where_kernels_of_the_device_scatter_and_hold_what_they_promise(
    fitted: FittedClass,
) -> None:
    given, request = products(1, 60), products(2, 800)
    widths = {}
    for noise in (0.05, 0.3):
        random = np.random.default_rng(3)
        corrected = Corrected(fitted, given, fitted.seconds(given) * np.exp(random.normal(0, noise, 60)))
        off = np.abs(
            np.log(fitted.seconds(request) * np.exp(random.normal(0, noise, 800)) / corrected.seconds(request))
        )
        widths[noise] = corrected.half_width(request, 0.8)
        assert 0.7 < (off <= widths[noise]).mean() < 0.95
        assert (corrected.half_width(request, 0.9) > widths[noise]).all()
    assert np.median(widths[0.3]) > 1.5 * np.median(widths[0.05])


def test_kernels_far_from_any_that_was_measured_are_less_sure(fitted: FittedClass) -> None:
    given = products(1, 20)
    corrected = Corrected(fitted, given, fitted.seconds(given))
    assert corrected.spread(given).mean() < corrected.spread(products(2, 500)).mean()


def test_products_of_16_bits_have_trees_of_their_own() -> None:
    half, narrow = products(0, 1500), products(1, 1500, left_bytes=2.0, right_bytes=0.5)
    both = Columns(
        sizes={name: np.concatenate([half.sizes[name], narrow.sizes[name]]) for name in half.sizes},
        device={name: np.concatenate([half.device[name], narrow.device[name]]) for name in half.device},
        regime=np.concatenate([half.regime, narrow.regime]),
    )
    seconds = usual(both) * np.exp(np.concatenate([wide(half), -wide(narrow)]))
    fitted = fit_class(PRODUCT, both, seconds)
    assert set(fitted.trees) == {ALL, HALF}
    assert error(fitted.seconds(both), seconds) < 0.05
    of_half = fit_class(PRODUCT, both, seconds, (HALF,))
    assert set(of_half.trees) == {HALF} and of_half.trees[HALF].texts == fitted.trees[HALF].texts
    # Without trees for its operands a kernel takes what physics says.
    assert of_half.seconds(narrow) == pytest.approx(seconds_of(PRODUCT, of_half.parameters, narrow))
    assert of_half.seconds(half) == pytest.approx(fitted.seconds(half))
