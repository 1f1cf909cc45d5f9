"""The answer to what fits: for each device, platform and precision the largest and the best batch, the longest sequence,
what the memory is made of, and what the precision costs in outputs.

Measured peaks come first; what was learned of needs is scaled to them. The same question at a position has the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers import CapacityAnswer, Exclusion, Workload
from domain.catalogues import language_models, models
from domain.catalogues.language_models import LanguageModel
from domain.errors import TraceNeeded
from domain.vocabulary import PLATFORMS, PRECISIONS
from ingest.projection import Tables
from ingest.projection.statements import SCHEMA_VERSION
from predictor.answering.candidates import Candidate, candidates
from predictor.answering.context import AnswerContext
from predictor.answering.estimates import INTERVAL
from predictor.answering.evidence import options_from_rows
from predictor.answering.facts import known_at
from predictor.answering.option import Option
from predictor.answering.question import answer_id
from predictor.answering.serving_context import facts_of
from predictor.answering.serving_options import served_candidates
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.capacity.batch_limits import Cell
from predictor.capacity.capacity_entry import CapacityInputs, entries_of
from predictor.capacity.lengths import position_limit
from predictor.capacity.question import FitQuestion
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import Trace
from predictor.memory.needs import usable_bytes
from predictor.variants.evidence import read_variants
from predictor.variants.fitting import fitting_variants

__all__ = ["fit"]

USUAL_TOKENS = 2048
"""Of a language model without an operator trace, where no length is said."""


def fit(
    tables: Tables, fit_question: FitQuestion, predictor: Predictor, notes: Sequence[str], kept: Reading | None = None
) -> CapacityAnswer:
    """Return what fits where (docs/fleet.md). Raises what `facts.known_at` raises."""
    kept = kept or Reading()
    existing, facts = _known(tables, fit_question, predictor, notes, kept)
    question = fit_question.question(batch_sizes=[1])
    measured = options_from_rows(existing.rows, existing.sizes, "p50")
    seen = [(item.platform, item.precision, item.batch_size) for item in measured]
    if existing.served is not None and existing.trace is None:
        result, excluded = served_candidates(question, existing, existing.served)
    else:
        result, excluded = candidates(question, existing.specs, predictor, seen, existing.trace)
    ran_out = _ran_out(tables, existing)
    cells = [_cell(item, measured, fit_question, ran_out) for item in result if item.cell[:3] not in existing.failures]
    failed = [
        Exclusion(
            hardware=item.spec.id,
            platform=item.platform,
            precision=item.precision,
            rule="failed",
            detail=existing.failures[item.cell[:3]][0],
            evidence=(existing.failures[item.cell[:3]][1],),
        )
        for item in result
        if item.cell[:3] in existing.failures
    ]
    cells.sort(key=lambda item: _order(item.candidate))
    entry, reading = models.find(existing.model), question.reading
    traces = _traces(tables, existing, kept)
    about = CapacityInputs(
        known=existing,
        cells=cells,
        measured=measured,
        mode=fit_question.mode,
        facts=facts,
        traces=traces,
        positions=position_limit(None if entry is None else entry.config) if reading is None else reading.positions,
        tokens=_tokens(fit_question),
        offload=question.offloading,
    )
    entries = entries_of(about)
    book = kept.of(
        ("variants", existing.model, fit_question.mode),
        lambda: read_variants(tables, existing.model, fit_question.mode),
    )
    return CapacityAnswer(
        id=answer_id(fit_question.identity(), existing.position, predictor.digest, SCHEMA_VERSION),
        model=existing.model,
        position=existing.position,
        time=existing.time,
        predictor=predictor.digest,
        interval=INTERVAL,
        question=fit_question.identity(),
        workload=Workload(mode=fit_question.mode, **existing.sizes.stated()),
        fits=entries,
        excluded=sorted([*excluded, *failed], key=repr),
        abstained=None if entries else _abstained(fit_question, existing),
        notes=list(existing.notes),
        variants=fitting_variants(book, entries, existing),
    )


def _known(
    tables: Tables, fit_question: FitQuestion, predictor: Predictor, notes: Sequence[str], kept: Reading
) -> tuple[AnswerContext, LanguageModel | None]:
    """What is known of the model; a language model of published sizes, or of its own config, needs no operator trace."""
    name = tables.resolve_model(fit_question.model)
    facts = facts_of(fit_question.question(), name) or language_models.find(fit_question.model)
    served_alone = facts is not None and models.find(facts.id) is None
    question = fit_question.question(call="usual" if served_alone or fit_question.output_tokens else "forward")
    if facts is None or not question.of_an_engine:
        try:
            return known_at(tables, question, predictor, notes, kept), facts
        except TraceNeeded:
            if facts is None:
                raise
    tokens = _tokens(fit_question)
    served = fit_question.question(
        input_tokens=max(tokens - 1, 1), output_tokens=1, concurrency=1, sequence_length=None
    )
    existing = known_at(tables, served, predictor, notes, kept)
    return (msgspec.structs.replace(existing, trace=None) if question.of_an_engine else existing), facts


def _tokens(fit_question: FitQuestion) -> int:
    """The length of a sequence that is asked about."""
    if fit_question.input_tokens:
        return fit_question.input_tokens + (fit_question.output_tokens or 0)
    return fit_question.sequence_length or USUAL_TOKENS


def _traces(tables: Tables, context: AnswerContext, kept: Reading) -> list[Trace]:
    """The model's forward traces at every length, other sizes being those of the answer."""
    from predictor.answering.facts import trace_from_row

    rows = kept.of(("lengths", context.model), lambda: traces_of(tables, [context.model]))
    sizes = {
        name: value
        for name, value in context.sizes.stated().items()
        if name not in ("sequence_length", "output_tokens")
    }
    traces = [trace_from_row(row) for row in rows if row["phase"] == "forward" and row["mode"] != "training"]
    return [item for item in traces if all(item.sizes.get(name, value) == value for name, value in sizes.items())]


def _cell(
    candidate: Candidate,
    measured: Sequence[Option],
    fit_question: FitQuestion,
    ran_out: Mapping[tuple[str, str, str], Mapping[int, str]],
) -> Cell:
    room = usable_bytes(candidate.limits.memory_bytes)
    limit = None if fit_question.max_memory_mb is None else fit_question.max_memory_mb * 1e6
    here = [
        option
        for option in measured
        if (option.hardware, option.platform, option.precision, option.count) == (*candidate.cell[:3], 1)
    ]
    by_batch = {
        option.batch_size: option
        for option in sorted(here, key=lambda option: option.peak_memory_bytes or 0.0)
        if option.batch_size is not None
    }
    known_rooms = [bound for bound in (room, limit) if bound is not None]
    return Cell(
        candidate=candidate,
        room_bytes=min(known_rooms) if known_rooms else None,
        measured=by_batch,
        out_of_memory={
            batch: event for batch, event in ran_out.get(candidate.cell[:3], {}).items() if batch not in by_batch
        },
    )


def _ran_out(tables: Tables, context: AnswerContext) -> dict[tuple[str, str, str], dict[int, str]]:
    """Batch sizes that ran out of memory at the sizes of the answer, with their events, by device, platform and precision."""
    sizes = context.sizes.stated()
    columns = ["hardware_id", "platform", "precision", "batch_size", "outcome", "event_id", *sizes]
    matches: dict[tuple[str, str, str], dict[int, str]] = {}
    for row in tables.view("failures", {"model": context.model}, columns=columns).to_pylist():
        same = all(row[name] in (None, value) for name, value in sizes.items())
        if row["outcome"] == "out_of_memory" and row["batch_size"] is not None and same:
            place = (row["hardware_id"], row["platform"], row["precision"])
            matches.setdefault(place, {})[int(row["batch_size"])] = str(row["event_id"])
    return matches


def _order(candidate: Candidate) -> tuple[Any, ...]:
    def place(names: Sequence[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    return (
        candidate.spec.id,
        place(PLATFORMS, candidate.platform),
        candidate.platform,
        place(PRECISIONS, candidate.precision),
        candidate.precision,
    )


def _abstained(fit_question: FitQuestion, context: AnswerContext) -> str:
    if fit_question.hardware == "own" and not context.own:
        return "No hardware of yours is known. Run `assay detect --post` on it first, or name hardware."
    return "No device that is asked for runs this platform or precision, or its figures are not known."
