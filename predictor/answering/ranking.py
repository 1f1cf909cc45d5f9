"""From options to an order: what the constraints leave out, what is best, what may stand first, what nothing beats, and picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

from domain.answers import Exclusion, Pick, RankedOption
from domain.vocabulary import BASES
from predictor.answering.constraints import SEEN, Constraint, constraints_of
from predictor.answering.objective import Objective, better, cautious, value_of
from predictor.answering.option import Option
from predictor.answering.question import Question

__all__ = [
    "best_of_each",
    "constrained",
    "evidence_first",
    "front_axes",
    "has_evidence",
    "ordered",
    "picks_of",
    "undominated",
]

CLEAR, TOSS_UP = 0.9, 0.7
"""A pick is clear where it beats the next device with at least the first probability, a toss-up below the second."""
SURE = 0.95
"""An estimate without evidence stands before one with it only where it is better with this probability."""

_MISSING = {
    "cost": ("no price", "publish a price for this device, or import a price list"),
    "energy": ("no energy figure", "only measurements with a power meter say it"),
    "memory": ("no memory figure", "measure it there"),
    "latency": ("no latency at this percentile", "the samples do not support it; a longer run does"),
    "throughput": ("no throughput", "measure it there"),
}


def constrained(options: Sequence[Option], question: Question) -> tuple[list[Option], list[tuple[Option, Exclusion]]]:
    """Return the options that meet every constraint, and the others with the first rule that each breaks."""
    constraints = constraints_of(question)
    kept: list[Option] = []
    left: list[tuple[Option, Exclusion]] = []
    for option in options:
        broken = _broken(option, question, constraints)
        if broken is None:
            kept.append(option)
            continue
        rule, detail = broken
        left.append(
            (
                option,
                Exclusion(
                    hardware=option.hardware,
                    platform=option.platform,
                    precision=option.precision,
                    batch_size=option.batch_size,
                    rule=rule,
                    detail=detail,
                    evidence=option.evidence[:5],
                    variant=option.variant.model if option.variant else None,
                ),
            )
        )
    return kept, left


def _broken(option: Option, question: Question, constraints: Sequence[Constraint]) -> tuple[str, str] | None:
    names = (question.objective,) if isinstance(question.objective, str) else question.objective
    for name in names:
        if value_of(option, name) is None:
            return _MISSING[name]
    for constraint in constraints:
        why_not = _unmet(option, constraint, question.confidence)
        if why_not is not None:
            return constraint.name, why_not
    return None


def _unmet(option: Option, constraint: Constraint, confidence: float) -> str | None:
    """Why an option is left out: what was measured is judged by its value, what was not by its probability."""
    figure = constraint.of(option)
    if constraint.over(figure.value) > 1.0:
        return constraint.describe(option)
    if option.basis in SEEN:
        return None
    chance = constraint.chance(option, figure)
    if chance is None:
        existing = figure.value is not None
        return f"{constraint.describe(option)}{', without an interval that says how sure it is' if existing else ''}"
    if chance < confidence:
        return f"{constraint.describe(option)}, met with a probability of {chance:.0%} only"
    return None


def ordered(options: Sequence[Option], objective: Objective) -> list[Option]:
    """Return the options best first; equal ones by evidence, then by name, so that the order is always the same."""
    return sorted(
        options,
        key=lambda item: (
            cautious(item, objective),
            BASES.index(item.basis),
            item.hardware,
            item.platform,
            item.precision,
            item.batch_size or 0,
            item.count,
            item.compiled,
            item.key or "",
        ),
    )


def best_of_each(ranked: Sequence[Option]) -> list[Option]:
    """Return the first option of each hardware: of the model itself, and of its variants where one stands before it."""
    best: dict[tuple[str, bool], Option] = {}
    for option in ranked:
        compressed = option.variant is not None
        if not compressed or (option.hardware, False) not in best:
            best.setdefault((option.hardware, compressed), option)
    return list(best.values())


def evidence_first(ranked: Sequence[Option], objective: Objective, measured_on: Container[str]) -> list[Option]:
    """Return the options with one in the first place that has evidence, where there is one.

    Evidence is a figure that somebody saw, or an interval whose unfavourable end measurements support. An estimate without,
    such as one from specifications alone, is first only on a device that somebody measured with any model, and only where
    it is surely better than the best that has evidence; that one then stands beside it, in the second place.
    """
    if not ranked or has_evidence(ranked[0]):
        return list(ranked)
    best = next((option for option in ranked if has_evidence(option)), None)
    known = next((option for option in ranked if option.hardware in measured_on), None)
    if best is None:
        if known is None or (better(ranked[0], known, objective) or 0.0) >= SURE:
            return list(ranked)
        first = [known]
    elif known is not None and (better(known, best, objective) or 0.0) >= SURE:
        first = [known, best]
    else:
        first = [best]
    chosen = {id(option) for option in first}
    return [*first, *(option for option in ranked if id(option) not in chosen)]


def has_evidence(option: Option) -> bool:
    """Whether somebody saw the figure, or measurements support what it is ranked by."""
    return option.basis in SEEN or option.covered or option.bounded


def front_axes(options: Sequence[Option]) -> tuple[str, str]:
    """Return the two objectives that trade against each other: latency, and cost where there are prices, else throughput."""
    priced = any(option.usd_per_million is not None for option in options)
    return "latency", "cost" if priced else "throughput"


def undominated(options: Sequence[Option], axes: tuple[str, str]) -> list[Option]:
    """Return the Pareto front: the options that no other beats on both axes, by the first; O(n log n)."""
    values: list[tuple[float, float, Option]] = []
    signs = [-1.0 if axis == "throughput" else 1.0 for axis in axes]
    for option in options:
        first, second = value_of(option, axes[0]), value_of(option, axes[1])
        if first is not None and second is not None:
            values.append((signs[0] * first, signs[1] * second, option))
    front: list[Option] = []
    least = float("inf")
    for _, second, option in sorted(values, key=lambda item: item[:2]):
        if second < least:
            least = second
            front.append(option)
    return front


def picks_of(
    ranked: Sequence[Option], first: Option | None, objective: Objective, entry: Callable[[Option], RankedOption]
) -> list[Pick]:
    """Return the picks among options that meet what is asked.

    `ranked` is every option, best first by the question's objective; `first` is what the answer ranks first; `entry`
    makes the document of an option. A pick that nothing supports is absent: the cheapest without prices, the best
    measured without measurements. One option may be several picks.
    """
    if first is None:
        return []
    speed: Objective = "throughput" if objective == "throughput" else "latency"
    seen = [option for option in ranked if option.basis == "measured"]
    seen = seen or [option for option in ranked if option.basis in SEEN]
    chosen: list[tuple[str, Option | None, Objective, Sequence[Option]]] = [
        ("fastest", first if objective == speed else _best(ranked, speed), speed, ranked),
        ("cheapest", first if objective == "cost" else _best(ranked, "cost"), "cost", ranked),
        ("best_measured", next(iter(seen), None), objective, seen),
    ]
    return [
        _pick(name, option, by, _best([item for item in rivals if item.hardware != option.hardware], by), entry)
        for name, option, by, rivals in chosen
        if option is not None
    ]


def _best(options: Sequence[Option], objective: Objective) -> Option | None:
    """Return the option that is best at its unfavourable end, of those with evidence where there are any."""
    for chosen in ([option for option in options if has_evidence(option)], options):
        usable = [(value, option) for option in chosen if (value := value_of(option, objective))]
        if usable:
            return _least(usable, objective)
    return None


def _least(usable: list[tuple[float, Option]], objective: Objective) -> Option:
    """Return the option with the least `cautious` figure; what is worse by its value alone is not looked at."""
    sign = -1.0 if objective == "throughput" else 1.0
    usable.sort(key=lambda item: (sign * item[0], item[1].hardware, item[1].platform, item[1].precision))
    best, least = usable[0][1], cautious(usable[0][1], objective)
    for value, option in usable[1:]:
        # An unfavourable end is never better than the value itself.
        if isinstance(objective, str) and sign * math.log(value) >= least:
            break
        worst = cautious(option, objective)
        if worst < least:
            best, least = option, worst
    return best


def _pick(
    name: str, option: Option, objective: Objective, other: Option | None, entry: Callable[[Option], RankedOption]
) -> Pick:
    chance = None if other is None else better(option, other, objective)
    confidence = None
    if chance is not None:
        confidence = "clear" if chance >= CLEAR else "likely" if chance >= TOSS_UP else "toss-up"
    return Pick(
        name=name,
        option=entry(option),
        confidence=confidence,
        probability=None if chance is None else round(chance, 4),
        next_hardware=None if other is None else other.hardware,
    )
