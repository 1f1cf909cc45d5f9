"""The trial of a newcomer: trained without what is held out, it predicts that beside the predictor in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from domain.errors import AssayError
from ingest.projection import Tables
from predictor.answering.corrected_predictor import NEWEST, SHOTS
from predictor.answering.facts import known_at
from predictor.answering.option import SIZE_NAMES
from predictor.answering.question import PredictQuestion
from predictor.answering.recommendation import Known, answer
from predictor.artifact.artifact import Predictor, load_shipped
from predictor.features.dataset import Row
from predictor.live.scored_predictions import scored_at
from predictor.live.shadow import Case, Comparison, Given, compared, held_out, learnt_by, uncompared

__all__ = ["shots", "since", "tried"]

Fit = Callable[[Sequence[Row]], Predictor]
"""Train on these rows."""
Correct = Callable[[Predictor, Sequence[Row]], Predictor]
"""Return a predictor as it answers where these rows are in the tables."""


def tried(tables: Tables, rows: Sequence[Row], old: Predictor, fit: Fit, correct: Correct) -> Comparison:
    """Return whether a predictor trained on rows of these tables is not worse than `old` on rows that neither has seen.

    Both answer as they would be asked, corrected by what is in the tables but the rows held out, and by the trace alone:
    what was measured of the model itself is hidden from them.
    """
    met = {item.measured_event_id for item in scored_at(tables)}
    kept_back = held_out(rows, old.card, met, learnt_by(load_shipped().card))
    if not kept_back:
        return uncompared(
            "accepted without a comparison: there are no rows that the one in force has not seen", old.digest
        )
    hidden = {row.event_id for row in kept_back}
    shown = [row for row in rows if row.event_id not in hidden]
    sides = correct(old, shown), correct(fit(shown), shown)
    cases = [case for row in kept_back if (case := _case(tables, row, *sides)) is not None]
    return compared(cases, old.digest)


def since(predictor: Predictor, rows: Sequence[Row]) -> list[Row]:
    """Return the newest valid measurements of ours after a predictor's training, in their order, as `current` takes them."""
    ours = [row for row in rows if row.origin == "measured" and row.verdict == "valid"][-NEWEST:]
    return [row for row in ours if row.position > predictor.card.position]


def shots(rows: Sequence[Row]) -> list[Row]:
    """Return the newest rows of inference of each device, as `current` takes them to calibrate it."""
    by_device: dict[str, list[Row]] = {}
    for row in rows:
        if row.mode == "inference":
            by_device.setdefault(row.hardware, []).append(row)
    return [row for key in by_device.values() for row in key[-SHOTS:]]


def _case(tables: Tables, row: Row, old: Predictor, new: Predictor) -> Case | None:
    """Return what both say of a measured row; None where one of them says nothing, or speaks of other software."""
    if row.latency_ms is None or row.batch_size is None:
        return None
    question = PredictQuestion(
        model=row.model,
        hardware=row.hardware,
        platform=row.platform,
        precision=row.precision,
        batch_size=row.batch_size,
        mode=row.mode,
        concurrency=row.concurrency,
        **{name: getattr(row, name) for name in SIZE_NAMES},
    ).as_question()
    try:
        existing = known_at(tables, question, old, ())
    except AssayError:
        return None  # Without a trace nothing is predicted: such a row tells nothing of either.
    sides = [_given(row, question, existing, item) for item in (old, new)]
    if sides[0] is None or sides[1] is None:
        return None
    return Case(model=row.model, measured=row.latency_ms, old=sides[0], new=sides[1])


def _given(row: Row, question: Any, context: Known, predictor: Predictor) -> Given | None:
    blind = msgspec.structs.replace(context, rows=(), predictor=predictor)
    ranked = answer(question, blind, "")["ranked"]
    if not ranked or not _speaks_of(ranked[0], row):
        return None
    first = ranked[0]
    return Given(value=first["latency_ms"], low=first["latency_ms_low"], high=first["latency_ms_high"])


def _speaks_of(entry: dict[str, Any], row: Row) -> bool:
    """Whether an answer is about what was measured: the same sizes, and no other software."""
    return (
        entry["latency_ms"] is not None
        and entry["runtime"] in (None, row.runtime)
        and bool(entry["compiled"]) == row.compiled
        and ((entry["layout"] or "").lower() in ("nhwc", "channels_last")) == row.channels_last
        and all(entry.get(name) == getattr(row, name) for name in SIZE_NAMES)
    )
