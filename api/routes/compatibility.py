"""The compatibility matrix: what was seen of each cell, how good that is, what is claimed of it, and where that disagrees.

Cells come from the tables, states and levels from `domain.compatibility.states`; claims stand in members of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, Cursor, Flag, Page, Text, by_offset, rows_response
from api.reads.claims import Cell, CellFilters, claim_rows, with_claims
from domain.answers.compatibility import ClaimRow
from domain.catalogues.models import catalogue
from domain.compatibility.states import RULES, STATES, best_of, grouped, judged, place
from domain.errors import UsageError
from domain.vocabulary import PLATFORMS
from ingest.projection import Tables

__all__ = ["LEGEND", "Legend", "cells_of", "cells_on", "router"]

Level = Literal["model", "family", "category"]
Levelled = Annotated[Level, QueryParameter(description="What a row is of, beside its platform.")]
Verdict = Annotated[
    str | None, QueryParameter(max_length=50, description="Of claims: contradicted, exceeded, differs …")
]
Filters = Mapping[str, str | list[str] | None]
"""Values of columns of the tables, of which None is any."""


class Legend(TypedDict):
    """What levels and states mean, by their words."""

    rules: dict[str, str]
    states: dict[str, str]


class _Beside(Legend):
    """What stands beside a page of cells."""

    next_cursor: str | None


LEGEND: Legend = {"rules": RULES, "states": STATES}
"""What stands beside every matrix."""
_UNSAID = dict.fromkeys(("last_seen", "fallback_share", "speedup", "speedup_best", "runs"))
"""What rows by hardware do not say."""
_ADDED = (
    "state",
    "level",
    "speedup",
    "speedup_best",
    "speedup_works",
    "speedup_evidence",
    "fallback_share",
    "evidence_ids",
    "stopped_outcome",
    "stopped_stage",
    "stopped_error",
    "stopped_message",
    "stopped_remedy",
)
"""What the best cell of a model and platform adds to its row over all precisions."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the matrix is asked for."""

    model: str | None
    family: str | None
    platform: str | None
    precision: str | None
    category: str | None
    level: Level
    by_precision: bool
    claims: bool
    no_evidence: bool

    def filters(self) -> dict[str, str | None]:
        """Return what the tables filter by."""
        return msgspec.structs.asdict(self.wanted())

    def wanted(self) -> CellFilters:
        """Return which models and platforms are asked for."""
        return CellFilters(model=self.model, family=self.family, platform=self.platform, category=self.category)


@get("/v1/compatibility", summary="The compatibility matrix: what works where, how well, and what is claimed")
async def compatibility(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    model: Text = None,
    family: Text = None,
    platform: Text = None,
    precision: Text = None,
    hardware: Text = None,
    category: Text = None,
    by_hardware: Flag = False,
    by_precision: Flag = True,
    level: Levelled = "model",
    claims: Flag = False,
    no_evidence: Flag = False,
) -> Response[bytes]:
    """Return one row a model, platform and precision (and hardware): built, ran, verified, measured, and why not.

    Each has a `state` and a `level` by `rules`, its age, its speed over the plain CPU and the events behind it. Without
    `by_precision` one row a model and platform, over all precisions and hardware: the best that was seen. With `level`
    one row a family or category and platform. `claims` adds what documents claim, and cells of which nothing else is
    known; `no_evidence` the cells of the catalogue of which nothing is.
    """
    apart = by_hardware or hardware is not None
    if not by_precision and (apart or precision is not None):
        raise UsageError(
            "a row over all precisions and hardware is asked for, and one of them is named.",
            field="by_precision",
            remedy="Leave out by_precision, or precision, hardware and by_hardware.",
        )
    question = _Asked(
        model=model,
        family=family,
        platform=platform,
        precision=precision,
        category=category,
        level=level,
        by_precision=by_precision,
        claims=claims,
        no_evidence=no_evidence,
    )
    if apart:
        if level != "model" or claims or no_evidence:
            raise UsageError(
                "rows by hardware have no claims, families and gaps.",
                field="level",
                remedy="Leave out hardware and by_hardware.",
            )

        def by_machine(tables: Tables, offset: int, count: int) -> list[Cell]:
            filters = {**question.filters(), "precision": precision, "hardware": hardware}
            return _named(cells_on(tables, filters, offset=offset, limit=count))

        return await by_offset(request, page, by_machine)
    if level == "model" and not claims and not no_evidence:
        return await _paged(request, page, lambda tables, offset, count: _page(tables, question, offset, count))
    return await _paged(request, page, lambda tables, offset, count: _whole(tables, question)[offset : offset + count])


@get("/v1/claims", summary="What documents claim, beside what was seen")
async def claims(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    model: Text = None,
    platform: Text = None,
    verdict: Verdict = None,
) -> Response[bytes]:
    """Return every claim with its source, what was seen of the same, the events, and the claims that say the opposite.

    `verdict`: agrees, contradicted, exceeded, differs (a figure; the hardware is another) or unobserved.
    """

    def fetch(tables: Tables, offset: int, count: int) -> list[ClaimRow]:
        return claim_rows(tables, cells_of(tables), model, platform, verdict)[offset : offset + count]

    return await by_offset(request, page, fetch)


def cells_of(
    tables: Tables, filters: Filters | None = None, *, offset: int | None = None, limit: int | None = None
) -> list[Cell]:
    """Return the cells as they are judged at the position of the tables."""
    now = tables.recorded_at()
    rows = tables.view("cells", filters, offset=offset, limit=limit).to_pylist()
    return cast("list[Cell]", [judged(row, now) for row in rows])


def cells_on(tables: Tables, filters: Filters, *, offset: int | None = None, limit: int | None = None) -> list[Cell]:
    """Return the rows by hardware, judged by what was seen there: nothing of them says a speed, an age or a run."""
    rows: list[Cell] = tables.view("compatibility_by_hardware", filters, offset=offset, limit=limit).to_pylist()
    cells = [judged({**row, **_UNSAID, **_stopped(row), "evidence_ids": [row["evidence"]]}, None) for row in rows]
    return cast("list[Cell]", cells)


def _stopped(row: Cell) -> dict[str, str | None]:
    """Return what stopped it there: how the newest case ended, or the test that found its outputs wrong."""
    document = {name: row[name] for name in ("outcome", "stage", "error", "message", "remedy")}
    if row["verified"] is False and row["ran"]:
        document |= {"outcome": "failed", "stage": "verify"}
    elif row["outcome"] in ("passed", "skipped"):
        document = dict.fromkeys(document)
    return {f"stopped_{name}": value for name, value in document.items()}


async def _paged(
    request: Request[Any, Any, Any], page: Page, fetch: Callable[[Tables, int, int], list[Cell]]
) -> Response[bytes]:
    """Return a page of rows in their own order, beside the rules by which they are judged."""

    def answer(tables: Tables) -> tuple[list[Cell], _Beside]:
        rows = fetch(tables, page.offset, page.limit + 1)
        following = None
        if len(rows) > page.limit:
            following = Cursor(tables.position, page.offset + page.limit, tables.history).text()
        return _named(rows[: page.limit]), {"next_cursor": following, **LEGEND}

    return await rows_response(request, page.at, answer)


def _named(rows: list[Cell]) -> list[Cell]:
    for row in rows:
        if "model_id" in row and "model" not in row:
            row["model"] = row["model_id"]
        if "hardware_id" in row and "hardware" not in row:
            row["hardware"] = row["hardware_id"]
    return rows


def _page(tables: Tables, request: _Asked, offset: int, count: int) -> list[Cell]:
    """Return some rows, read no further than these."""
    filters = request.filters()
    if request.by_precision:
        return cells_of(tables, {**filters, "precision": request.precision}, offset=offset, limit=count)
    rows: list[Cell] = tables.view("matrix", filters, offset=offset, limit=count).to_pylist()
    models = sorted({str(row["model_id"]) for row in rows})
    return _joined(rows, cells_of(tables, {"model": models}) if models else [])


def _joined(rows: Sequence[Cell], cells: Iterable[Cell]) -> list[Cell]:
    """Add to each row of a model and platform what its best cell says, and when any was tried last, in how many runs put together."""
    of: dict[tuple[str | None, str], list[Cell]] = {}
    for cell in cells:
        of.setdefault((cell["model_id"], cell["platform"]), []).append(cell)
    result = []
    for row in rows:
        members = of[row["model_id"], row["platform"]]
        best = best_of(members)
        newest = max(members, key=lambda cell: (cell["last_seen"] is not None, cell["last_seen"]))
        tries = sum(cell["runs"] or 0 for cell in members)
        document = {
            **row,
            **{name: best[name] for name in _ADDED},
            **{name: newest[name] for name in ("last_seen", "age_days", "stale")},
            "best_precision": best["precision"],
            "tries": tries,
        }
        result.append(cast("Cell", document))
    return result


def _whole(tables: Tables, request: _Asked) -> list[Cell]:
    """Return all rows: cells or groups of them, then what is claimed, then what nobody tried."""
    cells = cells_of(tables, {**request.filters(), "precision": request.precision})
    if request.level != "model":
        rows = [_grouped_row(cast("Cell", row), request.level) for row in grouped(cells, request.level)]
    elif request.by_precision:
        rows = list(cells)
    else:
        rows = _joined(tables.view("matrix", request.filters()).to_pylist(), cells)
    if request.claims:
        every = cells_of(tables)
        rows = with_claims(tables, rows, every, level=request.level, wanted=request.wanted())
    if request.no_evidence and request.level == "model":
        rows += _gaps(tables, rows, request)
    return rows


def _grouped_row(row: Cell, level: Level) -> Cell:
    if level != "family":
        del row["family"]
    return row


def _gaps(tables: Tables, rows: Iterable[Cell], request: _Asked) -> list[Cell]:
    """Return a row for each model of the catalogue and each platform of which nothing is known."""
    there = {(row.get("model_id"), row["platform"]) for row in rows}
    wanted = tables.resolve_model(request.model) if request.model else None
    result: list[Cell] = [
        {
            "model_id": item.id,
            "platform": platform,
            "category": item.category,
            "family": item.family,
            "state": "no evidence",
            "level": None,
        }
        for item in catalogue()
        if wanted in (None, item.id)
        and request.category in (None, item.category)
        and request.family in (None, item.family)
        for platform in PLATFORMS[:-1]
        if request.platform in (None, platform) and (item.id, platform) not in there
    ]
    return sorted(result, key=lambda row: (str(row["model_id"]), place(row["platform"])))


router = Router("/", route_handlers=[compatibility, claims], dependencies=DEPENDENCIES, tags=["tables"])
