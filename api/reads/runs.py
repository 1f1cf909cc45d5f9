"""Runs: how far each came, what its rows are worth, and one of them with its environment."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from api.http.formats import plain
from api.http.paging import At, Cursor, Page, Row, Text, rows_response
from domain.errors import NotFound
from ingest.projection import Tables
from ingest.projection import runs as known

__all__ = ["one_run", "runs"]

RunId = Annotated[str, PathParameter(min_length=1, max_length=500)]
Outcome = Annotated[
    str | None, QueryParameter(max_length=500, description="What it ended with; `unfinished` or `retracted`.")
]


@get("/v1/runs", summary="Runs, newest first")
async def runs(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    run_id: Text = None,
    kind: Text = None,
    origin: Text = None,
    hardware: Text = None,
    outcome: Outcome = None,
) -> Response[bytes]:
    """Return runs with what became of them and what is there of each: rows by verdict, failures, tests, models.

    `total` counts those that were asked for, `first` is the place of the page's first one, from 1, and `choices` are the
    values that filters take. A retracted run says why; its rows count as `rows_retracted`.
    """
    filters = {"run_id": run_id, "kind": kind, "origin": origin, "hardware": hardware, "outcome": outcome}

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        result = known.found(tables, filters, page.offset, page.limit)
        reached = page.offset + len(result.rows)
        following = Cursor(tables.position, reached, tables.history).text() if reached < result.total else None
        for row in request.app.state.parts.arrivals.beside(result.rows):
            row["id"] = row["event_id"]
        beside = {"total": result.total, "first": page.offset + 1 if result.rows else None, "choices": result.choices}
        return result.rows, {"next_cursor": following, **beside}

    return await rows_response(request, page.at, answer)


@get("/v1/runs/{run_id:str}", summary="One run")
async def one_run(request: Request[Any, Any, Any], at: NamedDependency[At], run_id: RunId) -> Response[bytes]:
    """Return a run as `run`, the `reasons` why rows are not valid, `retractions` of single rows, its `environment`, the run
    before it on any of its devices as `previous`, and what changed of the environment since as `differs`.
    """

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        result = known.one(tables, run_id)
        if result is None:
            raise NotFound(f"no run is called {run_id!r}.", field="run_id", remedy="GET /v1/runs lists them.")
        request.app.state.parts.arrivals.beside([result["run"]])
        reasons = result.pop("reasons")
        return reasons, {name: plain(value) if isinstance(value, dict) else value for name, value in result.items()}

    return await rows_response(request, at, answer, key="reasons")
