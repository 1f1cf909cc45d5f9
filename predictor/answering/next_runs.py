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
    question: Question, known: Known, ranked: Sequence[Option], excluded: Sequence[Exclusion]
) -> list[dict[str, Any]]:
    """Return at most three commands, each with why and the `probability` that it changes what stands first.

    The probability is None where a trace or samples are missing, without which nothing can be said.
    """
    found: list[dict[str, Any]] = []
    if known.trace is None and known.served is None:
        found.append(_run(f"assay bench {known.model}", "traces the model, so that it can be predicted", None))
    if question.percentile != "p50" and any(one.rule == "no latency at this percentile" for one in excluded):
        command = f"{first_command(known, question)} --percentile {question.percentile}"
        found.append(_run(command, f"takes the samples that {question.percentile} needs", None))
    found += _rivals(question, known, ranked)
    unique: dict[str, dict[str, Any]] = {}
    for one in found:
        unique.setdefault(one["command"], one)
    return list(unique.values())[:MOST]


def _rivals(question: Question, known: Known, ranked: Sequence[Option]) -> list[dict[str, Any]]:
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
    rivals.sort(key=lambda one: (one[1] is not first, -(one[0] or 0.0)))
    return [
        _run(
            command_of(known, option, question.mode),
            f"{why}; run {_where(known, option)}",
            None if chance is None else round(chance, 4),
        )
        for chance, option, why in rivals
    ]


def _other(first: Option, ranked: Sequence[Option]) -> Option | None:
    """The best on another device, platform or precision: another batch of the same is no other decision."""
    cell = (first.hardware, first.platform, first.precision)
    return next((one for one in ranked[1:] if (one.hardware, one.platform, one.precision) != cell), None)


def _where(known: Known, option: Option) -> str:
    return "it here" if option.hardware in known.own else f"it on {option.hardware}"


def _run(command: str, why: str, probability: float | None) -> dict[str, Any]:
    return {"command": command, "why": why, "probability": probability}
