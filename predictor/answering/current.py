"""The predictor as of a position: what was measured since it was trained corrects it, without training anew."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ingest.projection import Tables
from predictor.answering.facts import Devices, trace_from_row
from predictor.learning.artifact import Predictor
from predictor.learning.building import calibrations_of, few_rows
from predictor.learning.dataset import Row, row_from_table, training_rows
from predictor.learning.operators import SpecOf, tabulate
from predictor.learning.traces import TraceBook

__all__ = ["NEWEST", "corrected", "current", "state_of"]

NEWEST = 300
"""So many of the newest valid measurements correct; all of them do after `assay train`."""
_STATE = """
SELECT (SELECT max(last_position) FROM main.standing), (SELECT max(position) FROM main.retraction),
    (SELECT max(position) FROM main.alias), (SELECT max(position) FROM main.hardware_description),
    (SELECT max(position) FROM main.model_trace)
"""


def state_of(tables: Tables) -> tuple[int | None, ...]:
    """Return what decides the outcome of `current` besides the predictor: two equal states give the same."""
    if Tables(tables.cursor).position != tables.position:
        return (tables.position,)
    (found,) = tables.cursor.execute(_STATE).fetchall()
    return tuple(found)


def current(predictor: Predictor, tables: Tables) -> Predictor:
    """Return the predictor with its newest measurements taken in: a pure function of the two, that keeps the digest.

    Where nothing was measured since it was trained it is returned as it is. Imported rows come in bulk and teach when
    the predictor is trained.
    """
    newest = tables.view(
        "measurements", {"origin": "measured", "verdict": "valid"}, limit=NEWEST, descending=True
    ).to_pylist()
    if not newest or newest[0]["position"] <= predictor.card.position:
        return predictor
    rows = training_rows((row_from_table(row) for row in reversed(newest)), mode=None)
    models = sorted({row.model for row in rows})
    book = TraceBook(trace_from_row(row) for row in tables.traces(model=models).to_pylist()) if models else TraceBook()
    return corrected(predictor, rows, book, Devices(tables).spec)


def corrected(predictor: Predictor, rows: Sequence[Row], book: TraceBook, spec_of: SpecOf) -> Predictor:
    """Return the predictor with these rows taken in: what `current` gives where they are the newest measurements."""
    table = tabulate(rows, book, spec_of)
    if not len(table):
        return predictor
    inference = table.take([index for index, row in enumerate(table.rows) if row.mode == "inference"])
    found = {one.software: one for one in predictor.card.calibrations}
    found |= {one.software: one for one in calibrations_of(inference, predictor.card, predictor.trees)}
    card = msgspec.structs.replace(
        predictor.card,
        calibrations=[found[software] for software in sorted(found)],
        few=few_rows(table, predictor.card, predictor.card.few, measure=False),
    )
    return msgspec.structs.replace(predictor, card=card)
