"""Drift: the predictor in force misses more of its intervals than it promised, and not by chance.

What is counted are its newest answers whose intervals measurement supports. A model on a device counts once, by its newest
score: ten batch sizes of one model are not ten independent misses. The count is held against the promise by a one-sided
binomial test. It is looked at again with every measurement, so that the bar is far below a usual level: at 1 % a predictor
that keeps its promise would raise the flag in 10 of 100 series of 200 looks, at `CHANCE` it does in 2 (docs/adr/0009).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from predictor.live.scored_predictions import Scored

__all__ = ["CHANCE", "WINDOW", "Drift", "drift", "lower_tail"]

WINDOW = 60
CHANCE = 0.001
EVIDENCE = 20


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a predictor drifts, in a sentence and in figures, and on what that rests.

    `held` of `scored` intervals held what was measured, where a share `promised` should; `chance` is how often that few
    or fewer would come of chance alone. `evidence` are the newest misses: event ids of answers and measurements.
    """

    flag: bool
    said: str
    predictor: str
    scored: int
    held: int
    promised: float | None = None
    chance: float | None = None
    newest_position: int | None = None
    evidence: list[dict[str, Any]] = []


def drift(scored: Iterable[Scored], predictor: str) -> Drift:
    """Return whether the predictor of this digest drifts, by scores in the order of their measurements."""
    newest: dict[tuple[str, str, str], Scored] = {}
    for item in scored:
        if item.predictor == predictor and item.supported and item.within is not None and item.interval:
            newest.pop((item.target, item.model, item.hardware), None)
            newest[item.target, item.model, item.hardware] = item
    taken = list(newest.values())[-WINDOW:]
    if not taken:
        return Drift(
            flag=False,
            said="No answer of the predictor in force, with an interval that measurement supports, was measured yet.",
            predictor=predictor,
            scored=0,
            held=0,
        )
    promised = min(entry.interval for entry in taken if entry.interval)
    misses = [entry for entry in taken if not entry.within]
    held = len(taken) - len(misses)
    chance = lower_tail(held, len(taken), promised)
    flag = chance < CHANCE
    return Drift(
        flag=flag,
        said=_said(flag, held, len(taken), promised, chance),
        predictor=predictor,
        scored=len(taken),
        held=held,
        promised=promised,
        chance=float(f"{chance:.3g}"),
        newest_position=taken[-1].measured_position,
        evidence=[_miss(miss) for miss in reversed(misses[-EVIDENCE:])],
    )


def lower_tail(held: int, scored: int, promised: float) -> float:
    """Return the chance of `held` or fewer successes in `scored` draws that succeed with the chance `promised`."""
    return math.fsum(
        math.comb(scored, count) * promised**count * (1 - promised) ** (scored - count) for count in range(held + 1)
    )


def _said(flag: bool, held: int, scored: int, promised: float, chance: float) -> str:
    counted = (
        f"The intervals held {held} of the last {scored} models on a device that were measured ({held / scored:.0%}; "
        f"{promised:.0%} is promised)"
    )
    if flag:
        return f"Drift: {counted}. So few would come of chance in {chance:.2g} of cases. Train again: assay train."
    return f"No drift: {counted}."


def _miss(item: Scored) -> dict[str, Any]:
    named = ("target", "model", "hardware", "platform", "precision", "basis", "predicted", "low", "high", "measured")
    document = {name: getattr(item, name) for name in named}
    return {**document, "prediction": item.event_id, "measurement": item.measured_event_id}
