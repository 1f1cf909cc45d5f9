import numpy as np
import pytest

from predictor.learning.field import MOST_ROWS, Field

RANDOM = np.random.default_rng(0)
PLACES = RANDOM.normal(size=(300, 3))
FAMILIES = np.array([f"family-{index % 20}" for index in range(300)])
ARCHITECTURES = np.array([f"architecture-{index}" for index in range(300)])
ERRORS = 0.3 * np.sin(PLACES[:, 0]) + 0.1 * PLACES[:, 1]
NOBODY = np.array(["nobody"])


def fitted(errors: np.ndarray = ERRORS) -> Field:
    return Field.fitted(PLACES, FAMILIES, ARCHITECTURES, errors)


def test_errors_of_like_work_are_expected_again() -> None:
    asked = RANDOM.normal(scale=0.7, size=(50, 3))
    expected, _ = fitted().at(asked, np.array(["nobody"] * 50))
    true = 0.3 * np.sin(asked[:, 0]) + 0.1 * asked[:, 1]
    assert np.abs(expected - true).mean() < 0.2 * np.abs(true).mean()


def test_far_from_everything_nothing_is_expected_but_the_middle_and_doubt_is_great() -> None:
    field = fitted(ERRORS + 1.0)
    expected, doubt = field.at(np.full((1, 3), 100.0), NOBODY)
    assert expected[0] == pytest.approx(np.median(ERRORS + 1.0), abs=1e-6)
    _, near = field.at(PLACES[:1], FAMILIES[:1])
    assert near[0] < 1 < doubt[0]


def test_members_of_a_family_share_what_strangers_do_not() -> None:
    one = FAMILIES == "family-3"
    field = fitted(np.where(one, 0.4, 0.0))
    far = np.full((1, 3), 100.0)
    assert field.at(far, np.array(["family-3"]))[0] > 0.1
    assert field.at(far, NOBODY)[0] == pytest.approx(0.0, abs=1e-6)


def test_the_same_rows_give_the_same_field_and_no_more_than_are_useful_are_kept() -> None:
    np.testing.assert_array_equal(fitted().pull, fitted().pull)
    many = MOST_ROWS + 5
    places = RANDOM.normal(size=(many, 2))
    names = np.array([str(index) for index in range(many)])
    field = Field.fitted(places, names, names, places[:, 0])
    np.testing.assert_array_equal(field.places, places[5:].astype(np.float32))
