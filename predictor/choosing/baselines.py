"""Rules of thumb to compare with: each only names a machine.

How many copies of it are bought is then taken from what it was measured to serve, which no one who follows the rule would
know: it speaks for the rule. A machine that cannot meet the need in any number fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from predictor.choosing.scores import Outcome
from predictor.choosing.work import Need, Work
from predictor.features.table import Array

__all__ = ["like_another", "named", "of_random"]


def named(work: Work, need: Need, order: Sequence[int]) -> Outcome:
    """Return what comes of a rule that ranks machines (their numbers, best first) and takes the first."""
    costs = work.cheapest(need)
    best = costs.min()
    met = bool(np.isfinite(costs[order[0]]))
    hits = [bool(costs[machine] <= best) for machine in order[:3]]
    return Outcome(
        model=work.model,
        met=met,
        exact=met,
        overspend=float(costs[order[0]] / best) - 1 if met else None,
        top_1=hits[0],
        top_3=any(hits),
    )


def of_random(work: Work, need: Need) -> list[Outcome]:
    """Return what comes of each machine, were it taken: their mean is what a random choice is worth."""
    count = len(work.machines)
    return [named(work, need, [*range(first, count), *range(first)]) for first in range(count)]


def like_another(work: Work, need: Need, others: Sequence[Work], near: Callable[[Work], float]) -> list[int]:
    """Return the machines in the order of what they cost for the nearest other work that was measured on two of them.

    Machines that the other work was not measured on come last, in the order of their names.
    """
    shared: list[tuple[float, Array]] = []
    for other in others:
        costs = dict(zip(other.machines, other.cheapest(need).tolist(), strict=True))
        here = np.array([costs.get(name, np.inf) for name in work.machines])
        if sum(name in costs for name in work.machines) >= 2 and np.isfinite(here).any():
            shared.append((near(other), here))
    if not shared:
        return list(range(len(work.machines)))
    _, costs_here = min(shared, key=lambda item: item[0])
    return [int(index) for index in np.argsort(costs_here, kind="stable")]
