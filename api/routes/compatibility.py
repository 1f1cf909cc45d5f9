"""The compatibility matrix: what was seen of each cell, how good that is, what is claimed of it, and where that disagrees.

Cells come from the tables, states and levels from `domain.compatibility.states`; claims stand in members of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, Cursor, Flag, Page, Row, Text, by_offset, rows_response
from api.reads.claims import claim_rows, with_claims
from domain.catalogues.models import catalogue
from domain.compatibility.states import RULES, STATES, best_of, grouped, judged, place
from domain.errors import UsageError
from domain.vocabulary import PLATFORMS
from ingest.projection import Tables

__all__ = ["LEGEND", "cells_of", "cells_on", "router"]

Level = Literal["model", "family", "category"]
Levelled = Annotated[Level, QueryParameter(description="What a row is of, beside its platform.")]
Verdict = Annotated[
    str | None, QueryParameter(max_length=50, description="Of claims: contradicted, exceeded, differs …")
]
LEGEND = {"rules": RULES, "states": STATES}
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

    def filters(self) -> dict[str, Any]:
        """Return what the tables filter by."""
        return {"model": self.model, "family": self.family, "platform": self.platform, "category": self.category}


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

        def by_machine(tables: Tables, offset: int, count: int) -> list[Row]:
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

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        return claim_rows(tables, cells_of(tables), model, platform, verdict)[offset : offset + count]

    return await by_offset(request, page, fetch)


def cells_of(tables: Tables, **filters: Any) -> list[Row]:
    """Return the cells as they are judged at the position of the tables."""
    now = tables.recorded_at()
    return [judged(row, now) for row in tables.cells(**filters).to_pylist()]


def cells_on(tables: Tables, filters: Mapping[str, Any], **part: Any) -> list[Row]:
    """Return the rows by hardware, judged by what was seen there: nothing of them says a speed, an age or a run."""
    rows = tables.view("compatibility_by_hardware", filters, **part).to_pylist()
    return [judged({**row, **_UNSAID, **_stopped(row), "evidence_ids": [row["evidence"]]}, None) for row in rows]


def _stopped(row: Row) -> Row:
    """Return what stopped it there: how the newest case ended, or the test that found its outputs wrong."""
    if row["verified"] is False and row["ran"]:
        document = {**row, "outcome": "failed", "stage": "verify"}
    else:
        document = row if row["outcome"] not in ("passed", "skipped") else {}
    return {f"stopped_{name}": document.get(name) for name in ("outcome", "stage", "error", "message", "remedy")}


async def _paged(
    request: Request[Any, Any, Any], page: Page, fetch: Callable[[Tables, int, int], list[Row]]
) -> Response[bytes]:
    """Return a page of rows in their own order, beside the rules by which they are judged."""

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        rows = fetch(tables, page.offset, page.limit + 1)
        following = None
        if len(rows) > page.limit:
            following = Cursor(tables.position, page.offset + page.limit, tables.history).text()
        return _named(rows[: page.limit]), {"next_cursor": following, **LEGEND}

    return await rows_response(request, page.at, answer)


def _named(rows: list[Row]) -> list[Row]:
    for row in rows:
        for noun in ("model", "hardware"):
            if f"{noun}_id" in row and noun not in row:
                row[noun] = row[f"{noun}_id"]
    return rows


def _page(tables: Tables, request: _Asked, offset: int, count: int) -> list[Row]:
    """Return some rows, read no further than these."""
    filters = request.filters()
    if request.by_precision:
        return cells_of(tables, **filters, precision=request.precision, offset=offset, limit=count)
    rows = tables.view("matrix", filters, offset=offset, limit=count).to_pylist()
    models = sorted({row["model_id"] for row in rows})
    return _joined(rows, cells_of(tables, model=models) if models else [])


def _joined(rows: Sequence[Row], cells: Iterable[Row]) -> list[Row]:
    """Add to each row of a model and platform what its best cell says, and when any was tried last, in how many runs put together."""
    of: dict[tuple[str, str], list[Row]] = {}
    for cell in cells:
        of.setdefault((cell["model_id"], cell["platform"]), []).append(cell)
    result = []
    for row in rows:
        members = of[row["model_id"], row["platform"]]
        best, newest = (
            best_of(members),
            max(members, key=lambda cell: (cell["last_seen"] is not None, cell["last_seen"])),
        )
        result.append(
            {
                **row,
                **{name: best[name] for name in _ADDED},
                **{name: newest[name] for name in ("last_seen", "age_days", "stale")},
                "best_precision": best["precision"],
                "tries": sum(cell["runs"] or 0 for cell in members),
            }
        )
    return result


def _whole(tables: Tables, request: _Asked) -> list[Row]:
    """Return all rows: cells or groups of them, then what is claimed, then what nobody tried."""
    cells = cells_of(tables, **request.filters(), precision=request.precision)
    if request.level != "model":
        rows = [_grouped_row(row, request.level) for row in grouped(cells, request.level)]
    elif request.by_precision:
        rows = list(cells)
    else:
        rows = _joined(tables.view("matrix", request.filters()).to_pylist(), cells)
    if request.claims:
        every = cells_of(tables)
        rows = with_claims(tables, rows, every, level=request.level, wanted=request.filters())
    if request.no_evidence and request.level == "model":
        rows += _gaps(tables, rows, request)
    return rows


def _grouped_row(row: Row, level: Level) -> Row:
    return {name: value for name, value in row.items() if level == "family" or name != "family"}


def _gaps(tables: Tables, rows: Iterable[Row], request: _Asked) -> list[Row]:
    """Return a row for each model of the catalogue and each platform of which nothing is known."""
    there = {(row.get("model_id"), row["platform"]) for row in rows}
    wanted = tables.resolve_model(request.model) if request.model else None
    result: list[Row] = [
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
