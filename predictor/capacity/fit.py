"""The answer to what fits: for each device, platform and precision the largest and the best batch, the longest sequence,
what the memory is made of, and what the precision costs in outputs.

Measured peaks come first; what was learned of needs is scaled to them. The same question at a position has the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.catalogues import language_models, models
from domain.catalogues.language_models import LanguageModel
from domain.errors import TraceNeeded
from domain.vocabulary import PLATFORMS, PRECISIONS
from ingest.projection import Tables
from ingest.projection.store import SCHEMA_VERSION
from predictor.answering.candidates import Candidate, Exclusion, candidates
from predictor.answering.context import Known
from predictor.answering.estimates import INTERVAL
from predictor.answering.evidence import options_from_rows
from predictor.answering.facts import known_at
from predictor.answering.option import Option
from predictor.answering.question import answer_id
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.capacity.batch_limits import Cell
from predictor.capacity.capacity_entry import Found, entries_of
from predictor.capacity.lengths import position_limit
from predictor.capacity.question import FitQuestion
from predictor.features.traces import Trace

__all__ = ["fit"]

USUAL_TOKENS = 2048
"""Of a language model without an operator trace, where no length is said."""


def fit(
    tables: Tables, asked: FitQuestion, predictor: Predictor, notes: Sequence[str], kept: Reading | None = None
) -> dict[str, Any]:
    """Return what fits where (docs/fleet.md). Raises what `facts.known_at` raises."""
    kept = kept or Reading()
    known, facts = _known(tables, asked, predictor, notes, kept)
    question = asked.question(batch_sizes=[1])
    measured = options_from_rows(known.rows, known.sizes, "p50")
    seen = [(one.platform, one.precision, one.batch_size) for one in measured]
    found, excluded = candidates(question, known.specs, predictor, seen)
    ran_out = _ran_out(tables, known)
    cells = [_cell(one, measured, asked, ran_out) for one in found if one.cell[:3] not in known.failures]
    failed = [
        Exclusion(
            hardware=one.spec.id, platform=one.platform, precision=one.precision, rule="failed",
            detail=known.failures[one.cell[:3]][0], evidence=(known.failures[one.cell[:3]][1],),
        )
        for one in found if one.cell[:3] in known.failures
    ]  # fmt: skip
    cells.sort(key=lambda one: _order(one.candidate))
    entry = models.find(known.model)
    traces = _traces(tables, known, kept)
    about = Found(
        known=known, cells=cells, measured=measured, mode=asked.mode, facts=facts, traces=traces,
        positions=position_limit(None if entry is None else entry.config), tokens=_tokens(asked),
    )  # fmt: skip
    told = entries_of(about)
    return {
        "id": answer_id(asked.identity(), known.position, predictor.digest, SCHEMA_VERSION),
        "model": known.model,
        "position": known.position,
        "time": known.time,
        "predictor": predictor.digest,
        "interval": INTERVAL,
        "question": asked.identity(),
        "workload": {"mode": asked.mode, **known.sizes.stated()},
        "fits": told,
        "excluded": [msgspec.to_builtins(one) for one in sorted([*excluded, *failed], key=repr)],
        "abstained": None if told else _abstained(asked, known),
        "notes": list(known.notes),
    }


def _known(
    tables: Tables, asked: FitQuestion, predictor: Predictor, notes: Sequence[str], kept: Reading
) -> tuple[Known, LanguageModel | None]:
    """What is known of the model; a language model of published sizes needs no operator trace."""
    question = asked.question()
    facts = language_models.find(tables.resolve_model(asked.model)) or language_models.find(asked.model)
    try:
        return known_at(tables, question, predictor, notes, kept), facts
    except TraceNeeded:
        if facts is None:
            raise
        tokens = _tokens(asked)
        served = asked.question(input_tokens=max(tokens - 1, 1), output_tokens=1, concurrency=1, sequence_length=None)
        return known_at(tables, served, predictor, notes, kept), facts


def _tokens(asked: FitQuestion) -> int:
    """The length of a sequence that is asked about."""
    if asked.input_tokens:
        return asked.input_tokens + (asked.output_tokens or 0)
    return asked.sequence_length or USUAL_TOKENS


def _traces(tables: Tables, known: Known, kept: Reading) -> list[Trace]:
    """The model's forward traces at every length, other sizes being those of the answer."""
    from predictor.answering.facts import trace_from_row

    rows = kept.of(("lengths", known.model), lambda: tables.traces(model=known.model).to_pylist())
    sizes = {
        name: value for name, value in known.sizes.stated().items() if name not in ("sequence_length", "output_tokens")
    }
    found = [trace_from_row(row) for row in rows if row["phase"] == "forward" and row["mode"] != "training"]
    return [one for one in found if all(one.sizes.get(name, value) == value for name, value in sizes.items())]


def _cell(
    one: Candidate,
    measured: Sequence[Option],
    asked: FitQuestion,
    ran_out: Mapping[tuple[str, str, str], Mapping[int, str]],
) -> Cell:
    room = one.limits.memory_bytes
    limit = None if asked.max_memory_mb is None else asked.max_memory_mb * 1e6
    here = [
        option for option in measured
        if (option.hardware, option.platform, option.precision, option.count) == (*one.cell[:3], 1)
    ]  # fmt: skip
    by_batch = {
        option.batch_size: option
        for option in sorted(here, key=lambda option: option.peak_memory_bytes or 0.0)
        if option.batch_size is not None
    }
    known_rooms = [bound for bound in (room, limit) if bound is not None]
    return Cell(
        candidate=one,
        room_bytes=min(known_rooms) if known_rooms else None,
        measured=by_batch,
        out_of_memory={batch: event for batch, event in ran_out.get(one.cell[:3], {}).items() if batch not in by_batch},
    )


def _ran_out(tables: Tables, known: Known) -> dict[tuple[str, str, str], dict[int, str]]:
    """Batch sizes that ran out of memory at the sizes of the answer, with their events, by device, platform and precision."""
    sizes = known.sizes.stated()
    columns = ["hardware_id", "platform", "precision", "batch_size", "outcome", "event_id", *sizes]
    found: dict[tuple[str, str, str], dict[int, str]] = {}
    for row in tables.view("failures", {"model": known.model}, columns=columns).to_pylist():
        same = all(row[name] in (None, value) for name, value in sizes.items())
        if row["outcome"] == "out_of_memory" and row["batch_size"] is not None and same:
            place = (row["hardware_id"], row["platform"], row["precision"])
            found.setdefault(place, {})[int(row["batch_size"])] = str(row["event_id"])
    return found


def _order(one: Candidate) -> tuple[Any, ...]:
    def place(names: Sequence[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    return (one.spec.id, place(PLATFORMS, one.platform), one.platform, place(PRECISIONS, one.precision), one.precision)


def _abstained(asked: FitQuestion, known: Known) -> str:
    if asked.hardware == "own" and not known.own:
        return "No hardware of yours is known. Run `assay detect --post` on it first, or name hardware."
    return "No device that is asked for runs this platform or precision, or its figures are not known."
