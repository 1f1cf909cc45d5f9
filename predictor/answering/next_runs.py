"""The runs that could change an answer: what is not measured and may be better than the first, or might not be as good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from predictor.answering.candidates import Exclusion
from predictor.answering.command import command_of, first_command
from predictor.answering.constraints import SEEN
from predictor.answering.context import Known
from predictor.answering.objective import better
from predictor.answering.option import Option
from predictor.answering.question import Question

__all__ = ["next_runs"]

WORTH = 0.05
"""A run that changes the answer with a smaller probability is not suggested."""
MOST = 3
LOOKED_AT = 50
"""Options below that rank are too far from the first to be worth a run."""


def next_runs(
    question: Question, context: Known, ranked: Sequence[Option], excluded: Sequence[Exclusion]
) -> list[dict[str, Any]]:
    """Return at most three commands, each with why and the `probability` that it changes what stands first.

    The probability is None where a trace or samples are missing, without which nothing can be said.
    """
    rows: list[dict[str, Any]] = []
    if context.trace is None and context.served is None:
        rows.append(_run(f"assay bench {context.model}", "traces the model, so that it can be predicted", None))
    if question.percentile != "p50" and any(entry.rule == "no latency at this percentile" for entry in excluded):
        command = f"{first_command(context, question)} --percentile {question.percentile}"
        rows.append(_run(command, f"takes the samples that {question.percentile} needs", None))
    rows += _rivals(question, context, ranked)
    unique: dict[str, dict[str, Any]] = {}
    for item in rows:
        unique.setdefault(item["command"], item)
    return list(unique.values())[:MOST]


def _rivals(question: Question, context: Known, ranked: Sequence[Option]) -> list[dict[str, Any]]:
    if not ranked:
        return []
    first = ranked[0]
    rivals: list[tuple[float | None, Option, str]] = []
    if first.basis not in SEEN:
        second = _other(first, ranked)
        chance = None if second is None else better(second, first, question.objective)
        rivals.append((chance, first, f"what stands first rests on {first.basis}"))
    for option in ranked[1:LOOKED_AT]:
        if option.basis in SEEN:
            continue
        chance = better(option, first, question.objective)
        if chance is not None and chance >= WORTH:
            rivals.append(
                (chance, option, f"{option.basis}, better than what stands first with a probability of {chance:.0%}")
            )
    # What stands first is measured first: all the others are compared with it.
    rivals.sort(key=lambda item: (item[1] is not first, -(item[0] or 0.0)))
    return [
        _run(
            command_of(context, option, question.mode),
            f"{why}; run {_where(context, option)}",
            None if chance is None else round(chance, 4),
        )
        for chance, option, why in rivals
    ]


def _other(first: Option, ranked: Sequence[Option]) -> Option | None:
    """The best on another device, platform or precision: another batch of the same is no other decision."""
    cell = (first.hardware, first.platform, first.precision)
    return next((item for item in ranked[1:] if (item.hardware, item.platform, item.precision) != cell), None)


def _where(context: Known, option: Option) -> str:
    return "it here" if option.hardware in context.own else f"it on {option.hardware}"


def _run(command: str, why: str, probability: float | None) -> dict[str, Any]:
    return {"command": command, "why": why, "probability": probability}
