import numpy as np
import pytest

from benchmarks.offsets import fit_offset

SPREAD = {"between": 0.25, "within": 0.15}


def names(count: int) -> list[str]:
    return [f"m{index}" for index in range(count)]


def test_one_model_moves_the_offset_by_less_than_its_own_error() -> None:
    fit = fit_offset(np.array([0.5]), np.array([0.0]), ["m"], between=0.25, within=0.25)
    assert 0 < fit.offset < 0.5
    many = fit_offset(np.full(20, 0.5), np.zeros(20), names(20), between=0.25, within=0.25)
    assert many.offset == pytest.approx(0.5, abs=0.05)


def test_rows_of_one_model_count_as_one() -> None:
    one = fit_offset(np.array([0.4]), np.zeros(1), ["m"], **SPREAD)
    repeated = fit_offset(np.full(50, 0.4), np.zeros(50), ["m"] * 50, **SPREAD)
    assert repeated.offset == pytest.approx(one.offset)


def test_an_odd_configuration_does_not_drag_the_others() -> None:
    residuals = np.array([0.2, 0.21, 0.19, 0.2, 2.6])
    fit = fit_offset(residuals, np.zeros(5), names(5), **SPREAD)
    assert fit.offset == pytest.approx(0.2, abs=0.06)


def test_the_slope_on_balance_is_learned_from_five_models_on() -> None:
    balance = np.linspace(-2, 2, 12)
    residuals = 0.3 + 0.2 * balance
    fit = fit_offset(residuals, balance, names(12), **SPREAD)
    assert fit.slope == pytest.approx(0.2, abs=0.05)
    assert fit_offset(residuals[:4], balance[:4], names(4), **SPREAD).slope == 0.0


def test_calibration_is_never_worse_than_none_by_more_than_noise() -> None:
    random = np.random.default_rng(5)
    before, after = [], []
    for _ in range(400):
        device = random.normal(0, 0.05)
        balance = random.normal(0, 1, 30)
        errors = device + random.normal(0, 0.15, 30)
        fit = fit_offset(errors[:5], balance[:5], names(5), **SPREAD)
        before.append(np.mean(np.abs(errors[5:])))
        after.append(np.mean(np.abs(errors[5:] - fit.correction(balance[5:]))))
    assert np.mean(after) <= np.mean(before) * 1.15


def test_calibration_helps_where_the_device_is_off() -> None:
    random = np.random.default_rng(6)
    errors, balance = 0.4 + random.normal(0, 0.1, 40), random.normal(0, 1, 40)
    fit = fit_offset(errors[:5], balance[:5], names(5), **SPREAD)
    assert np.mean(np.abs(errors[5:] - fit.correction(balance[5:]))) < 0.5 * np.mean(np.abs(errors[5:]))
