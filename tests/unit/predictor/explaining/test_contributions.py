"""Contributions read off the trees: they are exactly the prediction, and LightGBM's own where a tree has one split."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from predictor.explaining.contributions import Attribution
from predictor.explaining.groups import OTHER, group_of, grouped
from predictor.features.features import FEATURES
from predictor.learning.training import LEARNERS, Learner, Trees, fit_trees

ROWS = 400


def learner(objective: str, leaves: int) -> Learner:
    return Learner(
        objective=objective, trees=30, learning_rate=0.2, leaves=leaves, rows_per_leaf=5, feature_share=1.0
    )  # fmt: skip


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    values = random.normal(size=(ROWS, 6))
    values[random.random(values.shape) < 0.1] = np.nan
    known = np.nan_to_num(values)
    return values, known[:, 0] + np.abs(known[:, 1]) * known[:, 2] + 0.1 * random.normal(size=ROWS)


@pytest.fixture(scope="module")
def trees(data: tuple[np.ndarray, np.ndarray]) -> Trees:
    return fit_trees(*data, learners=(learner("l1", 15), learner("l2", 31)))


def test_base_and_contributions_are_the_prediction(data: tuple[np.ndarray, np.ndarray], trees: Trees) -> None:
    attribution = Attribution(trees.texts)
    rows = np.vstack([data[0][:50], np.full((1, 6), np.nan), np.zeros((1, 6))])
    for row, predicted in zip(rows, trees.predict(rows), strict=True):
        base, parts = attribution.of(row)
        assert base + parts.sum() == pytest.approx(predicted, abs=1e-12)


def test_the_base_is_what_is_expected_of_a_row_that_nothing_is_known_of(trees: Trees) -> None:
    boosters = [lightgbm.Booster(model_str=text) for text in trees.texts.values()]
    expected = np.mean([one.predict(np.zeros((1, 6)), pred_contrib=True)[0, -1] for one in boosters])
    assert Attribution(trees.texts).of(np.zeros(6))[0] == pytest.approx(expected, abs=1e-12)


def test_of_single_splits_they_are_the_shapley_values(data: tuple[np.ndarray, np.ndarray]) -> None:
    stumps = fit_trees(*data, learners=(learner("l2", 2),))
    (booster,) = (lightgbm.Booster(model_str=text) for text in stumps.texts.values())
    exact = booster.predict(data[0][:20], pred_contrib=True)
    attribution = Attribution(stumps.texts)
    for row, shapley in zip(data[0][:20], exact, strict=True):
        np.testing.assert_allclose(attribution.of(row)[1], shapley[:-1], atol=1e-12)


def test_a_feature_that_decides_nothing_contributes_nothing(data: tuple[np.ndarray, np.ndarray]) -> None:
    blind = np.where(np.arange(6) == 4, 1.0, data[0])
    told = Attribution(fit_trees(blind, data[1], learners=LEARNERS[:1]).texts).of(blind[0])[1]
    assert told[4] == 0.0
    assert told[0] != 0.0


def test_trees_that_never_split_are_all_base() -> None:
    constant = fit_trees(np.zeros((ROWS, 2)), np.full(ROWS, 0.7), learners=(learner("l2", 7),))
    base, parts = Attribution(constant.texts).of(np.zeros(2))
    assert base == pytest.approx(constant.predict(np.zeros((1, 2)))[0])
    assert not parts.any()


def test_features_of_operators_belong_to_their_class_and_the_rest_has_names() -> None:
    assert (group_of("inner.attention"), group_of("kernel.conv"), group_of("time_share.mm")) == (
        "attention", "convolution", OTHER,
    )  # fmt: skip
    assert group_of("kind_share.depthwise.kernel_3") == "convolution"
    nameless = [name for name in FEATURES if "." not in name and group_of(name) == OTHER]
    assert nameless == ["largest_share"]
    sums = grouped(FEATURES, np.ones(len(FEATURES)))
    assert sum(sums.values()) == len(FEATURES)
