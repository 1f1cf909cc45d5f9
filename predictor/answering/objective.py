"""What makes one option better than another: the figure of the objective, how sure it is, and who is likely better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from statistics import NormalDist

from predictor.answering.constraints import SEEN, Figure, spread_of, throughput
from predictor.answering.option import Option

__all__ = ["Objective", "better", "cautious", "figure_of", "tied", "value_of"]

Objective = str | Mapping[str, float]
"""A name of OBJECTIVES, or names with weights that add up to 1."""
UNBOUNDED = 10.0
"""How many times worse an estimate without an interval is taken to be."""
APART = 0.8
"""Spread of the log of how two devices compare by their specifications, under one software: 0.2 to 0.77 where published
tables have the same work on both, although each estimate alone is off by 0.3 to 1.0 (`python -m research.shared_errors`)."""
TOLD_APART = 0.8
"""Two estimates from specifications are told apart where one is better with this probability."""
_NORMAL = NormalDist()
_REACH = _NORMAL.inv_cdf(0.9)


def value_of(option: Option, objective: Objective) -> float | None:
    """Return the figure that the objective asks for, None where it is not known; of weighted ones their geometric mean.

    Latency in ms, throughput in items a second, cost in US dollars for a million items, energy in joules an item, memory
    in bytes.
    """
    if isinstance(objective, str):
        return _VALUES[objective](option)
    cost = _cost(option, objective)
    return None if cost is None else math.exp(cost)


def figure_of(option: Option, objective: str) -> Figure:
    """Return the figure of one objective with its interval."""
    return _FIGURES[objective](option)


def _latency(option: Option) -> Figure:
    return Figure(option.latency_ms, option.low_ms, option.high_ms)


def _memory(option: Option) -> Figure:
    return Figure(option.peak_memory_bytes, option.memory_low_bytes, option.memory_high_bytes)


def _energy(option: Option) -> Figure:
    # What is served has the energy of a request.
    items = option.batch_size if option.concurrency is None else 1
    value, low, high = (
        item / items if item is not None and items else None
        for item in (option.energy_j, option.energy_low_j, option.energy_high_j)
    )
    return Figure(value, low, high)


def _cost_per_million(option: Option) -> Figure:
    cost, rate = option.usd_per_million, throughput(option)
    if cost is None or not rate.value or not rate.low or not rate.high:
        return Figure(cost)
    return Figure(cost, cost * rate.value / rate.high, cost * rate.value / rate.low)


_FIGURES: dict[str, Callable[[Option], Figure]] = {
    "latency": _latency,
    "throughput": throughput,
    "cost": _cost_per_million,
    "energy": _energy,
    "memory": _memory,
}
_VALUES: dict[str, Callable[[Option], float | None]] = {
    "latency": attrgetter("latency_ms"),
    "throughput": attrgetter("throughput_per_s"),
    "cost": attrgetter("usd_per_million"),
    "energy": lambda option: _energy(option).value,
    "memory": attrgetter("peak_memory_bytes"),
}
"""The values alone, without their intervals: what thousands of options are compared by."""


def _cost(option: Option, objective: Objective) -> float | None:
    """The weighted log of what is to be small; a geometric mean has no need to know the units."""
    weights = {objective: 1.0} if isinstance(objective, str) else objective
    total = 0.0
    for name, weight in weights.items():
        value = figure_of(option, name).value
        if value is None or value <= 0:
            return None
        total += weight * (-math.log(value) if name == "throughput" else math.log(value))
    return total


def _spread(option: Option, objective: Objective) -> float | None:
    """The standard deviation of `_cost`. Figures of one option hang together, so that their spreads add up."""
    weights = {objective: 1.0} if isinstance(objective, str) else objective
    spreads = [spread_of(option, figure_of(option, name)) for name in weights]
    if any(spread is None for spread in spreads):
        return None
    return sum(weight * spread for weight, spread in zip(weights.values(), spreads, strict=True) if spread is not None)


def cautious(option: Option, objective: Objective) -> float:
    """Return what an option is ranked by, smaller is better: the unfavourable end of what was not measured.

    A prediction that may be three times too fast must not stand above a measurement by its luckiest figure.
    """
    if isinstance(objective, str):
        return _cautious(option, objective)
    return sum(weight * _cautious(option, name) for name, weight in objective.items())


def _cautious(option: Option, name: str) -> float:
    figure = figure_of(option, name)
    value, worst = figure.value, figure.low if name == "throughput" else figure.high
    if value is None or value <= 0:
        return math.inf
    slack = 1.0
    # The energy of a measured call may be an estimate: then it has an interval.
    if option.basis not in SEEN or (name == "energy" and option.energy_basis not in SEEN):
        if worst:
            slack = worst / value if worst > value else value / worst
        elif name not in ("memory", "energy"):
            slack = UNBOUNDED
    return math.log(slack / value if name == "throughput" else slack * value)


def better(option: Option, other: Option, objective: Objective) -> float | None:
    """Return the probability that `option` is better than `other`; None where a figure or its interval is not known.

    Two estimates from specifications err alike where the software is the same: what it makes of the work cancels, and the
    spread of their ratio is `APART`, however wide each interval is.
    """
    costs = _cost(option, objective), _cost(other, objective)
    spreads = _spread(option, objective), _spread(other, objective)
    if costs[0] is None or costs[1] is None or spreads[0] is None or spreads[1] is None:
        return None
    spread = math.hypot(spreads[0], spreads[1])
    if _err_alike(option, other, objective):
        spread = min(spread, APART)
    return _NORMAL.cdf((costs[1] - costs[0]) / max(spread, 1e-9))


def tied(item: Option, other: Option, objective: Objective) -> bool:
    """Whether two options are tied: each lies within the other's interval.

    Two estimates from specifications are tied where neither is better with a probability of `TOLD_APART`.
    """
    chance = better(item, other, objective)
    if chance is not None and _err_alike(item, other, objective):
        return 1 - TOLD_APART < chance < TOLD_APART
    first, second = (_span(option, objective) for option in (item, other))
    if first is None or second is None:
        return False
    return first[0] <= second[1] <= first[2] and second[0] <= first[1] <= second[2]


def _err_alike(option: Option, other: Option, objective: Objective) -> bool:
    """Whether both are estimates from specifications of a time (or what follows from one) under the same software."""
    return (
        option.method == other.method == "roofline"
        and objective in ("latency", "throughput", "cost")
        and (option.platform, option.runtime, option.compiled) == (other.platform, other.runtime, other.compiled)
    )


def _span(option: Option, objective: Objective) -> tuple[float, float, float] | None:
    """The logs of low, value and high of what is to be small; a figure without an interval is its value alone."""
    cost = _cost(option, objective)
    if cost is None:
        return None
    low = high = cost
    for name, weight in ({objective: 1.0} if isinstance(objective, str) else objective).items():
        figure = figure_of(option, name)
        if not figure.value or not figure.low or not figure.high:
            continue
        down, up = math.log(figure.low / figure.value), math.log(figure.high / figure.value)
        low += weight * (-up if name == "throughput" else down)
        high += weight * (-down if name == "throughput" else up)
    return low, cost, high
