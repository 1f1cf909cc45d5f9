"""Free SQL over the documented views, in a child process on a copy of the tables."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from api import child
from api.formats import CSV, JSON, chosen_format, etag, respond
from api.parts import QUERIES, Parts
from domain.errors import TooBusy

__all__ = ["Query", "router"]

TIMEOUT_S = 10.0


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One SELECT; at most `limit` rows come back, and `truncated` says where more were there."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 10_000
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = TIMEOUT_S
    min_position: Annotated[int, msgspec.Meta(ge=0)] | None = None


@post("/v1/query", status_code=200, summary="One SELECT over the documented views")
async def query(request: Request[Any, Any, Any], data: JSONBody[Query]) -> Response[bytes]:
    """Return columns (name and type) and rows (lists of values in JSON), the position they are of, and `truncated`."""
    parts: Parts = request.app.state.parts
    media = chosen_format(request)
    await parts.reach(data.min_position)
    with ExitStack() as stack:
        stack.enter_context(_counted(parts))
        path, position = await asyncio.to_thread(stack.enter_context, parts.snapshot(data.min_position))
        asked = {"path": str(path), "sql": data.sql, "limit": data.limit, "timeout_s": data.timeout_s}
        found = await child.run("query", asked, timeout_s=data.timeout_s)
    tag = etag(position, "", media)
    table = pa.ipc.open_stream(io.BytesIO(base64.b64decode(found["rows"]))).read_all()
    beside = {"position": position, "truncated": found["truncated"], "columns": found["columns"]}
    if media != JSON:
        return respond(request, _writable(table) if media == CSV else table, tag, beside).response()
    values = [column.to_pylist() for column in table.columns]
    rows = [list(row) for row in zip(*values, strict=True)]
    content = msgspec.json.encode({**beside, "rows": rows}, enc_hook=str)
    return Response(content, media_type=JSON, headers={"Vary": "Accept"})


@contextmanager
def _counted(parts: Parts) -> Iterator[None]:
    """Let in only so many queries at a time: each is a process that may take half a gigabyte."""
    if parts.queries >= QUERIES:
        raise TooBusy(f"{QUERIES} queries are under way.", field="sql", remedy="Retry after a second.")
    parts.queries += 1
    try:
        yield
    finally:
        parts.queries -= 1


def _writable(table: pa.Table) -> pa.Table:
    """Arrow's writer of CSV knows no types of other libraries: their storage is written."""
    for index, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            stored = pa.chunked_array([chunk.storage for chunk in table.column(index).chunks], field.type.storage_type)
            table = table.set_column(index, field.name, stored)
    return table


router = Router("/", route_handlers=[query], tags=["query"])
