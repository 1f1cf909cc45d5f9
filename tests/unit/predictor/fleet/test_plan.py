"""The cheapest plan: what it must hold, and that trying everything out finds nothing cheaper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from predictor.fleet.deployment import greedy
from predictor.fleet.patterns import patterns_of
from predictor.fleet.plan import Plan, Problem, growth, served_share, solve
from predictor.fleet.replicas import Replica

from .conftest import machine, problem, replica

SEEDS = range(24)
MOST = 3


def held(asked: Problem, plan: Plan) -> None:
    """Every load is served whole, no device is over its time, and places have their devices."""
    assert plan.shares.sum(axis=0) == pytest.approx(np.ones(len(asked.rates)), abs=1e-6)
    for place in range(len(asked.patterns)):
        busy = sum(
            plan.shares[place, one.load] * (asked.busy(place, one.load) or 0.0)
            for one in asked.patterns[place].replicas
        )
        assert busy <= asked.utilisation * plan.places[place] + 1e-6
    for hardware in {one.hardware for one in asked.patterns}:
        needed = sum(n * p.width for n, p in zip(plan.places, asked.patterns, strict=True) if p.hardware == hardware)
        there = sum(n * m.devices for n, m in zip(plan.machines, asked.machines, strict=True) if m.hardware == hardware)
        assert needed <= there
    assert plan.usd_per_hour == pytest.approx(
        sum(n * m.usd_per_hour for n, m in zip(plan.machines, asked.machines, strict=True))
    )


def tried_out(world: Any) -> float | None:
    """The least cost over every choice of up to MOST machines and of what stands on each, by linear programs."""
    sets: dict[str, list[tuple[Replica, ...]]] = {}
    for one in world.machines:
        here = [r for r in world.replicas if r.hardware == one.hardware]
        by_load = [[None, *(r for r in here if r.load == load)] for load in range(world.loads)]
        sets[one.hardware] = [
            chosen for options in itertools.product(*by_load)
            if (chosen := tuple(r for r in options if r)) and sum(r.memory_bytes for r in chosen) <= world.rooms[one.hardware]
        ]  # fmt: skip
    best: float | None = None
    for count in range(1, MOST + 1):
        for kinds in itertools.combinations_with_replacement(world.machines, count):
            cost = sum(one.usd_per_hour for one in kinds)
            if best is not None and cost >= best:
                continue
            if any(served(world, standing) for standing in itertools.product(*(sets[one.hardware] for one in kinds))):
                best = cost
    return best


def served(world: Any, standing: tuple[tuple[Replica, ...], ...]) -> bool:
    places = [(at, one) for at, here in enumerate(standing) for one in here]
    if {one.load for _, one in places} != set(range(world.loads)):
        return False
    busy = np.zeros((len(standing), len(places)))
    share = np.zeros((world.loads, len(places)))
    for column, (at, one) in enumerate(places):
        busy[at, column] = world.rates[one.load] / one.rates[0]
        share[one.load, column] = 1.0
    found = linprog(
        np.zeros(len(places)), A_ub=busy, b_ub=np.full(len(standing), world.utilisation + 1e-9), A_eq=share,
        b_eq=np.ones(world.loads),
    )  # fmt: skip
    return bool(found.status == 0)


def small_enough(small: Callable[[int], Any]) -> Iterator[Any]:
    """Worlds whose plans need few machines and have few ways to stand."""
    for seed in SEEDS:
        world = small(seed)
        if len(world.replicas) <= 6:
            yield world


def test_trying_everything_out_finds_nothing_cheaper(small: Callable[[int], Any]) -> None:
    compared = 0
    for world in small_enough(small):
        plan = solve(world.problem(most=MOST))
        best = tried_out(world)
        assert (plan is None) == (best is None)
        if plan is not None and best is not None:
            assert plan.proven
            assert plan.usd_per_hour == pytest.approx(best, abs=1e-6)
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_serves_all_within_its_limits_and_is_never_dearer_than_greedy(
    small: Callable[[int], Any], seed: int
) -> None:
    world = small(seed)
    asked = world.problem()
    plan = solve(asked)
    if plan is None:
        assert any(not [r for r in world.replicas if r.load == load and r.memory_bytes <= world.rooms[r.hardware]]
                   for load in range(world.loads))  # fmt: skip
        return
    held(asked, plan)
    simple = greedy(asked, world.replicas, world.rooms)
    assert simple is not None
    assert plan.usd_per_hour <= simple.usd_per_hour + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_looser_limits_never_cost_more(small: Callable[[int], Any], seed: int) -> None:
    world = small(seed)
    plan = solve(world.problem(utilisation=0.5))
    if plan is None:
        return
    roomy = {name: 2 * (room or 0.0) for name, room in world.rooms.items()}
    easier = [
        world.problem(utilisation=0.9),
        problem(world.rates, world.machines, world.replicas, roomy, utilisation=0.5),
    ]
    for asked in easier:
        other = solve(asked)
        assert other is not None
        assert other.usd_per_hour <= plan.usd_per_hour + 1e-6
    alone = solve(world.problem(utilisation=0.5, together=False))
    assert alone is not None
    assert alone.usd_per_hour >= plan.usd_per_hour - 1e-6


def test_two_small_models_share_one_machine_and_a_large_one_has_its_own() -> None:
    replicas = [replica(0, "a", 10.0, 2.0), replica(1, "a", 10.0, 2.0), replica(2, "a", 10.0, 5.0)]
    asked = problem((3.0, 3.0, 3.0), [machine("a", 1.0)], replicas, {"a": 6.0})
    plan = solve(asked)
    assert plan is not None
    held(asked, plan)
    assert plan.usd_per_hour == 2.0
    standing = [tuple(np.flatnonzero(row).tolist()) for row in plan.shares if row.any()]
    assert sorted(standing) == [(0, 1), (2,)]


def test_of_plans_of_the_same_cost_the_one_with_fewer_machines_is_taken_then_by_name() -> None:
    machines = [machine("a", 1.0), machine("b", 2.0), machine("c", 2.0)]
    replicas = [replica(0, "a", 1.0), replica(0, "b", 2.0), replica(0, "c", 2.0)]
    plan = solve(problem((2.0,), machines, replicas, dict.fromkeys("abc", 4.0)))
    assert plan is not None
    assert plan.machines.tolist() == [0.0, 1.0, 0.0]


def test_a_replica_over_four_devices_needs_them_in_one_machine() -> None:
    machines = [machine("a", 1.0, devices=1), machine("a", 6.0, devices=4)]
    plan = solve(problem((1.0,), machines, [replica(0, "a", 1.0, width=4)], {"a": 4.0}))
    assert plan is not None
    assert plan.machines.tolist() == [0.0, 1.0]
    eight = solve(problem((2.0,), machines, [replica(0, "a", 1.0, width=4)], {"a": 4.0}))
    assert eight is not None
    assert eight.machines.tolist() == [0.0, 2.0]


def test_what_there_is_limits_a_plan_and_the_share_that_could_be_served_is_told() -> None:
    few = problem((10.0,), [machine("a", 1.0, available=3)], [replica(0, "a", 2.0)], {"a": 4.0})
    assert solve(few) is None
    assert served_share(few) == pytest.approx(0.6)
    most = problem((10.0,), [machine("a", 1.0)], [replica(0, "a", 2.0)], {"a": 4.0}, most=3)
    assert solve(most) is None
    assert served_share(most) == pytest.approx(0.6)


def test_what_is_left_on_the_machines_is_told_for_each_load_and_for_all() -> None:
    replicas = [replica(0, "a", 10.0), replica(1, "a", 5.0)]
    asked = problem((2.0, 1.0), [machine("a", 1.0)], replicas, {"a": 4.0}, utilisation=0.8)
    plan = solve(asked)
    assert plan is not None
    # 0.2 and 0.2 of 0.8 are in use.
    assert growth(asked, plan, 0) == pytest.approx(3.0)
    assert growth(asked, plan, 1) == pytest.approx(3.0)
    assert growth(asked, plan, None) == pytest.approx(2.0)


def test_where_memory_is_not_known_a_replica_stands_alone() -> None:
    replicas = [replica(0, "a", 10.0, None), replica(1, "a", 10.0, 1.0)]
    plan = solve(problem((1.0, 1.0), [machine("a", 1.0)], replicas, {"a": 8.0}))
    assert plan is not None
    assert plan.usd_per_hour == 2.0
    unknown_room = solve(
        problem((1.0, 1.0), [machine("a", 1.0)], [replica(0, "a", 9.0), replica(1, "a", 9.0)], {"a": None})
    )
    assert unknown_room is not None
    assert unknown_room.usd_per_hour == 2.0


def test_a_smaller_slower_replica_is_chosen_where_it_saves_a_machine() -> None:
    replicas = [
        replica(0, "a", 100.0, 6.0, batch=32), replica(0, "a", 20.0, 2.0, batch=1),
        replica(1, "a", 100.0, 6.0, batch=32), replica(1, "a", 20.0, 2.0, batch=1),
    ]  # fmt: skip
    asked = problem((5.0, 5.0), [machine("a", 1.0)], replicas, {"a": 8.0})
    plan = solve(asked)
    assert plan is not None
    assert plan.usd_per_hour == 1.0
    held(asked, plan)


@pytest.mark.parametrize("rate", [1e-9, 1e-4, 1e4, 1e7])
def test_tiny_and_huge_loads_are_served(rate: float) -> None:
    asked = problem((rate, 1.0), [machine("a", 1.0)], [replica(0, "a", 10.0), replica(1, "a", 10.0)], {"a": 4.0})
    plan = solve(asked)
    assert plan is not None
    held(asked, plan)
    assert plan.machines[0] == max(1.0, np.ceil(rate / 10 + 0.1))


def test_places_wider_than_one_device_use_whole_multiples_of_a_machine() -> None:
    plan = solve(problem((2.0,), [machine("a", 3.0, devices=3)], [replica(0, "a", 1.0, width=2)], {"a": 4.0}))
    assert plan is not None
    # Two places of two devices: a machine of three holds one.
    assert plan.machines.tolist() == [2.0]


def test_patterns_are_those_that_cannot_be_bettered() -> None:
    replicas = [
        replica(0, "a", 9.0, 3.0, batch=8), replica(0, "a", 5.0, 1.0), replica(1, "a", 9.0, 3.0, batch=8),
        replica(1, "a", 5.0, 1.0), replica(2, "a", 2.0, 1.0),
    ]  # fmt: skip
    shared = [one for one in patterns_of(replicas, {"a": 5.0}, 0) if len(one.replicas) > 1]
    standing = sorted(tuple(one.rates[0] for one in pattern.replicas) for pattern in shared)
    assert standing == [(5.0, 9.0, 2.0), (9.0, 5.0, 2.0)]
