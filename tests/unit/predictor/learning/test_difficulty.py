import numpy as np
import pytest

from predictor.artifact.conformal import coverage, width
from predictor.artifact.difficulty import Difficulty, cross_fitted

RANDOM = np.random.default_rng(4)
ROWS = 6000
GROUPS = np.repeat([f"g{index}" for index in range(60)], 100)
VALUES = RANDOM.normal(0, 1, (ROWS, 4))
DOUBT = np.exp(RANDOM.normal(0, 0.3, ROWS))
SPREAD = 0.05 * np.where(VALUES[:, 0] > 0, 4.0, 1.0) * DOUBT
ERRORS = RANDOM.normal(0, 1, ROWS) * SPREAD
HALF = np.arange(ROWS) < ROWS // 2


def test_hard_rows_are_found_by_their_features_and_by_the_predictors_own_doubt() -> None:
    found = Difficulty.fitted(VALUES[HALF], DOUBT[HALF], ERRORS[HALF]).of(VALUES[~HALF], DOUBT[~HALF])
    hard = VALUES[~HALF, 0] > 0
    assert 1.5 < np.median(found[hard]) / np.median(found[~hard]) < 5.5
    unsure = DOUBT[~HALF] > np.quantile(DOUBT, 0.8)
    assert np.median(found[hard & unsure]) > 1.1 * np.median(found[hard & ~unsure])
    assert 0.3 < np.median(found / DOUBT[~HALF]) < 3.0
    assert len(Difficulty.fitted(VALUES, DOUBT, ERRORS).of(VALUES[:0], DOUBT[:0])) == 0


def test_a_text_keeps_everything_and_the_same_errors_give_the_same_bits() -> None:
    one, other = (Difficulty.fitted(VALUES, DOUBT, ERRORS) for _ in range(2))
    assert one.text == other.text
    np.testing.assert_array_equal(Difficulty(one.text).of(VALUES, DOUBT), one.of(VALUES, DOUBT))


@pytest.mark.parametrize("nominal", [0.8, 0.9])
def test_intervals_in_its_units_cover_as_many_and_are_narrower_than_a_constant_band(nominal: float) -> None:
    known = cross_fitted(VALUES[HALF], DOUBT[HALF], ERRORS[HALF], GROUPS[HALF])
    new = Difficulty.fitted(VALUES[HALF], DOUBT[HALF], ERRORS[HALF]).of(VALUES[~HALF], DOUBT[~HALF])
    reach = width(ERRORS[HALF] / known, nominal) * new
    band = np.full(int((~HALF).sum()), width(ERRORS[HALF], nominal))
    assert coverage(ERRORS[~HALF], reach) == pytest.approx(nominal, abs=0.03)
    assert float(np.mean(reach)) < 0.9 * float(np.mean(band))


def test_no_row_teaches_its_own_difficulty() -> None:
    silent = np.where(GROUPS == "g7", 0.0, ERRORS)
    here = GROUPS == "g7"
    before = cross_fitted(VALUES, DOUBT, ERRORS, GROUPS)[here]
    np.testing.assert_array_equal(cross_fitted(VALUES, DOUBT, silent, GROUPS)[here], before)


@pytest.mark.parametrize("rows", [1, 100])
def test_too_few_rows_and_a_single_group_leave_the_predictors_own_doubt(rows: int) -> None:
    few = (VALUES[:rows], DOUBT[:rows], ERRORS[:rows])
    np.testing.assert_allclose(Difficulty.fitted(*few).of(VALUES, DOUBT), DOUBT, rtol=1e-6)
    np.testing.assert_array_equal(cross_fitted(*few, ["one"] * rows), DOUBT[:rows])
