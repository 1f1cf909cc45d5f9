"""Machines that another betters are left out, and no plan loses by it."""

from __future__ import annotations

import numpy as np
import pytest

from predictor.fleet.deployment import worth_having
from predictor.fleet.plan import solve

from .conftest import machine, problem, replica

ROOMS: dict[str, float | None] = {"a": 4.0, "b": 4.0, "c": 2.0}


def kept(machines: list, replicas: list, most: int | None = None) -> list[str]:
    return [one.name for one in worth_having(machines, replicas, ROOMS, most)]


def test_what_is_slower_for_more_money_is_left_out() -> None:
    machines = [machine("a", 1.0), machine("b", 1.5)]
    assert kept(machines, [replica(0, "a", 2.0), replica(0, "b", 1.0)]) == ["cloud:1xa"]
    assert kept(machines, [replica(0, "a", 2.0), replica(0, "b", 3.0)]) == ["cloud:1xa", "cloud:1xb"]


def test_what_serves_another_load_or_holds_more_stays() -> None:
    machines = [machine("a", 1.0), machine("b", 1.5), machine("c", 0.5)]
    assert kept(machines[:2], [replica(0, "a", 2.0), replica(1, "b", 1.0)]) == ["cloud:1xa", "cloud:1xb"]
    # c is cheaper and as fast, and has half the memory.
    assert kept([machines[0], machines[2]], [replica(0, "a", 2.0), replica(0, "c", 2.0)]) == ["cloud:1xa", "cloud:1xc"]


def test_of_the_same_device_the_dearer_machine_is_left_out_unless_only_so_many_are_allowed() -> None:
    machines = [machine("a", 1.0), machine("a", 5.0, devices=4)]
    replicas = [replica(0, "a", 2.0)]
    assert kept(machines, replicas) == ["cloud:1xa"]
    assert kept(machines, replicas, most=1) == ["cloud:1xa", "cloud:4xa"]
    wide = [*replicas, replica(0, "a", 9.0, width=4)]
    assert kept(machines, wide) == ["cloud:1xa", "cloud:4xa"]


def test_what_there_are_only_some_of_betters_nothing() -> None:
    machines = [machine("a", 0.1, available=1), machine("b", 1.5)]
    assert kept(machines, [replica(0, "a", 2.0), replica(0, "b", 1.0)]) == ["cloud:1xa", "cloud:1xb"]


@pytest.mark.parametrize("seed", range(20))
def test_no_plan_loses_by_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    machines = [machine(name, round(float(draw.uniform(0.5, 2.0)), 2)) for name in "abc"]
    replicas = [
        replica(load, name, float(draw.choice([1.0, 2.0])), float(draw.choice([1.0, 2.0])), batch=batch)
        for load in (0, 1)
        for name in "abc"
        for batch in (1, 8)
    ]
    rates = (float(draw.uniform(0.2, 3.0)), float(draw.uniform(0.2, 3.0)))
    whole = solve(problem(rates, machines, replicas, ROOMS))
    worth = worth_having(machines, replicas, ROOMS, None)
    names = {one.hardware for one in worth}
    part = solve(problem(rates, worth, [one for one in replicas if one.hardware in names], ROOMS))
    assert whole is not None
    assert part is not None
    assert part.usd_per_hour == pytest.approx(whole.usd_per_hour)
