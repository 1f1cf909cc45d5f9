"""The kinds of reports, and how one is made from what a service knows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.client import Client
from domain.errors import UsageError
from presentation import formatting
from presentation.reports import sections
from presentation.reports.content import Report, ReportQuestion, Row, Section, Table
from presentation.reports.evidence import counted, evidence_table
from presentation.reports.matrix import compatibility, matrix_facts
from presentation.reports.run import run_facts, run_sections
from presentation.reports.source import Source

__all__ = ["KINDS", "Kind", "build", "command"]


class Kind(NamedTuple):
    """One kind of report: its title and question, how its sections are made, and what its subject is, if any.

    `main` names the table that a single CSV file holds. Without a subject, `run` takes the newest.
    """

    title: str
    question: str
    make: Callable[[Source], list[Section]]
    main: str
    subject: str | None = None
    optional: bool = False


def _performance(source: Source) -> list[Section]:
    if not source.kept:
        return []
    return [
        sections.families_section(source),
        sections.over_the_cpu(source),
        sections.batch_scaling(source),
        sections.model_pictures(source),
        *sections.variants_section(source),
        sections.configurations(source),
    ]


def _hardware(source: Source) -> list[Section]:
    if not source.kept:
        return []
    if source.asked.subject is not None:
        return _one_hardware(source)
    return [
        sections.hardware_overview(source),
        sections.rivals(source),
        *sections.models_on_hardware(source),
        sections.configurations(source),
    ]


def _one_hardware(source: Source) -> list[Section]:
    result = compatibility(source)
    return [
        sections.hardware_overview(source),
        sections.rivals(source),
        *sections.models_on_hardware(source, most=3),
        sections.over_the_cpu(source),
        sections.precisions(source),
        sections.batch_scaling(source),
        sections.modes(source),
        *sections.on_ranks(source),
        *result[:2],
        sections.configurations(source),
    ]


def _model(source: Source) -> list[Section]:
    model = compatibility(source)
    if not source.kept:
        # Tells a model that nobody knows from one that nobody measured.
        source.trends  # noqa: B018
        return model
    return [
        sections.model_pictures(source, most=4),
        sections.over_the_cpu(source),
        sections.precisions(source),
        sections.batch_scaling(source),
        sections.modes(source),
        *sections.variants_section(source),
        *sections.on_ranks(source),
        *sections.over_time(source),
        *model[1:],
        sections.configurations(source),
    ]


def _modes(source: Source) -> list[Section]:
    return [sections.modes(source), *sections.on_ranks(source)]


def _precision(source: Source) -> list[Section]:
    return [sections.precisions(source)]


KINDS: dict[str, Kind] = {
    "performance": Kind(
        "Performance", "Which hardware is best for what, and how sure is that?", _performance, "configurations"
    ),
    "hardware": Kind(
        "Hardware",
        "What was tried on which hardware, and which is faster?",
        _hardware,
        "configurations",
        "HARDWARE",
        True,
    ),
    "compatibility": Kind(
        "Compatibility", "What builds, runs, is right and was measured where, and why not?", compatibility, "matrix"
    ),
    "modes": Kind("Training against inference", "What does a training step cost?", _modes, "modes"),
    "precision": Kind(
        "Precision", "What do narrower types gain, and are their outputs right?", _precision, "precision"
    ),
    "model": Kind("Model", "Where does this model run, and how fast?", _model, "configurations", "MODEL"),
    "run": Kind("Run", "What did this run find, and what changed since?", run_sections, "configurations", "RUN", True),
}


def build(client: Client, request: ReportQuestion, *, server: str | None = None) -> Report:
    """Make a report as of one position; `server` is where its events can be read later.

    Raises UsageError for a kind or subject that does not fit, UnknownModel, UnknownHardware, NotFound (a run or snapshot).
    A report without anything to say has `empty`.
    """
    kind = _fitting(request)
    source = Source(client, request)
    made = kind.make(source)
    tables = [part for section in made for part in section.parts if isinstance(part, Table)]
    empty = None if tables else _nothing(source, made)
    return Report(
        asked=request,
        title=_title(kind, source),
        question=kind.question,
        position=source.position,
        recorded_at=source.recorded_at,
        facts=[] if empty else _facts(source, tables),
        sections=[] if empty else made,
        evidence=evidence_table([] if empty else _behind(source, tables)),
        server=server,
        empty=empty,
    )


def command(request: ReportQuestion, position: int) -> str:
    """Return the command that makes the same report again."""
    words = ["assay", "report", request.kind, *([request.subject] if request.subject else []), "--as-of", str(position)]
    for name, value in request.filters().items():
        words += [f"--{name}", value]
    return shlex.join(words)


def _fitting(request: ReportQuestion) -> Kind:
    kind = KINDS.get(request.kind)
    if kind is None:
        raise UsageError(f"no report is called {request.kind!r}.", field="kind", remedy=f"One of {', '.join(KINDS)}.")
    if request.subject is not None and kind.subject is None:
        raise UsageError(
            f"the {request.kind} report has no subject, and {request.subject!r} was named.",
            field="subject",
            remedy="Filter with --model or --hardware.",
        )
    if request.subject is None and kind.subject is not None and not kind.optional:
        raise UsageError(
            f"which {request.kind}?", field="subject", remedy=f"assay report {request.kind} {kind.subject}"
        )
    twice = {"model": request.model, "hardware": request.hardware}.get(request.kind)
    if twice is not None and request.subject is not None:
        raise UsageError(
            f"the {request.kind} is named twice: {request.subject!r} and {twice!r}.",
            field=request.kind,
            remedy="Name it once.",
        )
    return kind


def _title(kind: Kind, source: Source) -> str:
    if source.asked.kind == "run":
        return f"Run {source.run['run_id']}"
    if source.asked.kind == "hardware" and source.asked.subject:
        return str(source.hardware)
    if source.asked.kind == "model":
        return str(source.kept[0]["model"] if source.kept else source.asked.subject)
    return kind.title


def _nothing(source: Source, made: Sequence[Section]) -> str:
    """Say why a report is empty: what the section says, the filters, or that nothing is known at all."""
    said = next((part for section in made for part in section.parts if isinstance(part, str)), None)
    filters = " ".join(f"--{name} {value}" for name, value in source.asked.filters().items())
    where = f" with {filters}" if filters else ""
    if source.asked.kind == "run":
        return f"The run {source.run['run_id']} has no measurement, test or failure{where}."
    if said is not None and source.rows:
        return f"{said}{f' Asked{where}.' if where else ''}"
    subject = f" for {source.asked.subject}" if source.asked.subject else ""
    measurements = source.summary["measurements"]
    if measurements:
        return f"Nothing was measured or imported{subject}{where}; simulated and invalid rows are not reported."
    return f"Nothing was measured or imported{subject} yet; `assay bench` measures, `assay import` takes other tools' files."


def _facts(source: Source, tables: Sequence[Table]) -> list[str]:
    if source.asked.kind == "run":
        return run_facts(source)
    facts = []
    if source.asked.kind == "compatibility":
        facts.append(matrix_facts(next(table for table in tables if table.name == "matrix").rows))
    elif source.kept:
        rows = source.kept
        models, places = len({row["model"] for row in rows}), len({row["hardware"] for row in rows})
        origins = {origin: sum(row["origin"] == origin for row in rows) for origin in ("measured", "imported")}
        by_origin = ", ".join(f"{formatting.count(n)} {origin}" for origin, n in origins.items() if n)
        facts.append(
            f"{counted(models, 'model')} on {formatting.count(places)} hardware: {counted(len(rows), 'configuration')}, {by_origin}"
        )
        suspect = sum(row["verdict"] == "suspect" for row in rows)
        facts.append(f"{formatting.count(suspect)} suspect, each marked ⚠" if suspect else "None of them is suspect")
        left = "The log has " + counted(source.summary["measurements"], "measurement")
        facts.append(f"{left}; of each configuration the best is here, simulated and invalid ones are not")
    filters = source.asked.filters()
    if filters:
        facts.append("Only " + ", ".join(f"{name} {value}" for name, value in filters.items()))
    return facts


def _behind(source: Source, tables: Iterable[Table]) -> list[Row]:
    """Return a row for every event that a table names: the measurement, or what a case of the matrix or a test says."""
    measured: dict[str, Row] = {}
    if source.asked.kind == "run":
        measured |= _by_event([*source.measured, *source.earlier.values()])
    elif source.asked.kind != "compatibility":
        measured |= _by_event(source.rows)
    rows: dict[str, Row] = {}
    for table in tables:
        for row in table.rows:
            for event in row.get("evidence") or ():
                if event in measured:
                    rows[event] = measured[event]
                elif len(row["evidence"]) == 1:
                    rows[event] = _case(row, event)
    return list(rows.values())


def _by_event(rows: Iterable[Row]) -> Mapping[str, Row]:
    return {row["event_id"]: row for row in rows}


def _case(row: Row, event: str) -> dict[str, Any]:
    places = row.get("hardware_id") or row.get("hardware") or formatting.MISSING
    kept = {
        name: row.get(name) for name in ("platform", "precision", "origin", "position", "time", "mode", "batch_size")
    }
    named = ", ".join(places) if isinstance(places, list) else str(places)
    basis = "measured" if kept["origin"] == "measured" else "imported"
    return {**kept, "event_id": event, "model": row.get("model"), "hardware": named, "basis": basis}
