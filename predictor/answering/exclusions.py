"""What was left out and why; and where nothing is left, what is closest, what contradicts what, and what would do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from domain.answers import ExcludedConfigurations, Exclusion, Reach
from predictor.answering.candidates import UNSUPPORTED
from predictor.answering.command import first_command
from predictor.answering.constraints import SEEN, Constraint, constraints_of
from predictor.answering.context import AnswerContext
from predictor.answering.objective import tied, value_of
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.ranking import has_evidence

__all__ = ["NO_ROOM", "abstention", "distance", "merged", "undecided", "within_reach"]

NO_ROOM = "does not fit in memory"
Left = Sequence[tuple[Option, Exclusion]]
FARTHEST, HALVINGS = 1e6, 40
"""How many times beyond an estimate a limit is looked for that it surely meets, and in how many steps."""


def merged(excluded: Sequence[Exclusion]) -> list[ExcludedConfigurations]:
    """Return one entry a device, platform, rule and variant; the detail is that of the closest: least over, else the first."""
    groups: dict[tuple[str, str | None, str, str | None], list[Exclusion]] = {}
    for item in excluded:
        groups.setdefault((item.hardware, item.platform, item.rule, item.variant), []).append(item)
    return [
        _merged(groups[key]) for key in sorted(groups, key=lambda key: (key[2], key[0], key[1] or "", key[3] or ""))
    ]


def _merged(items: Sequence[Exclusion]) -> ExcludedConfigurations:
    first = min(items, key=lambda item: math.inf if item.over is None else item.over)
    evidence: list[str] = []
    for item in items:
        evidence += [event for event in item.evidence if event not in evidence][:5]
    return ExcludedConfigurations(
        hardware=first.hardware,
        platform=first.platform,
        rule=first.rule,
        detail=first.detail,
        precisions=sorted({item.precision for item in items if item.precision is not None}),
        batch_sizes=sorted({item.batch_size for item in items if item.batch_size is not None}),
        evidence=evidence,
        variant=first.variant,
    )


def distance(option: Option, question: Question, constraints: Sequence[Constraint]) -> float:
    """Return how many times over the constraints an option is at worst; infinite where a figure is not known."""
    names = (question.objective,) if isinstance(question.objective, str) else question.objective
    if any(value_of(option, name) is None for name in names):
        return math.inf
    return max((constraint.excess(option) for constraint in constraints), default=1.0)


def within_reach(question: Question, left: Left) -> list[Reach]:
    """Return for each limit what it had to be for something to meet all of them, the others as they are.

    Each entry names a field, its limit, the value that would do, and the configuration that then does. Where no change of
    a single limit is enough, all that the closest option misses are named together.
    """
    constraints = constraints_of(question)
    alone = [
        document
        for constraint in constraints
        if (document := _relaxed(constraint, constraints, question, left)) is not None
    ]
    if alone or not constraints:
        return alone
    reachable = _told_apart(question, left, constraints)
    if not reachable:
        return []
    closest = reachable[0]
    return [
        _would_do(constraint, closest, question.confidence)
        for constraint in constraints
        if not _meets(closest, constraint, question)
    ]


def _told_apart(question: Question, left: Left, constraints: Sequence[Constraint]) -> list[Option]:
    """The options of which every figure is known, and how sure it is."""
    return [
        option
        for option, _ in left
        if distance(option, question, constraints) < math.inf
        and all(constraint.probability(option) is not None for constraint in constraints)
    ]


def _relaxed(constraint: Constraint, constraints: Sequence[Constraint], question: Question, left: Left) -> Reach | None:
    others = [item for item in constraints if item is not constraint]
    matching_told_apart = [
        option
        for option in _told_apart(question, left, constraints)
        if all(_meets(option, other, question) for other in others)
    ]
    if not matching_told_apart:
        return None
    return _would_do(constraint, min(matching_told_apart, key=constraint.excess), question.confidence)


def _meets(option: Option, constraint: Constraint, question: Question) -> bool:
    return constraint.excess(option) == 1.0 and (constraint.probability(option) or 0.0) >= question.confidence


def _would_do(constraint: Constraint, option: Option, confidence: float) -> Reach:
    return Reach(
        constraint=constraint.name,
        limit=constraint.limit,
        # Rounded away from the limit, so that the number shown is one that does.
        would_do=_rounded_out(_met_at(constraint, option, confidence), up=not constraint.at_least),
        hardware=option.hardware,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        concurrency=option.concurrency,
        basis=option.basis,
    )


def _met_at(constraint: Constraint, option: Option, confidence: float) -> float:
    """The limit nearest to what is asked that an option meets: by its value where that was seen, else surely enough."""
    figure = constraint.of(option)
    value = float(figure.value or 0.0)
    if figure.exact or option.basis in SEEN or value <= 0:
        return value
    near, far = 1.0, FARTHEST
    for _ in range(HALVINGS):
        factor = math.sqrt(near * far)
        limit = value / factor if constraint.at_least else value * factor
        sure = (constraint._replace(limit=limit).probability(option) or 0.0) >= confidence
        near, far = (near, factor) if sure else (factor, far)
    return value / far if constraint.at_least else value * far


def _rounded_out(value: float, *, up: bool) -> float:
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{(math.ceil(value / unit) if up else math.floor(value / unit)) * unit:.4g}")


def abstention(question: Question, context: AnswerContext, left: Left, excluded: Sequence[Exclusion]) -> str:
    """Return why nothing is recommended, in sentences with the closest that there is and what to do."""
    constraints = constraints_of(question)
    reachable = [(option, why) for option, why in left if distance(option, question, constraints) < math.inf]
    if reachable:
        option, why = reachable[0]
        over = distance(option, question, constraints)
        times = f"; {over:.3g} times over" if over > 1 else ""
        return (
            f"Nothing meets {why.rule}. The closest is {_what(option)}{option.platform} {option.precision}{_at(option)} "
            f"on {option.hardware} ({why.detail}{times}; {option.basis})."
        )
    if question.hardware == "own" and not context.own:
        return "No hardware of yours is known. Run `assay detect --post` or `assay bench` on it first."
    measure = f"Measure first: {first_command(context, question)}"
    tight = min((item for item in excluded if item.over is not None), key=lambda item: item.over or 0.0, default=None)
    if tight is not None and {item.rule for item in excluded} <= {NO_ROOM, "no specification"}:
        batch = "" if tight.batch_size is None else f" at batch {tight.batch_size}"
        return (
            f"Nothing fits in memory. The closest is {tight.platform} {tight.precision}{batch} on {tight.hardware}: "
            f"{tight.detail}, {tight.over:.3g} times what there is. `assay fit {context.model}` says what fits."
        )
    if excluded and all(item.rule == UNSUPPORTED for item in excluded):
        return f"Nothing that is asked for is supported: {'; '.join(sorted({str(item.detail) for item in excluded}))}."
    if excluded:
        rules = sorted({item.rule for item in excluded})
        return f"Every configuration is left out ({', '.join(rules)}). {measure}"
    if context.trace is None:
        return (
            "Nothing of this model was measured on what is asked, and without an operator trace nothing can be "
            f"predicted. {measure}"
        )
    return f"No device that is asked for runs this platform or precision. {measure}"


def _what(option: Option) -> str:
    return "" if option.variant is None else f"{option.variant.model} in "


def _at(option: Option) -> str:
    if option.concurrency is not None:
        return f" with {option.concurrency} requests at a time"
    return "" if option.batch_size is None else f" at batch {option.batch_size}"


def undecided(question: Question, context: AnswerContext, ranked: Sequence[Option]) -> str | None:
    """Return why the order is no recommendation: nothing checked the first, and another device is tied with it.

    Which devices are worse, and how many, changes nothing.
    """
    if not ranked or has_evidence(ranked[0]):
        return None
    best: dict[str, Option] = {}
    for option in ranked:
        best.setdefault(option.hardware, option)
    first = ranked[0]
    same = [name for name, option in best.items() if name != first.hardware and tied(first, option, question.objective)]
    if not same:
        return None
    others = same[0] if len(same) == 1 else f"{len(same)} of {len(best) - 1} other devices"
    return (
        f"{first.hardware} cannot be told from {others}: nothing of this kind was measured on it, and its interval "
        f"is unchecked. Measure first: {first_command(context, msgspec.structs.replace(question, platform=[ranked[0].platform], precision=[ranked[0].precision]))}"
    )
