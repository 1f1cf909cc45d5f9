import json

import numpy as np
import pytest

from predictor.learning import nearest_residuals as field_module
from predictor.learning.nearest_residuals import Field

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


def test_the_same_rows_give_the_same_field_and_what_is_told_restores_it() -> None:
    field = fitted()
    np.testing.assert_array_equal(fitted().pull, field.pull)
    restored = Field.restored(json.loads(json.dumps(field.document())))
    for one, other in zip(field.at(PLACES, FAMILIES), restored.at(PLACES, FAMILIES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_of_more_rows_than_can_be_solved_for_the_last_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_module, "MOST_ROWS", 295)
    np.testing.assert_allclose(fitted().places, PLACES[5:], rtol=1e-3, atol=1e-4)
