"""The stable views as they are, for programs that take all of one: typed columns, long pages, one state."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from api.http.paging import DEPENDENCIES, At, Cursor, Row, Text, rows_response
from domain.errors import NotFound, UsageError
from ingest.projection import Tables
from ingest.projection.statements import SCHEMA_VERSION, VIEWS
from ingest.projection.view_queries import KEYS, ORDER, column

__all__ = ["router"]

LONGEST = 10_000
"""Rows of a page: about 10 MB of measurements."""
TYPE = "assay.type"
"""Of an Arrow field's metadata: the column's type in DuckDB's words."""
NAMES = tuple(name for name in VIEWS if name in ORDER)
"""Every view that has an order, so that it can be read page by page."""

Name = Annotated[str, PathParameter(min_length=1, max_length=100)]
Columns = Annotated[
    str | None, QueryParameter(max_length=5000, description="Names between commas; all columns by default.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=LONGEST)]
From = Annotated[str | None, QueryParameter(max_length=500, description="The Assay-Next-Cursor of the page before.")]
Verdicts = Annotated[list[str] | None, QueryParameter(max_items=10, description="Rows with one of these verdicts.")]
Batch = Annotated[int | None, QueryParameter(ge=1, le=2**53 - 1)]


@get("/v1/tables", summary="The stable views and their columns")
async def tables(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return each view by name with the names and DuckDB types of its columns."""

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        rows = [
            {"name": name, "columns": [{"name": key, "type": kind} for key, kind in _columns(tables, name).items()]}
            for name in NAMES
        ]
        return rows, {"schema": SCHEMA_VERSION}

    return await rows_response(request, at, answer)


@get("/v1/tables/{view:str}", summary="A stable view, typed and whole")
async def table(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    view: Name,
    cursor: From = None,
    limit: Limit = 1000,
    columns: Columns = None,
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    mode: Text = None,
    origin: Text = None,
    category: Text = None,
    family: Text = None,
    configuration: Text = None,
    run_id: Text = None,
    batch_size: Batch = None,
    verdict: Verdicts = None,
) -> Response[bytes]:
    """Return rows of a view in its own order and types; all pages of a cursor are of the first one's position.

    A filter that the view has no column for is refused. Arrow fields say the column's type in the tables as `assay.type`.
    """
    if view not in NAMES:
        raise NotFound(f"no view is called {view!r}.", field="view", remedy="GET /v1/tables lists them.")
    begin = Cursor.read(cursor) if cursor else None
    if begin is not None:
        at = At(as_of=begin.position, min_position=at.min_position)
    offset = begin.offset if begin is not None else 0
    filters = {
        "model": model,
        "hardware": hardware,
        "platform": platform,
        "precision": precision,
        "mode": mode,
        "origin": origin,
        "category": category,
        "family": family,
        "configuration": configuration,
        "run_id": run_id,
        "batch_size": batch_size,
        "verdict": verdict,
    }
    wanted = columns.split(",") if columns else []

    def answer(tables: Tables) -> tuple[Any, Row]:
        existing = _columns(tables, view)
        _require(view, existing, [column(name) for name, value in filters.items() if value is not None], "filter")
        _require(view, existing, wanted, "columns")
        key = ORDER[view] if ORDER[view] in KEYS else None
        read = [*wanted, *((key,) if key and key not in wanted else ())] if wanted else None
        rows = tables.view(
            view,
            filters,
            columns=read,
            limit=limit + 1,
            after=offset if key else None,
            offset=None if key else offset,
        )
        more, rows = rows.num_rows > limit, rows.slice(0, limit)
        following = None
        if more:
            reached = rows[key][-1].as_py() if key else offset + limit
            following = Cursor(tables.position, reached, tables.history).text()
        if wanted:
            rows = rows.select(wanted)
        return _plain(rows, existing), {"view": view, "schema": SCHEMA_VERSION, "next_cursor": following}

    return await rows_response(request, at, answer)


def _columns(tables: Tables, view: str) -> dict[str, str]:
    sql = tables.cursor.sql(f'SELECT * FROM main."{view}" LIMIT 0')
    return dict(zip(sql.columns, map(str, sql.types), strict=True))


def _require(view: str, existing: dict[str, str], names: list[str], field: str) -> None:
    for name in names:
        if name not in existing:
            raise UsageError(
                f"the view {view} has no column {name!r}.", field=field, remedy=f"It has {', '.join(existing)}."
            )


def _plain(table: pa.Table, names: dict[str, str]) -> pa.Table:
    """Return rows with the storage of types that only DuckDB knows, and every column's type in its field's metadata."""
    fields, arrays = [], []
    for field, values in zip(table.schema, table.columns, strict=True):
        kind = field.type
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
            values = pa.chunked_array([chunk.storage for chunk in values.chunks], kind)
        fields.append(pa.field(field.name, kind, metadata={TYPE: names[field.name]}))
        arrays.append(values)
    return pa.table(arrays, schema=pa.schema(fields))


router = Router("/", route_handlers=[tables, table], dependencies=DEPENDENCIES, tags=["tables"])
