"""What `assay matrix` answers beyond its plain table: levels, claims beside evidence, what failed most, a model's check-up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import rich_click as click

from assay.cli.ask.matrix_cells import as_csv, as_markdown, checked_up, terminal
from assay.cli.output import answers, print_json, say
from assay.client import Client
from domain.compatibility.remedies import failures
from domain.compatibility.states import NOTHING_SEEN, place
from presentation.reports import levels as tables
from presentation.reports.content import Row, Table

__all__ = ["MatrixQuestion", "check_up", "failed", "levels", "page"]


class MatrixQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What of the matrix is asked for, and in which form."""

    model: str | None
    category: str | None
    platforms: list[str] | None
    by_precision: bool
    level: str
    family: str | None
    claims: bool
    no_evidence: bool
    form: str

    def rows(self, client: Client, **options: Any) -> list[Row]:
        """Return the rows of the service on these platforms; by precision of models alone."""
        compatibility = client.compatibility(model=self.model, category=self.category, family=self.family, **options)
        return [row for row in compatibility if self.platforms is None or row["platform"] in self.platforms]


def levels(client: Client, request: MatrixQuestion) -> int:
    """Write states and levels of models, families or categories; with claims also where evidence disagrees."""
    by_precision = {} if request.level != "model" else {"by_precision": request.by_precision}
    rows = request.rows(
        client, level=request.level, claims=request.claims, no_evidence=request.no_evidence, **by_precision
    )
    rows.sort(key=lambda row: (str(row.get("category") or "~"), _name(row), place(row["platform"])))
    made = [tables.levels_table(rows, "What was seen of each")] if rows else []
    matching_claims: list[Row] = []
    if request.claims:
        about = {claim for row in rows for claim in row["claims"]}
        matching_claims = [row for row in client.claims(model=request.model) if row["id"] in about]
        made += [table for table in claim_tables(matching_claims) if table.rows]
    _write(request.form, rows, made, claims=matching_claims if request.claims else None)
    return 0 if any(row["state"] not in NOTHING_SEEN for row in rows) else 1


def claim_tables(claims: Sequence[Row]) -> list[Table]:
    """Return where evidence and documents disagree, and the figures that were measured here as well."""
    measured = [row for row in claims if row["ours"] is not None]
    return [tables.contradictions_table(claims), tables.figures_table(measured), tables.opposed_table(claims)]


def failed(client: Client, request: MatrixQuestion) -> int:
    """Write what failed most and what to try; 1 where nothing failed."""
    result = failures(request.rows(client))
    _write(
        request.form, result, [tables.failures_table(result)] if result else [], nothing="nothing that was tried failed"
    )
    return 0 if result else 1


def check_up(client: Client, request: MatrixQuestion) -> None:
    """Write of one model what is known on each platform, what failed and what to try."""
    rows = request.rows(client, by_precision=False, claims=True)
    if any(row["state"] not in NOTHING_SEEN for row in rows):
        answers().print()
    for line in checked_up(sorted(rows, key=lambda row: place(row["platform"]))):
        answers().print(line)


def page(client: Client, request: MatrixQuestion, *, server: str | None) -> int:
    """Write the report on compatibility as one HTML page that needs nothing else."""
    from presentation.reports.content import ReportQuestion as Report
    from presentation.reports.kinds import build
    from presentation.reports.writing import rendered

    made = build(
        client,
        Report(
            kind="compatibility",
            model=request.model,
            category=request.category,
            platform=tuple(request.platforms or ()),
        ),
        server=server,
    )
    if made.empty:
        say(made.empty)
        return 1
    sys.stdout.buffer.write(rendered(made, "html", part=None, top=None, pictures=True))
    sys.stdout.buffer.flush()
    return 0


def _name(row: Row) -> str:
    return str(row.get("model_id") or row.get("family") or "~")


def _write(
    form: str,
    rows: Sequence[Row],
    made: Sequence[Table],
    *,
    claims: Sequence[Row] | None = None,
    nothing: str = "no test and no benchmark is known; `assay verify MODEL` makes one",
) -> None:
    if form == "json":
        print_json(list(rows) if claims is None else {"cells": list(rows), "claims": list(claims)})
    elif form == "csv":
        click.echo(as_csv(rows), nl=False)
    elif not made:
        say(nothing)
    elif form == "markdown":
        click.echo("\n\n".join(map(as_markdown, made)))
    else:
        for place_, table in enumerate(made):
            answers().print(*([""] if place_ else []), terminal(table), sep="\n")
            if table.note:
                answers().print(table.note, markup=False, style="dim")
        if claims:
            say("--format markdown, html and json say where each claim stands")
