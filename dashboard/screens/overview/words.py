"""Home in words and rows: freshness, picks, failures, coverage and imports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec

from assay.client.row_types import Model, Run
from dashboard import evidence
from dashboard.address import Params, Read, one_of, position, understood
from dashboard.tables.result_table import Column, filled
from domain.answers import Pick, Recommendation
from domain.vocabulary import PLATFORMS
from presentation import formatting
from presentation.answer_words import PICKS, PickWords, model_name, pick_words, short_name

__all__ = [
    "PAGE",
    "SPANS",
    "Glance",
    "best_columns",
    "best_known",
    "coverage_sentence",
    "failing_table",
    "families_of",
    "fresh",
    "imports_words",
    "is_live",
    "platforms_of",
    "read_glance",
    "span_words",
    "stale_words",
    "state_words",
    "today",
]

PAGE = "overview"
UNKNOWN = "unknown"
SPANS = ("1", "7", "30")
Row = Mapping[str, Any]


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What the overview shows: over how many days things are said to have got worse, at which position of the log."""

    days: str = "7"
    as_of: int | None = None


def read_glance(params: Params) -> Read:
    """Read the overview's parameters."""
    return understood(Glance, params, {"days": one_of(SPANS), "as_of": position})


def fresh(days: Sequence[Row], total: int, today: date, span: int) -> float | None:
    """Return the share of configurations measured in the last `span` days; None where there is none.

    `days` count configurations by the day (UTC) of their newest measurement; one dated later than today is no fresher.
    """
    since = (today - timedelta(days=span)).isoformat()
    counted = sum(int(row["configurations"]) for row in days if str(row["day"]) > since)
    return counted / total if total else None


def today() -> date:
    """Return the day (UTC) by which freshness is judged."""
    return datetime.now(UTC).date()


def platforms_of(cells: Sequence[Row]) -> list[str]:
    """Return the platforms that something was measured on, in the order in which all pages have them."""
    order = list(PLATFORMS)
    result = {str(cell["platform"]) for cell in cells}
    return sorted(result, key=lambda name: (order.index(name) if name in order else len(order), name))


def families_of(row: Row) -> list[str]:
    """Return the families as the service has them, those of models of which no family is known last."""
    return sorted((str(name) for name in row["families"]), key=lambda name: name == UNKNOWN)


MOST_MODELS = 3


def best_known(models: Sequence[Model]) -> list[Model]:
    """Return the model with most measurements of each category, one of the catalogue before others; at most `MOST_MODELS`."""
    first: dict[str | None, Model] = {}
    for model in sorted(models, key=lambda model: (not model.catalogued, -model.measurements, model.id)):
        if model.measurements:
            first.setdefault(model.category, model)
    return list(first.values())[:MOST_MODELS]


def coverage_sentence(row: Row) -> str:
    """Say how much of family × platform has a measurement, and where there are most."""
    cells, families = row["cells"], row["families"]
    platforms = platforms_of(cells)
    named = [cell for cell in cells if cell["family"] != UNKNOWN] or cells
    most = max(named, key=lambda cell: int(cell["measurements"]))
    shown = f"the {len(families)} families with most" if row["families_total"] > len(families) else "all families"
    across = "1 platform" if len(platforms) == 1 else f"{len(platforms)} platforms"
    return (
        f"{formatting.count(len(cells))} of {formatting.count(len(families) * len(platforms))} cells have measurements "
        f"({shown}, {across}); most: {most['family']} on {most['platform']}, {formatting.count(most['measurements'])}"
    )


def has_ended(run: Run) -> bool:
    """Say whether it is known how a run ended."""
    return run.outcome not in (None, "unfinished") or bool(run.retracted_because)


def is_live(run: Run, now: datetime) -> bool:
    """Say whether a run may be under way: it began within a day and has not ended; an older one was left behind."""
    return not has_ended(run) and now - (run.started_at or run.recorded_at) < timedelta(days=1)


def failing_table(failing: Sequence[Row]) -> list[Column]:
    """Return the columns of what fails most: how often, of how many models, why, and what to try."""
    columns = [
        Column(
            head="Error",
            values=[row["error"] for row in failing],
            links=[evidence.row_path(str(row["evidence"])) for row in failing],
        ),
        Column(head="Failures", values=[row["failures"] for row in failing]),
        Column(head="Models", values=[row["models"] for row in failing]),
        Column(head="Platform", values=[row["platform"] for row in failing]),
        Column(head="At", values=[str(row["stage"]).replace("_", " ") for row in failing]),
        Column(head="Newest says", values=[row["message"] or None for row in failing]),
        Column(head="To try", values=[row["remedy"] or None for row in failing]),
    ]
    return filled(columns)


def best_columns(named: Sequence[tuple[Model, Recommendation]]) -> list[Column]:
    """Return the picks of some models as columns: each pick with its figure, how it is known and how sure it is."""
    models = [model for model, _ in named]
    picks = [{} if answer.abstained else {pick.name: pick for pick in answer.picks} for _, answer in named]
    links = [f"recommend?{urlencode({'model': model.id}, safe='/')}" for model in models]
    columns = [Column(head="Model", values=[model_name(model.id) for model in models], links=links)]
    for name, title in PICKS.items():
        cells = [
            _pick_cell(found[name], pick_words(found[name], answer)) if name in found else None
            for found, (_, answer) in zip(picks, named, strict=True)
        ]
        columns.append(Column(head=title, values=cells))
    return columns


def _pick_cell(pick: Pick, words: PickWords) -> str:
    """Write a pick in two lines; that it is a toss-up is said, a lead is not."""
    device = short_name(pick.option.hardware, pick.option.hardware_count)
    parts = [
        words.figure.removesuffix(" (mean)"),
        words.evidence,
        *(["toss-up"] if pick.confidence == "toss-up" else []),
    ]
    return f"{device}\n{' · '.join(parts)}"


def state_words(record: Row, now: datetime) -> str:
    """Say in one sentence how much is known and how fresh it is."""
    names = {"measurements": "measurement", "models": "model", "hardware": "device"}
    counted = [
        f"**{formatting.count(record[name])}** {word}{'' if record[name] == 1 else 's'}" for name, word in names.items()
    ]
    measured, models, devices = counted
    return f"{measured} of {models} on {devices}; the newest came {formatting.age(record.get('newest'), now)}."


def stale_words(recent: float | None) -> str:
    """Say which share of the configurations was not measured lately, with the way to them; empty where none is."""
    if recent is None or recent >= 1:
        return ""
    return f"{formatting.share(1 - recent)} of configurations have nothing newer than 90 days: [see them](/compatibility?stale=yes)."


def imports_words(total: int, newest: Sequence[Run]) -> str:
    """Write imports in one line: how many there are and where the newest came from."""
    names = list(dict.fromkeys(_source_words(run) for run in newest))
    counted = "1 import" if total == 1 else f"{formatting.count(total)} imports"
    return f"{counted}, the newest from {'; '.join(names)}"


def _source_words(run: Run) -> str:
    """Name the source of an import without its file."""
    return re.sub(r"\s\S+\.(csv|json|parquet|ndjson)$", "", str(run.provenance_source or run.source))


def span_words(days: str) -> str:
    """Write a span as what may be chosen: `1 day`, `7 days`."""
    return "1 day" if days == "1" else f"{days} days"
