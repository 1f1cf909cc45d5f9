"""The choice within a budget: typical before odd, cheap before dear, and nothing that teaches nothing."""

from __future__ import annotations

import numpy as np

from predictor.suggesting.belief import Belief, Kernel, Points, covariance
from predictor.suggesting.suggestion import choose

KERNEL = Kernel()
CROWD = [(0.9, 0.1), (0.88, 0.12), (0.92, 0.08), (0.9, 0.1), (0.86, 0.14)]
FREAK = (0.0, 1.0)


def known(mix: list[tuple[float, float]], software: str = "a", common: float = 0.3) -> Belief:
    count = len(mix)
    of = Points(
        software=[software] * count, mix=np.array(mix), balance=np.zeros(count), work=np.zeros(count),
        spread=np.full(count, 0.3), common=np.full(count, common),
    )  # fmt: skip
    return Belief(covariance(of, KERNEL), KERNEL.noise)


def test_the_typical_comes_before_the_freak() -> None:
    chosen = choose(known([*CROWD, FREAK]), np.full(6, 10.0), np.ones(6), 1000.0, 10)
    assert chosen[0].index != 5
    assert len(chosen[0].helped) == 5
    assert chosen[0].helped[-1] == 5
    gains = [one.gain for one in chosen]
    assert gains == sorted(gains, reverse=True)


def test_the_budget_is_kept_and_what_is_too_long_is_passed_over() -> None:
    seconds = np.array([500.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    chosen = choose(known([*CROWD, FREAK]), seconds, np.ones(6), 35.0, 10)
    assert sum(one.seconds for one in chosen) <= 35.0
    assert len(chosen) == 3
    assert 0 not in {one.index for one in chosen}


def test_seconds_decide_between_runs_that_teach_the_same() -> None:
    twins = [(0.5, 0.5), (0.5, 0.5), (0.5, 0.5)]
    chosen = choose(known(twins), np.array([30.0, 9.0, 30.0]), np.ones(3), 1000.0, 1)
    assert chosen[0].index == 1


def test_only_what_helps_a_question_is_run_whatever_could_be() -> None:
    asked = np.array([0.0, 0.0, 1.0])
    for_crowd = choose(known([CROWD[0], FREAK, CROWD[1]]), np.array([10.0, 10.0, np.inf]), asked, 1000.0, 1)
    assert for_crowd[0].index == 0
    assert for_crowd[0].own == 0.0
    assert not choose(known(CROWD), np.full(5, 10.0), np.zeros(5), 1000.0, 10)


def test_runs_that_are_not_worth_their_entry_are_left_out() -> None:
    same = [(0.5, 0.5)] * 40
    assert len(choose(known(same, common=0.999), np.full(40, 10.0), np.ones(40), 1e6, 40)) < 40
    assert len(choose(known(same), np.full(40, 10.0), np.ones(40), 1e6, 7)) == 7
