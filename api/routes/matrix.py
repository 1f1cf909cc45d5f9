"""The compatibility matrix as a picture needs it: one row a family or model with a cell a platform, filtered, counted, cut.

Cells are judged as those of `/v1/compatibility` are; only what a cell shows comes with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Flag, Text, rows_response
from api.reads.claims import Cell, CellFilters, with_claims
from api.routes.compatibility import LEGEND, Legend, cells_of, cells_on
from domain.answers.compatibility import PlatformTotal
from domain.compatibility.states import STATES, best_of, grouped, place, works
from domain.vocabulary import platforms_named
from ingest.projection import Tables

__all__ = ["router"]

UNKNOWN = "unknown"
"""What `family` and `category` say of models of which nobody said it."""
_SENT = (
    "platform",
    "state",
    "level",
    "models",
    "working",
    "states",
    "speedup",
    "speedup_works",
    "precisions",
    "best_precision",
    "stopped",
    "tries",
    "last_seen",
    "age_days",
    "stale",
    "claimed",
    "claims",
    "contradicted",
)

Level = Literal["family", "model"]
Words = Annotated[list[str] | None, QueryParameter(max_items=50)]
Levelled = Annotated[Level, QueryParameter(description="What a row is of.")]
Offset = Annotated[int, QueryParameter(ge=0, le=10**9)]
Rows = Annotated[int, QueryParameter(ge=1, le=200)]
Stale = Annotated[bool | None, QueryParameter(description="Only rows with a stale cell, or only those without one.")]
Seen = Annotated[
    list[str] | None, QueryParameter(max_items=20, description="Only rows with a cell in one of these states.")
]


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the matrix is asked for, without which part of it."""

    level: Level
    model: str | None
    family: str | None
    category: str | None
    hardware: str | None
    platform: list[str] | None
    seen: list[str] | None
    stale: bool | None
    claims: bool

    def named(self) -> CellFilters:
        """Return the model, family and category that are asked for; of unknown ones, all."""
        family, category = (None if name == UNKNOWN else name for name in (self.family, self.category))
        return CellFilters(model=self.model, family=family, category=category)

    def admits(self, cell: Cell) -> bool:
        """Whether a cell is of an unknown family or category where such are asked for."""
        return not (
            (self.family == UNKNOWN and cell.get("family") is not None)
            or (self.category == UNKNOWN and cell.get("category") is not None)
        )


class Line(TypedDict):
    """A row of the matrix: a family or model with a cell a platform."""

    name: str
    family: str | None
    category: str | None
    models: int
    working: int
    cells: list[Cell]


class Totals(TypedDict):
    """Sums over all rows that match: cells by state, stale cells, and models by platform."""

    cells: dict[str, int]
    stale: int
    platforms: list[PlatformTotal]


class Summary(Totals, Legend):
    """What stands beside the rows of the matrix."""

    total: int


@get("/v1/compatibility/matrix", summary="The compatibility matrix: one row a family or model, one cell a platform")
async def matrix(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    level: Levelled = "family",
    model: Text = None,
    family: Text = None,
    category: Text = None,
    hardware: Text = None,
    platform: Words = None,
    seen: Seen = None,
    stale: Stale = None,
    claims: Flag = False,
    offset: Offset = 0,
    limit: Rows = 40,
) -> Response[bytes]:
    """Return rows with their `cells`, those of which most was tried first, and beside them totals of all that match.

    With `hardware` cells say what was seen on that hardware alone, without speed and age. `family=unknown` are models of which
    nobody said it. `total` counts rows, `platforms` the models that were tried and that work there, `cells` cells by state.
    """
    question = _Asked(
        level=level,
        model=model,
        family=family,
        category=category,
        hardware=hardware,
        platform=platforms_named(platform) if platform else platform,
        seen=seen,
        stale=stale,
        claims=claims and hardware is None,
    )

    def answer(tables: Tables) -> tuple[list[Line], Summary]:
        rows = [row for row in _rows(tables, question) if _matches(row, question)]
        rows.sort(
            key=lambda row: (not row["models"], -row["working"] / (row["models"] or 1), -row["models"], row["name"])
        )
        return rows[offset : offset + limit], {"total": len(rows), **_totals(rows), **LEGEND}

    return await rows_response(request, at, answer)


def _rows(tables: Tables, request: _Asked) -> list[Line]:
    named = request.named()
    filters = {
        "model": named.model,
        "platform": request.platform,
        "family": named.family,
        "category": named.category,
    }
    cells = (
        cells_of(tables, filters)
        if request.hardware is None
        else cells_on(tables, {**filters, "hardware": request.hardware})
    )
    cells = [cell for cell in cells if request.admits(cell)]
    rows = cast("list[Cell]", grouped(cells, "family")) if request.level == "family" else _by_model(cells)
    if request.claims:
        unknown = UNKNOWN in (request.family, request.category)
        every = cells_of(tables) if unknown or any(filters.values()) else cells
        among = set(request.platform or ())
        rows = [
            row
            for row in with_claims(tables, rows, every, level=request.level, wanted=named)
            if (not among or row["platform"] in among) and request.admits(row)
        ]
    return _put_together(rows, request.level)


def _by_model(cells: Iterable[Cell]) -> list[Cell]:
    """Return one row a model and platform: what its best precision says."""
    of: dict[tuple[str | None, str], list[Cell]] = {}
    for cell in cells:
        of.setdefault((cell["model_id"], cell["platform"]), []).append(cell)
    return [_best(members) for members in of.values()]


def _best(members: Sequence[Cell]) -> Cell:
    best = best_of(members)
    document = {
        **best,
        "best_precision": best["precision"],
        "precisions": sorted({str(cell["precision"]) for cell in members if works(cell["state"])}),
        "tries": sum(cell["runs"] or 0 for cell in members),
        "stopped": best["stopped_message"] or best["stopped_error"],
        "models": int(works(best["state"]) is not None),
        "working": int(works(best["state"]) is True),
    }
    return cast("Cell", document)


def _put_together(result: Iterable[Cell], level: Level) -> list[Line]:
    """Return one row a model, or a family and category; a family of several categories is named with each."""
    rows: dict[tuple[str, str], Line] = {}
    for item in result:
        name = str((item.get("model_id") if level == "model" else None) or item.get("family") or UNKNOWN)
        category = item.get("category")
        row = rows.setdefault(
            (name, str(category) if level == "family" else ""),
            {"name": name, "family": item.get("family"), "category": category, "models": 0, "working": 0, "cells": []},
        )
        row["cells"].append(_cell(item))
        row["models"] += item.get("models") or 0
        row["working"] += item.get("working") or 0
    counted = Counter(row["name"] for row in rows.values())
    for row in rows.values():
        row["cells"].sort(key=lambda cell: place(cell["platform"]))
        if counted[row["name"]] > 1:
            row["name"] += f" ({row['category'] or UNKNOWN})"
    return list(rows.values())


def _cell(item: Cell) -> Cell:
    """Return what the matrix sends of a cell."""
    members = dict(item)
    return cast("Cell", {key: members[key] for key in _SENT if key in members})


def _matches(row: Line, request: _Asked) -> bool:
    states = {state for cell in row["cells"] for state in (cell["state"], *(cell.get("states") or ()))}
    if request.seen and not states & set(request.seen):
        return False
    return request.stale is None or any(cell.get("stale") for cell in row["cells"]) == request.stale


def _totals(rows: Iterable[Line]) -> Totals:
    cells = [cell for row in rows for cell in row["cells"]]
    states = Counter(cell["state"] for cell in cells)
    names = sorted({cell["platform"] for cell in cells}, key=place)
    return {
        "cells": {state: states[state] for state in STATES if states[state]},
        "stale": sum(bool(cell.get("stale")) for cell in cells),
        "platforms": [_total(name, [cell for cell in cells if cell["platform"] == name]) for name in names],
    }


def _total(platform: str, cells: Sequence[Cell]) -> PlatformTotal:
    models = sum(cell.get("models") or 0 for cell in cells)
    working = sum(cell.get("working") or 0 for cell in cells)
    return PlatformTotal(platform=platform, models=models, working=working)


router = Router("/", route_handlers=[matrix], dependencies=DEPENDENCIES, tags=["tables"])
