"""Choosing a deployment."""

import numpy as np
import pytest

from predictor.choosing.rule import Belief, Beliefs, Rule, decide
from predictor.choosing.work import Need, Work

NEED = Need(ttft_s=1.0, tpot_s=0.05, users=100)


def test_who_knows_everything_takes_what_costs_least(work: Work, told: Beliefs) -> None:
    chosen, ranked = decide(work, told, NEED, Rule())
    assert (work.machines[work.machine[chosen]], work.concurrency[chosen]) == ("1 × dear", 100)
    assert [work.machines[work.machine[load]] for load in ranked] == ["1 × dear", "1 × cheap"]


def test_with_few_users_the_cheap_machine_does(work: Work, told: Beliefs) -> None:
    chosen, _ = decide(work, told, Need(ttft_s=1.0, tpot_s=0.05, users=10), Rule())
    assert (work.machines[work.machine[chosen]], work.deployment[chosen]) == ("1 × cheap", 0)


def test_a_deployment_that_serves_more_also_serves_fewer(work: Work, told: Beliefs) -> None:
    slow_alone = told.ttft.mean.copy()
    slow_alone[6] = np.log(50.0)
    beliefs = Beliefs(ttft=Belief(mean=slow_alone, covariance=told.ttft.covariance), tpot=told.tpot)
    chances = Rule().chances(work, beliefs, NEED)
    assert chances[6] == chances[8] > 0.9
    assert chances[2] < 0.1


def test_caution_pays_for_a_better_chance(work: Work) -> None:
    unsure = Beliefs(
        ttft=Belief(mean=np.log(work.ttft_s), covariance=1.0 * np.eye(9)),
        tpot=Belief(mean=np.log(work.tpot_s), covariance=0.05 * np.eye(9)),
    )
    costs = [work.costs(100)[decide(work, unsure, NEED, Rule(caution=one))[0]] for one in (0.1, 1.0, 5.0, 50.0)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_a_least_chance_forbids_what_is_below_it_while_something_is_above(work: Work, told: Beliefs) -> None:
    careless = Rule(caution=0.0)
    assert work.concurrency[decide(work, told, NEED, careless)[0]] == 100
    assert decide(work, told, NEED, careless)[0] == 2
    assert decide(work, told, NEED, Rule(caution=0.0, least=0.5))[0] == 8


def test_a_check_finds_out_that_the_first_choice_fails(work: Work) -> None:
    hopeful = np.log(work.ttft_s).copy()
    hopeful[2] = np.log(0.1)
    tpot = np.log(work.tpot_s).copy()
    tpot[2] = np.log(0.01)
    beliefs = Beliefs(
        ttft=Belief(mean=hopeful, covariance=0.05 * np.eye(9)), tpot=Belief(mean=tpot, covariance=0.05 * np.eye(9))
    )
    assert decide(work, beliefs, NEED, Rule())[0] == 2
    assert decide(work, beliefs, NEED, Rule(), checks=1)[0] == 8


def test_copies_are_whole(work: Work) -> None:
    assert work.copies(101).tolist() == [101, 11, 2] * 3
    assert work.costs(101)[8] == pytest.approx(12.0)
