"""The event log: append and read; facts go in and are never changed."""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, LiteralString, Protocol

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from domain.errors import AssayError, Expired, ServiceUnavailable, TooBusy
from domain.events import UUID, Attestation, Decoded
from domain.sharing.peers import Whence
from ingest.log.append import Appended, Bodies, Expected, LogConnection, append_batch
from ingest.log.artifacts import Artifact, ArtifactStore
from ingest.log.chain import altered
from ingest.log.postgres import SETTLE, UNSAFE, not_durable

__all__ = ["WHENCE", "Appended", "Archived", "EventLog", "Expected", "Stored", "Transaction"]

_COLUMNS = "position, id::text, type, source, subject, time, recorded_at, attestation, digest, body"
_READ = f"SELECT {_COLUMNS} FROM event WHERE %s ORDER BY position LIMIT %%(limit)s"
_CONDITIONS = {
    "after": "position > %(after)s",
    "upto": "position <= %(upto)s",
    "types": "type = ANY(%(types)s)",
    "subject": "subject = %(subject)s",
    "source": "source = %(source)s",
    "sources": "source LIKE ANY(%(sources)s)",
    "relayed": "NOT EXISTS (SELECT FROM peer_arrival AS arrival WHERE arrival.position = event.position)",
    "since": "recorded_at >= %(since)s",
    "until": "recorded_at < %(until)s",
}
_GET = f"SELECT {_COLUMNS} FROM event WHERE id = ANY(%s::uuid[]) ORDER BY position"
_EVENT_SOURCES = "SELECT id::text, source FROM event WHERE id = ANY(%s::uuid[])"
_RUN_SOURCES = "SELECT DISTINCT subject, source FROM event WHERE subject = ANY(%s) AND type = 'assay.run.started.v1'"
_LAST = "SELECT coalesce(max(position), 0) FROM event"
_HEAD = "SELECT (SELECT coalesce(max(position), 0) FROM event), (SELECT epoch FROM log)"
_IDENTITY = "SELECT (SELECT coalesce(max(position), 0) FROM event), epoch, id::text FROM log"
WHENCE = """
SELECT arrival.position, peer.name, arrival.peer_position
FROM peer_arrival AS arrival JOIN peer ON peer.id = arrival.peer WHERE arrival.position = ANY(%s)
"""
"""Which peer brought the events at positions, and where they stand in its log."""
_RECORDED_AT = "SELECT recorded_at FROM event WHERE position <= %s ORDER BY position DESC LIMIT 1"


CHECK_S = 2.0
"""A pooled connection that does not answer within this time is not used."""
FRESH_S = 1.0
"""A connection that answered within this time, and on which nothing has come since, is used without asking it."""


class Archived(Protocol):
    """Where bodies are that have left the database; ingest.archive.archive.Archive is one."""

    def bodies(self, positions: Sequence[int]) -> dict[int, str]:
        """Return the bodies at these positions; what has expired is left out."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the log holds it; `body` is its text exactly as it was sent, None where samples have expired."""

    position: int
    id: str
    type: str
    source: str
    subject: str | None
    time: datetime | None
    recorded_at: datetime
    attestation: Attestation
    digest: bytes
    body: str | None

    @property
    def event(self) -> dict[str, Any]:
        """The envelope as a JSON object; Expired where its body is gone."""
        if self.body is None:
            raise Expired(
                f"the raw samples of event {self.id} have expired.",
                field="id",
                remedy="The measurement that they belong to keeps its figures; measure again for new samples.",
            )
        value: dict[str, Any] = msgspec.json.decode(self.body)
        return value


class Transaction:
    """A transaction of `EventLog.transaction`; `appended` counts the events that it adds to the log."""

    def __init__(self, connection: LogConnection, archived: Bodies) -> None:
        self._connection = connection
        self._archived = archived
        self.appended = 0

    async def fetch(self, statement: LiteralString, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        cursor = await self._connection.execute(statement, values)
        return await cursor.fetchall() if cursor.description is not None else []

    async def copy(self, statement: LiteralString, rows: Iterable[Sequence[Any]]) -> None:
        """Copy rows into a table."""
        async with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                await copy.write_row(row)

    async def append(self, events: Sequence[Decoded]) -> list[Appended]:
        """Append events; see EventLog.append."""
        answers = await append_batch(self._connection, events, self._archived)
        self.appended += sum(answer.status == "accepted" for answer in answers)
        return answers


class EventLog:
    """The log in one Postgres database, for one event loop; an async context manager.

    `url` is a libpq URL; `archive` gives the bodies that have left the database. At most `connections` are used; who finds none free within `patience_s` gets TooBusy.
    A Postgres that does not answer within `deadline_s` is ServiceUnavailable, and the next call tries anew.
    """

    def __init__(
        self,
        url: str,
        *,
        archive: Archived | None = None,
        connections: int = 8,
        patience_s: float = 5.0,
        deadline_s: float = 15.0,
    ) -> None:
        self.url = url
        self._archive = archive
        self._deadline_s = deadline_s
        self._pool: AsyncConnectionPool[LogConnection] = AsyncConnectionPool(
            url,
            connection_class=LogConnection,
            min_size=1,
            max_size=connections,
            max_waiting=connections * 64,
            timeout=patience_s,
            open=False,
            configure=self._configure,
            check=self._check,
            kwargs={"connect_timeout": 5, "autocommit": True},
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

    async def append(self, events: Sequence[Decoded], *, expected: Expected | None = None) -> list[Appended]:
        """Append a batch in one transaction and return one answer an event, in order, after the commit.

        An id that the log knows is `duplicate` with its position where the JSON is the same, and `conflict` where
        anything differs, the source included; neither is stored, and neither hinders the others. VersionConflict, and
        nothing stored, where `expected` does not hold. ServiceUnavailable where the server could lose what it commits.
        """
        async with self._connection() as connection:
            return await append_batch(connection, events, self._archived, expected)

    @asynccontextmanager
    async def transaction(self, deadline_s: float | None = None) -> AsyncIterator[Transaction]:
        """Give a transaction in which tables of this database change together with what is appended to the log.

        It is committed at the end, and rolled back where the block raises. Append last: from then on every other writer waits.
        """
        async with self._connection(deadline_s) as connection, connection.transaction():
            unsafe = await (await connection.execute(UNSAFE)).fetchall()
            if unsafe:
                raise not_durable([name for (name,) in unsafe])
            yield Transaction(connection, self._archived)

    async def read(
        self,
        after: int = 0,
        limit: int = 1000,
        types: Sequence[str] | None = None,
        upto: int | None = None,
        *,
        subject: str | None = None,
        source: str | None = None,
        sources: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        relayed: bool = True,
    ) -> list[Stored]:
        """Return up to `limit` events with `after` < position ≤ `upto` and `since` ≤ recorded_at < `until`, in order.

        `sources` are sources or beginnings of them that end with `*`; without `relayed` what peers brought is left out.
        What is returned is complete: no event will ever appear below a position that has been seen. LogAltered where a
        body is not the one that was appended.
        """
        values = {
            "after": after,
            "upto": upto,
            "types": list(types) if types is not None else None,
            "subject": subject,
            "source": source,
            "sources": [_like(pattern) for pattern in sources] if sources is not None else None,
            "relayed": None if relayed else False,
            "since": since,
            "until": until,
        }
        wanted = {name: value for name, value in values.items() if value is not None}
        statement = _READ % " AND ".join(_CONDITIONS[name] for name in wanted)
        return await self._whole(await self.fetch(statement, {**wanted, "limit": limit}))

    async def get(self, ids: Sequence[str]) -> list[Stored]:
        """Return the events of these ids that exist, in the order of the log."""
        return await self._whole(await self.fetch(_GET, [list(ids)]))

    async def event_sources(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return id and source of the events of these ids that exist; what is not an id in its lower-case form is not."""
        written = [identifier for identifier in ids if UUID.fullmatch(identifier)]
        return [(row[0], row[1]) for row in await self.fetch(_EVENT_SOURCES, [written])]

    async def run_sources(self, run_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return run id and source of the events that started these runs, where their subject is the run."""
        return [(row[0], row[1]) for row in await self.fetch(_RUN_SOURCES, [list(run_ids)])]

    async def last_position(self) -> int:
        """Return the highest position; 0 for an empty log."""
        return int((await self.fetch(_LAST))[0][0])

    async def head(self) -> tuple[int, int]:
        """Return the highest position and the epoch, which grows whenever acknowledged events were lost or replaced."""
        position, epoch = (await self.fetch(_HEAD))[0]
        return int(position), int(epoch or 0)

    async def identity(self) -> tuple[int, int, str]:
        """Return the highest position, the epoch, and the id of the log."""
        rows = await self.fetch(_IDENTITY)
        if not rows:
            raise ServiceUnavailable("the log has no identity: its table `log` is empty.", remedy="Restore a backup.")
        position, epoch, identifier = rows[0]
        return int(position), int(epoch), str(identifier)

    async def whence(self, positions: Sequence[int]) -> dict[int, Whence]:
        """Return by position which peer brought events, and their positions there; others are left out."""
        rows = await self.fetch(WHENCE, [list(positions)]) if positions else []
        return {position: Whence(peer=name, position=there) for position, name, there in rows}

    async def recorded_at(self, position: int) -> datetime | None:
        """Return when the newest event at or below `position` was recorded: the "now" of answers at that position."""
        rows = await self.fetch(_RECORDED_AT, [position])
        return rows[0][0] if rows else None

    async def put_artifact(self, content: bytes, card: dict[str, Any], kind: str) -> str:
        """Keep bytes under their digest and return it; see ArtifactStore."""
        return await asyncio.to_thread(ArtifactStore(self.url).put, content, card, kind)

    async def get_artifact(self, digest: str) -> Artifact:
        """Return the artifact of this digest; see ArtifactStore."""
        return await asyncio.to_thread(ArtifactStore(self.url).get, digest)

    async def _whole(self, rows: list[tuple[Any, ...]]) -> list[Stored]:
        """Return the events of rows, with the bodies that are in the archive."""
        absent = [row[0] for row in rows if row[-1] is None]
        bodies = await self._archived(absent)
        return [_stored(row, bodies) for row in rows]

    async def _archived(self, positions: Sequence[int]) -> dict[int, str]:
        if not positions or self._archive is None:
            return {}
        return await asyncio.to_thread(self._archive.bodies, positions)

    async def fetch(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, committed."""
        async with self._connection() as connection:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall() if cursor.description is not None else []

    async def _configure(self, connection: LogConnection) -> None:
        await connection.execute(SETTLE)

    async def _check(self, connection: LogConnection) -> None:
        """Raise where a connection does not work any more."""
        now = asyncio.get_running_loop().time()
        if now - connection.answered_at > FRESH_S or _is_readable(connection):
            with _deadline(connection, CHECK_S):
                await connection.execute("SELECT 1")

    @asynccontextmanager
    async def _connection(self, deadline_s: float | None = None) -> AsyncIterator[LogConnection]:
        try:
            async with self._pool.connection() as connection:
                try:
                    with _deadline(connection, deadline_s or self._deadline_s):
                        yield connection
                    connection.answered_at = asyncio.get_running_loop().time()
                except AssayError:
                    # When psycopg rolls back, it drops what the session has prepared, if any of that is its own.
                    connection.prepared = False
                    raise
                except BaseException:
                    # Cancelled or cut off in the middle of a COPY it may stay in that mode; no other may get it.
                    await connection.close()
                    raise
        except TooManyRequests as error:
            raise TooBusy("too many requests wait for Postgres.", remedy="Retry after a second.") from error
        except (PoolTimeout, psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise ServiceUnavailable(
                f"Postgres does not answer: {error}.", remedy="Retry; what was not acknowledged may be sent again."
            ) from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise ServiceUnavailable(
                "Postgres takes no writes: it is a standby, or read-only.",
                field="transaction_read_only",
                remedy="Name the primary server in ASSAY_DATABASE_URL, or promote this one.",
            ) from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no event log.", remedy="Run `assay db upgrade` once.") from error


@contextmanager
def _deadline(connection: AsyncConnection[Any], seconds: float) -> Iterator[None]:
    """Hang up on a server that has not answered by then: what waits for it fails, and the pool takes another.

    Cancelling would not do: psycopg then asks the server to cancel, and waits for that.
    """
    hanging_up = asyncio.get_running_loop().call_later(seconds, _hang_up, connection)
    try:
        yield
    finally:
        hanging_up.cancel()


def _is_readable(connection: AsyncConnection[Any]) -> bool:
    """Return whether something has come on an idle connection: what a server says when it ends."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _hang_up(connection: AsyncConnection[Any]) -> None:
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


def _like(pattern: str) -> str:
    """Return a source, or the beginning of one before `*`, as LIKE takes it."""
    begins = pattern.endswith("*")
    text = re.sub(r"([\\%_])", r"\\\1", pattern[:-1] if begins else pattern)
    return f"{text}%" if begins else text


def _stored(row: tuple[Any, ...], bodies: dict[int, str]) -> Stored:
    position, identifier, type_, source, subject, time, recorded_at, attestation, digest, body = row
    if body is not None and sha256(body.encode()).digest() != digest:
        raise altered(position, identifier)
    return Stored(
        position=position,
        id=identifier,
        type=type_,
        source=source,
        subject=subject,
        time=time,
        recorded_at=recorded_at,
        attestation=attestation,
        digest=digest,
        body=bodies.get(position) if body is None else body,
    )
