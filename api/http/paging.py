"""At which state of the log a route answers, and how its lists are cut into pages.

Pages are tied together by a cursor that holds the position of the first page, so that a list read page by page is one
state of the log however much is appended meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter

from api.http.as_of import AsOf, resolved
from api.http.formats import chosen_format, etag, fresh, predictor_in_force, respond
from api.http.media import JSON
from api.http.response_cache import CachedAnswer
from domain.errors import UsageError
from ingest.projection import Tables
from ingest.projection.rows import is_table
from ingest.projection.statements import SCHEMA_VERSION

if TYPE_CHECKING:
    from api.container import Container

__all__ = [
    "DEPENDENCIES",
    "PAGE_LIMIT",
    "At",
    "Flag",
    "MinPosition",
    "Page",
    "Row",
    "Text",
    "by_offset",
    "by_position",
    "document",
    "rows_response",
]

PAGE = 100
PAGE_LIMIT = 1000

MinPosition = Annotated[int | None, QueryParameter(ge=0, description="Wait until the tables hold this position.")]
Text = Annotated[str | None, QueryParameter(max_length=500)]
Flag = Annotated[bool, QueryParameter()]
_Cursor = Annotated[str | None, QueryParameter(max_length=500, description="The next_cursor of the page before.")]
_Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_LIMIT)]

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]] | Sequence[msgspec.Struct]
Fetch = Callable[[Tables, int, int], list[Row]]
"""Rows after a position; at most so many."""
FetchOffset = Callable[[Tables, int, int], Rows]
"""Rows from an offset; at most so many."""
Answer = Callable[[Tables], tuple[Rows, Mapping[str, Any] | msgspec.Struct]]
"""The rows of an answer, and the members beside them."""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page begins: the position of the log that the list is of, how much was read, and the log and epoch."""

    position: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    history: str | None = None

    def text(self) -> str:
        """Return the cursor as it is sent."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Return the cursor in a text that an answer gave; UsageError for another."""
        try:
            return msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise UsageError(
                "not a cursor.", field="cursor", remedy="Give the next_cursor of an answer, or leave it out."
            ) from error


class At(msgspec.Struct, frozen=True, kw_only=True):
    """The state that is asked for: as of a position, or the newest that holds at least one."""

    as_of: int | None = None
    min_position: int | None = None
    history: str | None = None

    def require(self, tables: Tables) -> None:
        """Raise UsageError where the position was one of another log, or of one that has lost events since."""
        if self.history not in (None, tables.history):
            raise UsageError(
                f"the log lost events since, and position {self.as_of} is another state now.",
                field="cursor",
                remedy="Begin the list again.",
            )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list: of which state, from where, and how long."""

    at: At
    offset: int = 0
    limit: int = PAGE


async def _at(request: Request[Any, Any, Any], as_of: AsOf = None, min_position: MinPosition = None) -> At:
    return At(as_of=await resolved(request.app.state.parts, as_of, min_position), min_position=min_position)


def _page(at: NamedDependency[At], cursor: _Cursor = None, limit: _Limit = PAGE) -> Page:
    if not cursor:
        return Page(at=at, limit=limit)
    begin = Cursor.read(cursor)
    first = At(as_of=begin.position, min_position=at.min_position, history=begin.history)
    return Page(at=first, offset=begin.offset, limit=limit)


DEPENDENCIES = {"at": Provide(_at), "page": Provide(_page, sync_to_thread=False)}
"""What routers of lists provide to their handlers as `at` and `page`."""


async def rows_response(
    request: Request[Any, Any, Any], at: At, answer: Answer, *, key: str = "items"
) -> Response[bytes]:
    """Return what `answer` reads from the tables at a position: rows and the members beside them.

    In a thread: DuckDB must not hold up other requests. 304 where the asker holds that state already; the bytes that were
    given before where the same was asked of it.
    """
    container: Container = request.app.state.parts
    media = chosen_format(request)
    await container.reach(at.min_position)
    await container.reach(at.as_of, "as_of")

    def read(tables: Tables) -> Response[bytes]:
        at.require(tables)
        position = tables.position
        tag = etag(tables.history, position, predictor_in_force(tables), media)
        if fresh(request, tag):
            return Response(b"", status_code=304, headers={"ETag": tag, "Vary": "Accept"})
        question = (request.scope["path"], request.scope["query_string"], tag, container.projection.path)
        value = container.answered.find(question)
        if value is None:
            rows, beside = answer(tables)
            envelope = {**_members(beside), "position": position, "schema": SCHEMA_VERSION}
            held = rows if is_table(rows) else [_members(row) for row in rows]
            value = respond(request, held, tag, envelope, key=key)
            container.answered.keep(question, value)
        return value.response()

    return await asyncio.to_thread(container.read, at.as_of, read)


def _members(document: Mapping[str, Any] | msgspec.Struct) -> Mapping[str, Any]:
    return msgspec.structs.asdict(document) if isinstance(document, msgspec.Struct) else document


async def document(request: Request[Any, Any, Any], at: At, answer: Callable[[Tables], Row]) -> Response[bytes]:
    """Return what `answer` reads from the tables at a position as one JSON document, made once for each state of the tables."""
    container: Container = request.app.state.parts
    await container.reach(at.min_position)
    await container.reach(at.as_of, "as_of")

    def read(tables: Tables) -> Response[bytes]:
        state = (
            tables.history,
            tables.position,
            tables.checkpoint,
            predictor_in_force(tables),
            container.projection.path,
        )
        question = (request.scope["path"], request.scope["query_string"], *state)
        values = container.answered.find(question)
        if values is None:
            values = CachedAnswer(msgspec.json.encode(answer(tables)), JSON, {})
            container.answered.keep(question, values)
        return values.response()

    return await asyncio.to_thread(container.read, at.as_of, read)


async def by_position(
    request: Request[Any, Any, Any], page: Page, fetch: Fetch, *, key: str = "position"
) -> Response[bytes]:
    """Return a page of a list in the order of the position, or another key; what comes before it is not read again."""

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        rows = fetch(tables, page.offset, page.limit + 1)
        kept = rows[: page.limit]
        more = len(rows) > page.limit
        return kept, {"next_cursor": Cursor(tables.position, kept[-1][key], tables.history).text() if more else None}

    return await rows_response(request, page.at, answer)


async def by_offset(request: Request[Any, Any, Any], page: Page, fetch: FetchOffset) -> Response[bytes]:
    """Return a page of a list in another order; each row counts."""

    def answer(tables: Tables) -> tuple[Rows, dict[str, str | None]]:
        rows = fetch(tables, page.offset, page.limit + 1)
        more = len(rows) > page.limit
        following = Cursor(tables.position, page.offset + page.limit, tables.history).text() if more else None
        return rows[: page.limit], {"next_cursor": following}

    return await rows_response(request, page.at, answer)
