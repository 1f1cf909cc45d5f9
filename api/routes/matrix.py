"""The compatibility matrix as a picture needs it: one row a family or model with a cell a platform, filtered, counted, cut.

Cells are judged as those of `/v1/compatibility` are; only what a cell shows comes with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Flag, Row, Text, rows_response
from api.reads.claims import with_claims
from api.routes.compatibility import LEGEND, cells_of, cells_on
from domain.compatibility.states import STATES, best_of, grouped, place, works
from ingest.projection import Tables

__all__ = ["router"]

UNKNOWN = "unknown"
"""What `family` and `category` say of models of which nobody said it."""
_TOLD = (
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
        platform=platform,
        seen=seen,
        stale=stale,
        claims=claims and hardware is None,
    )

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        rows = [row for row in _rows(tables, question) if _matches(row, question)]
        rows.sort(
            key=lambda row: (not row["models"], -row["working"] / (row["models"] or 1), -row["models"], row["name"])
        )
        return rows[offset : offset + limit], {"total": len(rows), **_totals(rows), **LEGEND}

    return await rows_response(request, at, answer)


def _rows(tables: Tables, request: _Asked) -> list[Row]:
    filters = {
        "model": request.model,
        "platform": request.platform,
        **{name: value for name in ("family", "category") if (value := getattr(request, name)) != UNKNOWN},
    }
    cells = (
        cells_of(tables, **filters)
        if request.hardware is None
        else cells_on(tables, {**filters, "hardware": request.hardware})
    )
    cells = [
        cell
        for cell in cells
        if all(getattr(request, name) != UNKNOWN or cell[name] is None for name in ("family", "category"))
    ]
    by_model = grouped(cells, "family") if request.level == "family" else _by_model(cells)
    if request.claims:
        wanted = {**filters, "platform": None}
        every = cells_of(tables) if any(filters.values()) else cells
        among = set(request.platform or ())
        by_model = [
            row
            for row in with_claims(tables, by_model, every, level=request.level, wanted=wanted)
            if not among or row["platform"] in among
        ]
    return _put_together(by_model, request.level)


def _by_model(cells: Iterable[Row]) -> list[Row]:
    """Return one row a model and platform: what its best precision says."""
    of: dict[tuple[str, str], list[Row]] = {}
    for cell in cells:
        of.setdefault((cell["model_id"], cell["platform"]), []).append(cell)
    return [_best(members) for members in of.values()]


def _best(members: Sequence[Row]) -> Row:
    best = best_of(members)
    return {
        **best,
        "best_precision": best["precision"],
        "precisions": sorted({str(cell["precision"]) for cell in members if works(cell["state"])}),
        "tries": sum(cell["runs"] or 0 for cell in members),
        "stopped": best["stopped_message"] or best["stopped_error"],
        "models": int(works(best["state"]) is not None),
        "working": int(works(best["state"]) is True),
    }


def _put_together(result: Iterable[Row], level: Level) -> list[Row]:
    """Return one row a model, or a family and category; a family of several categories is named with each."""
    rows: dict[tuple[str, str], Row] = {}
    for item in result:
        name = str((item.get("model_id") if level == "model" else None) or item.get("family") or UNKNOWN)
        category = item.get("category")
        row = rows.setdefault(
            (name, str(category) if level == "family" else ""),
            {"name": name, "family": item.get("family"), "category": category, "models": 0, "working": 0, "cells": []},
        )
        row["cells"].append({"platform": item["platform"], **{key: item[key] for key in _TOLD if key in item}})
        row["models"] += item.get("models") or 0
        row["working"] += item.get("working") or 0
    counted = Counter(row["name"] for row in rows.values())
    for row in rows.values():
        row["cells"].sort(key=lambda cell: place(cell["platform"]))
        if counted[row["name"]] > 1:
            row["name"] += f" ({row['category'] or UNKNOWN})"
    return list(rows.values())


def _matches(row: Row, request: _Asked) -> bool:
    states = {state for cell in row["cells"] for state in (cell["state"], *(cell.get("states") or ()))}
    if request.seen and not states & set(request.seen):
        return False
    return request.stale is None or any(cell.get("stale") for cell in row["cells"]) == request.stale


def _totals(rows: Iterable[Row]) -> Row:
    cells = [cell for row in rows for cell in row["cells"]]
    states = Counter(cell["state"] for cell in cells)
    names = sorted({cell["platform"] for cell in cells}, key=place)
    return {
        "cells": {state: states[state] for state in STATES if states[state]},
        "stale": sum(bool(cell.get("stale")) for cell in cells),
        "platforms": [
            {
                "platform": name,
                **{
                    key: sum(cell.get(key) or 0 for cell in cells if cell["platform"] == name)
                    for key in ("models", "working")
                },
            }
            for name in names
        ],
    }


router = Router("/", route_handlers=[matrix], dependencies=DEPENDENCIES, tags=["tables"])
