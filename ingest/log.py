"""The event log: append and read; facts go in and are never changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from domain.errors import ServiceUnavailable, TooBusy
from domain.events import Decoded
from ingest.append import Appended, append_batch, prepare
from ingest.artifacts import Artifact, ArtifactStore

__all__ = ["Appended", "EventLog", "Stored"]

_READ = """
SELECT position, id::text, type, source, subject, time, recorded_at, body FROM event
WHERE position > %(after)s
  AND (%(upto)s::bigint IS NULL OR position <= %(upto)s)
  AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
ORDER BY position LIMIT %(limit)s
"""
_GET = """
SELECT position, id::text, type, source, subject, time, recorded_at, body FROM event
WHERE id = ANY(%s::uuid[]) ORDER BY position
"""
_LAST = "SELECT coalesce(max(position), 0) FROM event"
_RECORDED_AT = "SELECT recorded_at FROM event WHERE position <= %s ORDER BY position DESC LIMIT 1"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the log holds it; `body` is its text exactly as it was sent."""

    position: int
    id: str
    type: str
    source: str
    subject: str | None
    time: datetime | None
    recorded_at: datetime
    body: str

    @property
    def event(self) -> dict[str, Any]:
        """The envelope as a JSON object."""
        value: dict[str, Any] = msgspec.json.decode(self.body)
        return value


class EventLog:
    """The log in one Postgres database, for one event loop; an async context manager.

    `url` is a libpq URL. At most `connections` are used; who finds none free within `patience_s` gets TooBusy.
    A Postgres that does not answer is ServiceUnavailable, and the next call tries anew.
    """

    def __init__(self, url: str, *, connections: int = 8, patience_s: float = 5.0) -> None:
        self.url = url
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=connections,
            max_waiting=connections * 64,
            timeout=patience_s,
            open=False,
            configure=prepare,
            check=AsyncConnectionPool.check_connection,
            kwargs={"connect_timeout": 5},
        )

    async def open(self) -> None:
        """Connect; ServiceUnavailable where Postgres does not answer or the schema is not there."""
        await self._pool.open()
        try:
            await self.last_position()
        except BaseException:
            # The pool goes on trying in the background, and its tasks would outlive a loop that ends now.
            await self._pool.close()
            raise

    async def close(self) -> None:
        """Disconnect after the work that is under way."""
        await self._pool.close()

    async def __aenter__(self) -> EventLog:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def append(self, events: Sequence[Decoded]) -> list[Appended]:
        """Append a batch in one transaction and return one answer an event, in order, after the commit.

        An id that the log knows is `duplicate` with its position where the canonical JSON is the same, and `conflict`
        where anything differs, the source included; neither is stored, and neither hinders the others.
        """
        async with self._connection() as connection:
            return await append_batch(connection, events)

    async def read(
        self, after: int = 0, limit: int = 1000, types: Sequence[str] | None = None, upto: int | None = None
    ) -> list[Stored]:
        """Return up to `limit` events with `after` < position ≤ `upto`, in order.

        What is returned is complete: no event will ever appear below a position that has been seen.
        """
        values = {"after": after, "limit": limit, "types": list(types) if types is not None else None, "upto": upto}
        return [_stored(row) for row in await self._fetch(_READ, values)]

    async def get(self, ids: Sequence[str]) -> list[Stored]:
        """Return the events of these ids that exist, in the order of the log."""
        return [_stored(row) for row in await self._fetch(_GET, [list(ids)])]

    async def last_position(self) -> int:
        """Return the highest position; 0 for an empty log."""
        return int((await self._fetch(_LAST))[0][0])

    async def recorded_at(self, position: int) -> datetime | None:
        """Return when the newest event at or below `position` was recorded: the "now" of answers at that position."""
        rows = await self._fetch(_RECORDED_AT, [position])
        return rows[0][0] if rows else None

    async def put_artifact(self, content: bytes, card: dict[str, Any], kind: str) -> str:
        """Keep bytes under their digest and return it; see ArtifactStore."""
        return await asyncio.to_thread(ArtifactStore(self.url).put, content, card, kind)

    async def get_artifact(self, digest: str) -> Artifact:
        """Return the artifact of this digest; see ArtifactStore."""
        return await asyncio.to_thread(ArtifactStore(self.url).get, digest)

    async def _fetch(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        async with self._connection() as connection:
            cursor = await connection.execute(statement, values)
            rows: list[tuple[Any, ...]] = await cursor.fetchall()
            return rows

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        try:
            async with self._pool.connection() as connection:
                yield connection
        except TooManyRequests as error:
            raise TooBusy("too many requests wait for Postgres.", remedy="Retry after a second.") from error
        except (PoolTimeout, psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ServiceUnavailable(
                f"Postgres does not answer: {error}.", remedy="Retry; what was not acknowledged may be sent again."
            ) from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no event log.", remedy="Run `assay db upgrade` once.") from error


def _stored(row: tuple[Any, ...]) -> Stored:
    position, identifier, type_, source, subject, time, recorded_at, body = row
    return Stored(
        position=position,
        id=identifier,
        type=type_,
        source=source,
        subject=subject,
        time=time,
        recorded_at=recorded_at,
        body=body,
    )
