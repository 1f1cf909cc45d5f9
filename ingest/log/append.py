"""One batch into the log: the statements, their order, and what became of each event."""

from __future__ import annotations

import functools
import struct
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec
from psycopg import AsyncConnection, sql
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import copy_to, execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from domain.canonical import first_difference
from domain.errors import ServiceUnavailable, VersionConflict
from domain.events import Decoded
from ingest.log.chain import CHAINED, EPOCH_US
from ingest.log.postgres import UNSAFE, not_durable
from ingest.log.schema import ORDERING_LOCK

__all__ = ["Appended", "Bodies", "Expected", "LogConnection", "append_batch"]

Status = Literal["accepted", "duplicate", "conflict"]
Bodies = Callable[[Sequence[int]], Awaitable[dict[int, str]]]
"""Returns bodies by position that have left the database; one that has expired is left out."""

_LOCK = f"SELECT pg_advisory_xact_lock({ORDERING_LOCK})"
_PREPARE = f"""
PREPARE assay_known_and_new (uuid[], bigint) AS
WITH known AS MATERIALIZED (SELECT id, position, digest FROM event WHERE id = ANY($1)),
head AS (SELECT position, chain FROM event ORDER BY position DESC LIMIT 1)
SELECT array_to_string(ARRAY({UNSAFE}), ' '),
    (SELECT string_agg(id || ' ' || position || ' ' || encode(digest, 'hex'), ',') FROM known),
    array_to_string(ARRAY(SELECT nextval('event_position_seq') FROM generate_series(1, $2 - (SELECT count(*) FROM known))), ' '),
    coalesce((SELECT position FROM head), 0),
    encode(coalesce((SELECT chain FROM head), (SELECT sha256(uuid_send(id)) FROM log)), 'hex'),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
"""
_PREPARED = "SELECT name FROM pg_prepared_statements WHERE name = 'assay_known_and_new'"
_RAISE = "SELECT setval('event_position_seq', (SELECT max(position) FROM event))"
_VERSION = "SELECT coalesce(max(position), 0) FROM event WHERE subject = {}"
_BODIES = "SELECT position, body FROM event WHERE position = ANY(%s)"
_COPY = f"COPY event ({CHAINED}, chain, body) FROM STDIN (FORMAT BINARY)"
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = struct.pack("!h", -1)
_COPY_PIECE_BYTES = 2**20
"""So much of a batch is handed over at a time: libpq keeps the room that it once needed."""
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)
_COLUMNS = struct.pack("!h", 11)
_ROW_HEAD = struct.Struct("!iqiq")
_ID_AND_DIGEST = struct.Struct("!i16si32s")
_TIME = struct.Struct("!iq")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
_DIGEST_LENGTH = _LENGTH.pack(32)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class LogConnection(AsyncConnection[Any]):
    """A connection to the log, in autocommit mode.

    `answered_at` is when it last answered, by the clock of the loop. `prepared` is true where it certainly has planned the
    question of `append_batch`, which takes longer than the answer.
    """

    answered_at = -inf
    prepared = False


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer believes of a subject: that its newest event has the position `version`; 0 = it has none."""

    subject: str
    version: int


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one event: its position in the log, and where it conflicts, the path of the first difference."""

    position: int
    status: Status
    difference: str | None = None

    @property
    def detail(self) -> str | None:
        """A sentence for the one who sent it; None unless it conflicts."""
        if self.status != "conflict":
            return None
        return (
            f"the log holds another event of this id at position {self.position}; "
            f"the first difference is at {self.difference}."
        )


async def append_batch(
    connection: LogConnection, events: Sequence[Decoded], archived: Bodies, expected: Expected | None = None
) -> list[Appended]:
    """Append the events in their order in one transaction, and return what became of each, after the commit.

    `archived` is asked for the text of an event that came again in another spelling. VersionConflict where `expected`
    does not hold; a batch that the log knows whole is a repeated one, and asks for no version. ServiceUnavailable where
    the server could lose what it commits. A transaction that has begun on the connection is the one; whoever began it
    commits it. Otherwise the connection is in autocommit mode, and after an error the caller rolls back.
    """
    if not events:
        return []
    first: dict[str, Decoded] = {}
    for event in events:
        first.setdefault(event.id, event)
    # Made before the lock is taken: nobody waits for what is only this writer's own work.
    rows = {event.id: _row(event) for event in first.values()}
    begun = connection.info.transaction_status == TransactionStatus.INTRANS
    existing, head = await _ask(connection, first, expected, begin=not begun)
    new = [identifier for identifier in first if identifier not in existing]
    placed = dict(zip(new, head.positions, strict=True))
    await _finish(connection, _linked(placed, rows, head))
    return await _judged(connection, events, first, placed, existing, archived)


async def _judged(
    connection: AsyncConnection[Any],
    events: Sequence[Decoded],
    first: dict[str, Decoded],
    placed: dict[str, int],
    existing: dict[str, tuple[int, bytes]],
    archived: Bodies,
) -> list[Appended]:
    """Return what became of each event; the texts of those that came again in other bytes are read."""
    if len(placed) == len(events):
        return [Appended(position=position, status="accepted") for position in placed.values()]
    other = [
        existing[event.id][0] for event in events if event.id in existing and existing[event.id][1] != event.digest
    ]
    return _answers(events, first, placed, existing, await _texts(connection, other, archived) if other else {})


class _Head(NamedTuple):
    """Where a batch is appended: its positions, the link of the event before it, and when it is recorded."""

    positions: list[int]
    link: bytes
    recorded_at_us: int


async def _ask(
    connection: LogConnection, first: dict[str, Decoded], expected: Expected | None, *, begin: bool
) -> tuple[dict[str, tuple[int, bytes]], _Head]:
    """Take the lock, begin the COPY, and return position and digest of the ids that are known and the head for the others.

    All statements go in one message, those after the COPY too: the server executes them when the COPY has ended.
    """
    statements = [
        # A statement of its own: those after it take their snapshot and draw positions when the lock is held, so that
        # positions become visible in their order. A lock taken inside them would come too late, and a tailing reader
        # would pass over a lower position that is committed after a higher one.
        _LOCK,
        f"EXECUTE assay_known_and_new('{{{','.join(first)}}}', {len(first)})",
        _COPY,
    ]
    if expected is not None:
        statements.insert(2, sql.SQL(_VERSION).format(sql.Literal(expected.subject)).as_string(connection))
    if begin:
        statements = ["BEGIN", *statements, "COMMIT"]
    if not connection.prepared:
        await _prepare(connection)
    while True:
        results = await _sent(connection, "; ".join(statements))
        question = results[2 if begin else 1]
        unsafe, ids, positions, last, chain, now = (question.get_value(0, column) or b"" for column in range(6))
        drawn = [int(position) for position in positions.split()]
        if unsafe:
            await _give_up(connection)
            raise not_durable(unsafe.decode().split())
        if not chain:
            await _give_up(connection)
            raise ServiceUnavailable("the log has no identity: its table `log` is empty.", remedy="Restore a backup.")
        if expected is not None and drawn:
            version = int(results[-2].get_value(0, 0) or 0)
            if version != expected.version:
                await _give_up(connection)
                raise _moved(expected, version)
        if not drawn or drawn[0] > int(last):
            break
        # The sequence was set back. A position below the head would be skipped by those who follow the log.
        await _finish(connection, _COPY_HEAD + _COPY_END)
        await _sent(connection, "; ".join(["BEGIN", _LOCK, _RAISE, "COMMIT"] if begin else [_RAISE]))
    existing = {}
    for entry in ids.decode().split(",") if ids else ():
        identifier, position, digest = entry.split()
        existing[identifier] = (int(position), bytes.fromhex(digest))
    return existing, _Head(drawn, bytes.fromhex(chain.decode()), int(now) - EPOCH_US)


async def _prepare(connection: LogConnection) -> None:
    cursor = await connection.execute(_PREPARED, prepare=False)
    if await cursor.fetchone() is None:
        await connection.execute(_PREPARE, prepare=False)
    connection.prepared = True


async def _sent(connection: AsyncConnection[Any], statements: str) -> Sequence[PGresult]:
    """Return the results of statements up to a COPY, which then waits for its rows; raise where one failed."""
    # Not a cursor: at each statement it would spend as much as the whole exchange does here.
    connection.pgconn.send_query(statements.encode(connection.info.encoding))
    return _succeeded(connection, await connection.wait(execute(connection.pgconn)))


async def _finish(connection: AsyncConnection[Any], content: bytes) -> None:
    """Give the COPY its rows; return when it and what follows it are done."""
    _succeeded(connection, await connection.wait(_copied(connection.pgconn, content)))


async def _give_up(connection: AsyncConnection[Any]) -> None:
    """End the COPY, and with it what follows it and the transaction, as failed."""
    connection.pgconn.put_copy_end(b"given up")
    await connection.wait(execute(connection.pgconn))


def _copied(pgconn: PGconn, content: bytes) -> PQGen[list[PGresult]]:
    for begin in range(0, len(content), _COPY_PIECE_BYTES):
        end = begin + _COPY_PIECE_BYTES
        yield from copy_to(pgconn, content[begin:end], flush=end < len(content))
    pgconn.put_copy_end()
    results: list[PGresult] = yield from execute(pgconn)
    return results


def _succeeded(connection: AsyncConnection[Any], results: Sequence[PGresult]) -> Sequence[PGresult]:
    for result in results:
        if result.status in _FAILED:
            raise error_from_result(result, connection.info.encoding)
    return results


async def _texts(connection: AsyncConnection[Any], positions: Sequence[int], archived: Bodies) -> dict[int, str]:
    rows = await (await connection.execute(_BODIES, [positions])).fetchall()
    texts = {position: body for position, body in rows if body is not None}
    away = [position for position, body in rows if body is None]
    return texts | await archived(away) if away else texts


def _answers(
    events: Sequence[Decoded],
    first: dict[str, Decoded],
    placed: dict[str, int],
    values: dict[str, tuple[int, bytes]],
    texts: dict[int, str],
) -> list[Appended]:
    """Return one answer an event, in their order: new, known with the same content, or in conflict."""
    answers = []
    unanswered = set(placed)
    for event in events:
        original = first[event.id]
        if event.id in values:
            position, digest = values[event.id]
            answers.append(_again(event, position, digest, texts.get(position)))
        elif event.id in unanswered:
            unanswered.remove(event.id)
            answers.append(Appended(position=placed[event.id], status="accepted"))
        else:
            answers.append(_again(event, placed[event.id], original.digest, original.raw))
    return answers


def _again(event: Decoded, position: int, digest: bytes, stored: bytes | str | None) -> Appended:
    """Judge an event whose id is known: the spelling does not matter, the content does."""
    if event.digest == digest:
        return Appended(position=position, status="duplicate")
    if stored is None:
        # Of samples that have expired nothing is left to compare with but the digest, and that differs.
        return Appended(position=position, status="conflict", difference="$")
    difference = first_difference(msgspec.json.decode(stored), event.event)
    if difference is None:
        return Appended(position=position, status="duplicate")
    return Appended(position=position, status="conflict", difference=difference)


def _moved(expected: Expected, version: int) -> VersionConflict:
    error = VersionConflict(
        f"the newest event of {expected.subject[:80]!r} is at position {version}, not {expected.version}; "
        "nothing was appended.",
        field="expected_version",
        remedy="Read the subject's events anew, decide again, and send with the version they give.",
    )
    error.version = version
    return error


def _linked(placed: dict[str, int], rows: dict[str, tuple[bytes, bytes, bytes]], head: _Head) -> bytes:
    """Return the content of a binary COPY of the new events, each linked to the one before it."""
    content = [_COPY_HEAD]
    previous = head.link
    pack, recorded_at_us = _ROW_HEAD.pack, head.recorded_at_us
    for identifier, position in placed.items():
        fields, length, body = rows[identifier]
        chained = pack(8, position, 8, recorded_at_us) + fields
        previous = sha256(previous + chained).digest()  # Written out: every writer waits for this loop.
        content += (_COLUMNS, chained, _DIGEST_LENGTH, previous, length, body)
    content.append(_COPY_END)
    return b"".join(content)


def _row(event: Decoded) -> tuple[bytes, bytes, bytes]:
    """Return the event's chained fields after recorded_at, and length and text of its body, as a binary COPY encodes them."""
    fields = (
        _ID_AND_DIGEST.pack(16, bytes.fromhex(event.id.replace("-", "")), 32, event.digest),
        _words(event.attestation, event.type, event.source),
        _NULL if event.subject is None else _text(event.subject.encode()),
        _NULL if event.time is None else _moment(event.time),
    )
    return b"".join(fields), _LENGTH.pack(len(event.raw)), event.raw


def _moment(time: datetime) -> bytes:
    since = time - _EPOCH
    return _TIME.pack(8, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def _text(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


@functools.lru_cache(maxsize=1024)
def _words(*values: str) -> bytes:
    """Return what thousands of events have in common."""
    return b"".join(_text(value.encode()) for value in values)
