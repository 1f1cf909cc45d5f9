"""What one measurement tells of others: of all on its software, most of those like it, and of nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from predictor.suggesting.belief import Belief, Kernel, Points, covariance

KERNEL = Kernel()


def points(
    software: list[str], mix: list[tuple[float, float]], balance: list[float] | None = None, common: float = 0.5
) -> Points:
    count = len(software)
    return Points(
        software=software,
        mix=np.array(mix),
        balance=np.array(balance or [0.0] * count),
        work=np.zeros(count),
        spread=np.full(count, 0.3),
        common=np.full(count, common),
    )


CONV, MIXED, MATMUL = (1.0, 0.0), (0.5, 0.5), (0.0, 1.0)


def belief(of: Points) -> Belief:
    return Belief(covariance(of, KERNEL), KERNEL.noise)


def test_covariances_are_those_of_a_process_whatever_the_points() -> None:
    random = np.random.default_rng(1)
    many = Points(
        software=[str(name) for name in random.integers(0, 3, 60)],
        mix=random.dirichlet(np.ones(5), 60),
        balance=random.normal(0, 2, 60),
        work=random.normal(0, 3, 60),
        spread=random.uniform(0.05, 0.7, 60),
        common=random.uniform(0, 1, 60),
    )
    found = covariance(many, KERNEL)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(np.diag(found), many.spread**2)


def test_measuring_settles_itself_helps_its_like_most_and_leaves_other_software_alone() -> None:
    known = belief(points(["a", "a", "a", "b"], [CONV, MIXED, MATMUL, CONV]))
    before = known.variance
    known.measure(0)
    left = known.variance / before
    assert left[0] < 0.01
    assert left[0] < left[1] < left[2] < 1.0
    assert left[3] == 1.0


def test_a_second_measurement_of_the_same_tells_nearly_nothing_new() -> None:
    known = belief(points(["a", "a", "a"], [CONV, CONV, MATMUL]))
    weights = np.array([0.0, 0.0, 1.0])
    first = known.gains(weights)
    known.measure(0)
    second = known.gains(weights)
    assert second[0] < 0.02 * first[0]
    assert second[1] < 0.5 * first[1]


def test_balance_is_learned_best_at_its_ends() -> None:
    spread = belief(points(["a"] * 3, [MIXED] * 3, [-3.0, 0.0, 3.0]))
    spread.measure(0)
    assert spread.gains(np.ones(3))[2] > spread.gains(np.ones(3))[1]


def test_gains_are_what_the_variances_fall_by() -> None:
    known = belief(points(["a", "a", "b"], [CONV, MATMUL, MIXED]))
    weights = np.array([1.0, 2.0, 3.0])
    promised, before = known.gains(weights), known.variance
    fall = known.fall(1)
    known.measure(1)
    np.testing.assert_allclose(known.variance, before - fall)
    assert promised[1] == pytest.approx(float((before - known.variance) @ weights))
