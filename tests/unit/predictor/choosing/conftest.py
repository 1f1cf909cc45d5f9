"""A small piece of work: two kinds of machine, three deployments, three loads each."""

import numpy as np
import pytest

from predictor.choosing.rule import Belief, Beliefs
from predictor.choosing.work import Work


@pytest.fixture
def work() -> Work:
    """Return a cheap machine with a quick and a slow engine, and a machine of thrice the price that serves twice as much."""
    return Work(
        model="m",
        machines=("1 × dear", "1 × cheap"),
        machine=np.array([1, 1, 1, 1, 1, 1, 0, 0, 0]),
        deployment=np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]),
        concurrency=np.array([1.0, 10.0, 100.0] * 3),
        usd_per_hour=np.array([2.0] * 6 + [6.0] * 3),
        ttft_s=np.array([0.1, 0.2, 5.0, 0.2, 0.9, 9.0, 0.1, 0.1, 0.4]),
        tpot_s=np.array([0.01, 0.02, 0.2, 0.02, 0.06, 0.4, 0.01, 0.01, 0.03]),
    )


@pytest.fixture
def told(work: Work) -> Beliefs:
    """Return beliefs that are right about everything and as good as sure."""
    tiny = 1e-6 * np.eye(len(work))
    return Beliefs(
        ttft=Belief(mean=np.log(work.ttft_s), covariance=tiny), tpot=Belief(mean=np.log(work.tpot_s), covariance=tiny)
    )
