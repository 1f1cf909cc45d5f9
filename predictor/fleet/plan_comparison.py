"""A plan beside others: what it would cost at the other ends of the intervals, and what the next best ways cost."""

from __future__ import annotations

from typing import Any

import msgspec

from predictor.fleet.candidate_replicas import Gathered
from predictor.fleet.patterns import patterns_of
from predictor.fleet.plan import Array, Plan, Problem, cheapest
from predictor.fleet.plan_document import figures
from predictor.fleet.replicas import ENDS

__all__ = ["alternatives", "ends"]

TOLD = 3


def ends(problem: Problem, plan: Plan, found: Gathered) -> dict[str, Any]:
    """Return the cost of the cheapest plan at each end of the throughputs' intervals; the plan is of the pessimistic."""
    told: dict[str, Any] = {ENDS[0]: figures(plan.usd_per_hour)}
    for end in (1, 2):
        asked = _with(problem, found, end=end)
        other = cheapest(asked)
        told[ENDS[end]] = None if other is None else figures(_cost(asked, other[0]))
    return told


def alternatives(problem: Problem, plan: Plan, found: Gathered) -> list[dict[str, Any]]:
    """Return the next best ways, cheapest first: without sharing devices, and of one kind of hardware alone."""
    ways: list[tuple[str, tuple[Array, float, bool] | None, Problem]] = []
    if any((row > 0).sum() > 1 for row in plan.shares):
        alone = _with(problem, found, together=False)
        ways.append(("no two models on one device", cheapest(alone), alone))
    used = {one.hardware for one, count in zip(problem.machines, plan.machines, strict=True) if count > 0}
    for hardware in sorted({one.hardware for one in problem.machines}):
        served = {one.load for one in found.replicas if one.hardware == hardware}
        if used != {hardware} and len(served) == len(problem.rates):
            single = msgspec.structs.replace(
                problem,
                machines=tuple(one for one in problem.machines if one.hardware == hardware),
                patterns=tuple(one for one in problem.patterns if one.hardware == hardware),
            )
            ways.append((f"only {hardware}", cheapest(single), single))
    told = [
        {
            "what": what,
            "usd_per_hour": figures(_cost(asked, other[0])),
            "dearer_by": figures(_cost(asked, other[0]) / plan.usd_per_hour - 1) if plan.usd_per_hour > 0 else None,
            "machines": {
                one.name: int(count) for one, count in zip(asked.machines, other[0], strict=True) if count > 0
            },
        }
        for what, other, asked in ways
        if other is not None
    ]
    return sorted(told, key=lambda one: (one["usd_per_hour"], one["what"]))[:TOLD]


def _cost(problem: Problem, machines: Array) -> float:
    return float(sum(count * one.usd_per_hour for one, count in zip(problem.machines, machines, strict=True)))


def _with(problem: Problem, found: Gathered, *, end: int = 0, together: bool = True) -> Problem:
    names = {one.hardware for one in problem.machines}
    replicas = [one for one in found.replicas if one.hardware in names]
    patterns = patterns_of(replicas, found.room_bytes, end, together=together)
    if together:
        patterns += problem.patterns
    return msgspec.structs.replace(problem, patterns=tuple(patterns), end=end)
