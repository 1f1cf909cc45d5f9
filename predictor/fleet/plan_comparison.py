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


def ends(problem: Problem, plan: Plan, result: Gathered) -> dict[str, Any]:
    """Return the cost of the cheapest plan at each end of the throughputs' intervals; the plan is of the pessimistic."""
    document: dict[str, Any] = {ENDS[0]: figures(plan.usd_per_hour)}
    for end in (1, 2):
        request = _with(problem, result, end=end)
        other = cheapest(request)
        document[ENDS[end]] = None if other is None else figures(_cost(request, other[0]))
    return document


def alternatives(problem: Problem, plan: Plan, result: Gathered) -> list[dict[str, Any]]:
    """Return the next best ways, cheapest first: without sharing devices, and of one kind of hardware alone."""
    ways: list[tuple[str, tuple[Array, float, bool] | None, Problem]] = []
    if any((row > 0).sum() > 1 for row in plan.shares):
        alone = _with(problem, result, together=False)
        ways.append(("no two models on one device", cheapest(alone), alone))
    used = {machine.hardware for machine, count in zip(problem.machines, plan.machines, strict=True) if count > 0}
    for hardware in sorted({machine.hardware for machine in problem.machines}):
        served = {replica.load for replica in result.replicas if replica.hardware == hardware}
        if used != {hardware} and len(served) == len(problem.rates):
            single = msgspec.structs.replace(
                problem,
                machines=tuple(machine for machine in problem.machines if machine.hardware == hardware),
                patterns=tuple(pattern for pattern in problem.patterns if pattern.hardware == hardware),
            )
            ways.append((f"only {hardware}", cheapest(single), single))
    document = [
        {
            "what": what,
            "usd_per_hour": figures(_cost(request, other[0])),
            "dearer_by": figures(_cost(request, other[0]) / plan.usd_per_hour - 1) if plan.usd_per_hour > 0 else None,
            "machines": {
                machine.name: int(count) for machine, count in zip(request.machines, other[0], strict=True) if count > 0
            },
        }
        for what, other, request in ways
        if other is not None
    ]
    return sorted(document, key=lambda item: (item["usd_per_hour"], item["what"]))[:TOLD]


def _cost(problem: Problem, machines: Array) -> float:
    return float(sum(count * machine.usd_per_hour for machine, count in zip(problem.machines, machines, strict=True)))


def _with(problem: Problem, result: Gathered, *, end: int = 0, together: bool = True) -> Problem:
    names = {machine.hardware for machine in problem.machines}
    replicas = [replica for replica in result.replicas if replica.hardware in names]
    patterns = patterns_of(replicas, result.room_bytes, end, together=together)
    if together:
        patterns += problem.patterns
    return msgspec.structs.replace(problem, patterns=tuple(patterns), end=end)
