"""What is known of serving a language model at a position: what was learned, and the rows that correct it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers import Sizes
from domain.catalogues import language_models, models
from domain.catalogues.language_models import LanguageModel
from domain.errors import UsageError
from ingest.projection import Tables
from predictor.answering.question import Question
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.features.dataset import Row, row_from_table
from predictor.general.inputs import TRACED_RUNTIMES
from predictor.llm_serving.shipped import FittedShipped, Serving
from predictor.llm_serving.table import SpecOf, taught

__all__ = [
    "Served",
    "by_engine",
    "engine_facts",
    "facts_of",
    "nearest_models",
    "no_engine",
    "not_served",
    "served_at",
]

NEWEST = 200
"""So many of the newest rows of the model, and of all models, are neighbours of a question."""
TARGETS = ("ttft", "tpot")


class Served(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A served question: so many requests at once.

    `fitted` is by target and empty where the predictor knows nothing of serving. `events` names, by device, the
    measurements that correct it, and `engines`, by device and platform, the runtime and version that most of them had.
    `name` is what the model is called here.
    """

    model: LanguageModel
    name: str
    concurrency: int
    card: Serving | None
    fitted: Mapping[str, FittedShipped]
    events: Mapping[str, tuple[str, ...]]
    engines: Mapping[tuple[str, str], tuple[str, str]]


def served_at(
    tables: Tables,
    question: Question,
    model: str,
    sizes: Sizes,
    rows: Sequence[Mapping[str, Any]],
    predictor: Predictor,
    spec_of: SpecOf,
    kept: Reading,
    *,
    traced: bool,
) -> Served | None:
    """Return what is known of serving; None where the question is of something else.

    A question with a concurrency is of serving; one without is, with one request at a time, where a language model has
    no operator trace, or where only an engine can be meant. Raises UsageError where a concurrency is given without
    numbers of tokens.
    """
    facts = facts_of(question, model)
    traced = traced and not question.of_an_engine
    if facts is None or question.mode != "inference" or (question.concurrency is None and traced):
        return None
    if question.runtime in TRACED_RUNTIMES:
        raise UsageError(
            f"{model} has no operator trace at these sizes, without which {question.runtime} cannot be predicted.",
            field="runtime",
            remedy="Name an engine that serves it, or ask for a forward pass: --call forward.",
        )
    if not sizes.input_tokens or not sizes.output_tokens:
        if question.concurrency is None:
            return None
        missing = "input_tokens" if not sizes.input_tokens else "output_tokens"
        raise UsageError(
            f"requests to {model} are of a size that is not said.",
            field=missing,
            remedy="Say both, for example --input-tokens 1024 --output-tokens 256.",
        )
    card = predictor.card.serving
    near = kept.of(("served", model), lambda: _neighbours(tables, rows, kept))
    fitted, taken = kept.of(("fitted", model, predictor.digest), lambda: _fitted(card, predictor, near, spec_of))
    return Served(
        model=facts,
        name=model,
        concurrency=question.concurrency or 1,
        card=card,
        fitted=fitted,
        events=_events(taken),
        engines=_engines(near),
    )


def engine_facts(question: Question, model: str) -> tuple[str, list[str]]:
    """Return what a language model of a config or a name is called here, and what a person should know of it.

    Sizes that are published stand under the published name, with its measurements.
    """
    notes: list[str] = []
    reading = question.reading
    if reading is not None:
        notes += reading.notes
        twin = language_models.twin(reading.model)
        if twin is not None and twin.id != model:
            notes.append(f"the sizes of {model} are those of {twin.id}, whose measurements are of the same work")
            model = twin.id
    told = question.told_precision
    if told is not None:
        said = f"the {'config' if reading is not None else 'name'} says that the weights are {told}"
        others = [name for name in question.precision if name != told]
        notes.append(f"{said}; the question asks for {', '.join(others)}" if others else f"{said}: asked for so")
    return model, notes


def by_engine(question: Question, *, traced: bool) -> bool:
    """Whether an engine alone can serve what is asked, whatever was traced."""
    return question.of_an_engine or (question.config is not None and not traced)


def not_served(model: str) -> UsageError:
    """Return what is said where requests at once are asked of what nothing serves."""
    return UsageError(
        f"nothing is known of {model} as a served language model: neither its published sizes nor a measurement so.",
        field="concurrency",
        remedy="Leave it out for single calls, or measure it where it is served: assay bench --endpoint URL.",
    )


def no_engine(question: Question, model: str) -> UsageError:
    """Return what is said where a question can be of an engine alone, and no engine serves the model."""
    field = next((name for name in ("runtime", "offload") if getattr(question, name)), "precision")
    return UsageError(
        f"{model} is not known as a language model that an engine serves in inference.",
        field=field,
        remedy="Leave it out, or name a language model (assay model list), or its config.json.",
    )


def nearest_models(name: str) -> tuple[str, ...]:
    """Return ids of models whose names look like one that nobody knows: of the catalogue, and of served language models."""
    return tuple(dict.fromkeys([*language_models.nearest(name), *models.nearest(name)]))[:5]


def facts_of(question: Question, model: str) -> LanguageModel | None:
    """Return the sizes of a language model: those of the config in the question, else the published ones, or None."""
    reading = question.reading
    return language_models.find(model) if reading is None else reading.model


def _neighbours(tables: Tables, rows: Sequence[Mapping[str, Any]], kept: Reading) -> list[Row]:
    """The newest served rows of the model, and the newest of all models."""
    everything = kept.of(
        "served",
        lambda: tables.view("measurements", {"scenario": "serving"}, limit=NEWEST, descending=True).to_pylist(),
    )
    own = [row for row in rows if row["scenario"] == "serving"][-NEWEST:]
    existing = {str(row["event_id"]) for row in own}
    others = [row for row in everything if str(row["event_id"]) not in existing]
    return [row for row in map(row_from_table, [*own, *others]) if row is not None]


def _fitted(
    card: Serving | None, predictor: Predictor, near: Sequence[Row], spec_of: SpecOf
) -> tuple[dict[str, FittedShipped], list[Row]]:
    """What was learned by target, and the rows that correct it."""
    if card is None:
        return {}, []
    tables = {target: taught(near, spec_of, target) for target in TARGETS}
    fitted = {target: card.restored(target, predictor.others).adapted(table) for target, table in tables.items()}
    return fitted, tables["tpot"].rows


def _events(rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row.hardware, []).append(row.event_id)
    return {device: tuple(events) for device, events in names.items()}


def _engines(near: Sequence[Row]) -> dict[tuple[str, str], tuple[str, str]]:
    counts: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for row in near:
        if row.runtime:
            counts.setdefault((row.hardware, row.platform), Counter())[row.runtime, row.runtime_version] += 1
    return {place: max(sorted(count), key=lambda item: count[item]) for place, count in sorted(counts.items())}
