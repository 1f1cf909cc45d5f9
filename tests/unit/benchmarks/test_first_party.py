from pathlib import Path

import numpy as np
import pytest

from benchmarks.first_party import METHODS, groups_of, left_out, read, scores
from predictor.features.table import Table
from predictor.learning.method import Prediction

DATA = sorted((Path(__file__).parents[3] / "data").glob("*.ndjson.gz"))


@pytest.fixture(scope="module")
def table() -> Table:
    return read(DATA)


class Spy:
    """Predicts nothing, and remembers who taught and who was asked."""

    name = "spy"

    def __init__(self) -> None:
        self.seen: list[tuple[set[str], set[str]]] = []

    def fit(self, table: Table) -> "Spy":
        self.taught = set(table.family.tolist())
        return self

    def predict(self, table: Table) -> Prediction:
        self.seen.append((self.taught, set(table.family.tolist())))
        return Prediction.plain(np.zeros(len(table)))

    def adapted(self, shots: Table) -> "Spy":
        return self


@pytest.mark.parametrize("by", ["family", "kin"])
def test_a_family_that_is_asked_has_taught_nothing_on_any_platform(table: Table, by: str) -> None:
    spy = Spy()
    errors, _ = left_out(table, spy, groups_of(table, by))
    assert all(not taught & asked for taught, asked in spy.seen)
    assert set().union(*(asked for _, asked in spy.seen)) == set(table.family.tolist())
    np.testing.assert_array_equal(errors, table.residual)


def test_by_platform_a_family_stays_on_the_other_one(table: Table) -> None:
    spy = Spy()
    left_out(table, spy, groups_of(table, "platform"))
    assert any(asked <= taught for taught, asked in spy.seen)


def test_scores_by_hand() -> None:
    groups = np.array(["a", "a", "a", "b"])
    errors = -np.log([1.05, 1.15, 1.3, 1.01])
    found = scores(errors, np.ones(4), groups)
    assert found["median_ape"] == pytest.approx(0.10)
    assert found["mape"] == pytest.approx((0.05 + 0.15 + 0.3 + 0.01) / 4)
    assert (found["within_10"], found["within_20"]) == (0.5, 0.75)
    assert found["by_group"] == pytest.approx({"a": 0.15, "b": 0.01})
    assert found["median_of_groups"] == pytest.approx(0.08)


def test_a_family_that_was_left_out_is_predicted_within_a_tenth_where_an_offset_is_not(table: Table) -> None:
    groups = groups_of(table, "family")
    few, offset = (scores(*left_out(table, METHODS[name], groups), groups) for name in ("parametric", "offset"))
    assert few["median_ape"] < 0.10 < offset["median_ape"]
    assert few["median_of_groups"] < 0.10
    assert few["within_10"] > offset["within_10"] + 0.1
    assert abs(few["coverage_80"] - 0.8) < 0.05
