"""Everything that the search opens: pages, saved questions, and the models, hardware and runs of the service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from uuid import UUID

from assay.client.row_types import Hardware, Model, Run
from dashboard import answers
from dashboard.address import Comparison, parameters
from dashboard.menu import MENU
from dashboard.screens.compare import subjects
from dashboard.screens.query.words import EXAMPLES
from dashboard.screens.recommend.question import from_command
from dashboard.search.index import Entry, Index
from dashboard.service import client, decoded, shared
from domain.catalogues import hardware as hardware_catalogue
from domain.cookbook import recipes
from presentation import formatting
from presentation.answer_words import model_name, short_name

__all__ = ["comparison_entry", "first_entries", "index", "pages_index", "row_entry"]

MOST_RUNS = 300
FIRST = 3
"""Models and devices that are offered before anything is typed."""
_KEYWORDS = {
    "overview": "overview start regressions got worse stale",
    "recommend": "which hardware best fastest cheapest picks cost price latency",
    "compare": "versus side by side difference precisions modes batch sizes",
    "compatibility": "matrix does it run supported failures errors",
    "trends": "history versions over time change points",
    "regressions": "alerts triage got worse changes suspect bisect acknowledge",
    "runs": "measurements rows benchmarks imports samples",
    "models": "catalogue architectures parameters families",
    "hardware": "devices gpu cpu npu roofline catalogue specification",
    "predictor": "accuracy error calibration scores training decisions",
    "query": "sql tables views duckdb",
    "jobs": "queue workers submissions schedules machines failed",
    "operations": "lag throughput dead letters tokens service health log",
}


@shared(max_entries=2)
def index(position: int) -> Index:
    """Return everything that can be opened at a position of the log. Raises AssayError where the service does not answer."""
    models, hardware = answers.models(position), answers.hardware(position)
    runs = [decoded(row, Run) for row in client().runs(as_of=position, limit=MOST_RUNS)]
    entries = [
        *_pages(),
        *_questions(),
        *map(_model, models),
        *map(_hardware, hardware),
        *map(_run, runs),
    ]
    return Index(entries, exact=_hardware_named, several=hardware_catalogue.choices)


@cache
def pages_index() -> Index:
    """Return what can be opened without the service: pages and saved questions."""
    return Index([*_pages(), *_questions()])


def first_entries(everything: Index) -> list[Entry]:
    """Return what is offered before anything is typed: what was measured most, and two saved questions."""
    entries = everything.entries.values()

    def most(kind: str) -> list[Entry]:
        return sorted(
            (entry for entry in entries if entry.kind == kind and entry.measurements),
            key=lambda entry: -entry.measurements,
        )[:FIRST]

    return [*most("model"), *most("hardware"), *[entry for entry in entries if entry.kind == "question"][:2]]


def row_entry(text: str) -> Entry | None:
    """Return the entry of a measurement, failure or test by the id of its event; None for other texts."""
    try:
        event = str(UUID(text.strip()))
    except ValueError:
        return None
    return Entry(kind="run", id=event, title=f"Row {event}", page="runs", params={"row": event})


def comparison_entry(text: str, position: int) -> Entry | None:
    """Return the comparison that a text such as `bert-base, L4 vs A10G, fp16` asks for; None where a part of it names nothing."""
    if len(text.split()) < 2:
        return None
    typed = subjects.read(text, subjects.names(position))
    if typed.unknown or len(typed.models) + len(typed.hardware) < 2:
        return None
    named = [model_name(name) for name in typed.models], [short_name(name) for name in typed.hardware]
    asked = parameters(subjects.with_typed(Comparison(), typed))
    return Entry(
        kind="comparison",
        id=text.strip(),
        title=" on ".join(" vs ".join(names) for names in named if names),
        page="compare",
        params=dict(asked),
    )


def _hardware_named(text: str) -> Iterator[str]:
    spec = hardware_catalogue.find(text)
    if spec is not None:
        yield spec.id


def _pages() -> list[Entry]:
    return [
        Entry(kind="page", id=entry.name, title=entry.title, page=entry.name, keywords=_KEYWORDS.get(entry.name, ""))
        for entries in MENU.values()
        for entry in entries
    ]


def _questions() -> Iterator[Entry]:
    for recipe in recipes():
        question = from_command(recipe.command)
        if question is not None:
            yield Entry(
                kind="question",
                id=recipe.name,
                title=recipe.title,
                page="recommend",
                params=dict(parameters(question)),
                keywords=question.model,
            )
    for example in EXAMPLES:
        yield Entry(
            kind="question",
            id=example.title,
            title=example.title,
            page="query",
            params={"q": example.sql},
            keywords="sql",
        )


def _model(row: Model) -> Entry:
    return Entry(
        kind="model",
        id=row.id,
        title=model_name(row.id),
        page="models",
        params={"id": row.id},
        names=tuple(row.aliases),
        keywords=f"{row.family or ''} {row.category or ''}".replace("_", " "),
        measurements=row.measurements,
    )


def _hardware(row: Hardware) -> Entry:
    return Entry(
        kind="hardware",
        id=row.id,
        title=row.name or row.id,
        page="hardware",
        params={"id": row.id},
        names=tuple(row.aliases),
        keywords=f"{row.vendor or ''} {row.kind or ''} {row.architecture or ''}",
        measurements=row.measurements,
    )


def _run(row: Run) -> Entry:
    source = row.provenance_source or row.kind or "run"
    day = formatting.date(row.started_at or row.recorded_at)
    return Entry(
        kind="run",
        id=row.run_id,
        title=f"{source} · {day}",
        page="runs",
        params={"run": row.run_id},
        keywords=f"{row.kind or ''} {row.origin or ''} {' '.join(row.hardware_ids or ())}",
        measurements=row.measured or 0,
    )
