"""Free SQL over the documented views, in a child process on a copy of the tables; and what those views mean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import JSONBody

from api.background import child
from api.container import QUERIES, Container
from api.http.as_of import Asked, resolved
from api.http.formats import JSON, chosen_format, etag, headers_of
from api.http.paging import Text
from api.http.select import RESULT_BYTES
from domain.errors import TooBusy
from ingest.projection import reference
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["Query", "router"]

TIMEOUT_S = 10.0


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One SELECT; at most `limit` rows come back, and `truncated` says where more were there.

    With `as_of`, a position or its name, the views are as of then; the tables behind them are not.
    """

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 10_000
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = TIMEOUT_S
    as_of: Asked = None
    min_position: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """The documented views of a schema version."""

    schema: int
    views: tuple[reference.View, ...]


@post("/v1/query", status_code=200, summary="One SELECT over the documented views", tags=["query"])
async def query(request: Request[Any, Any, Any], data: JSONBody[Query]) -> Response[bytes]:
    """Return columns (name and type) and rows (lists of values in JSON), the position they are of, and `truncated`."""
    container: Container = request.app.state.parts
    media = chosen_format(request)
    as_of = await resolved(container, data.as_of, data.min_position)
    await container.reach(data.min_position)
    await container.reach(as_of, "as_of")
    needed = max((item for item in (data.min_position, as_of) if item is not None), default=None)
    history = str(container.projection.history)
    with ExitStack() as stack:
        stack.enter_context(_counted(container))
        path, position = await asyncio.to_thread(stack.enter_context, container.snapshot(needed))
        beside = {"position": position if as_of is None else min(position, as_of), "schema": SCHEMA_VERSION}
        question = {
            "path": str(path),
            "sql": data.sql,
            "limit": data.limit,
            "timeout_s": data.timeout_s,
            "as_of": as_of,
            "media": media,
            "beside": beside,
        }
        # Text in JSON may be longer than in Arrow: whatever comes, so much of it is kept.
        work = child.run("query", question, timeout_s=data.timeout_s, most_bytes=2 * RESULT_BYTES, stranger="sql")
        unless_left = await child.unless_left(request.receive, work)
    if media == JSON:
        return Response(unless_left.content, media_type=JSON, headers={"Vary": "Accept"})
    headers = headers_of(etag(history, beside["position"], "", media), unless_left.document)
    return Response(unless_left.content, media_type=media, headers=headers)


@get("/v1/schema/tables", summary="What the views mean, column by column", tags=["schema"])
async def tables(view: Text = None) -> Reference:
    """Return the views with the type, unit and meaning of their columns; with `view`, that one."""
    views = await asyncio.to_thread(reference.views)
    return Reference(schema=SCHEMA_VERSION, views=views if view is None else (reference.view(view),))


@contextmanager
def _counted(container: Container) -> Iterator[None]:
    """Let in only so many queries at a time: each is a process that may take half a gigabyte."""
    if container.queries >= QUERIES:
        raise TooBusy(f"{QUERIES} queries are under way.", field="sql", remedy="Retry after a second.")
    container.queries += 1
    try:
        yield
    finally:
        container.queries -= 1


router = Router("/", route_handlers=[query, tables])
