"""One batch into the log: the statements, their order, and what became of each event."""

from __future__ import annotations

import functools
import struct
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from domain.canonical import first_difference
from domain.errors import ServiceUnavailable, VersionConflict
from domain.events import Decoded
from ingest.log.chain import CHAINED, EPOCH_US
from ingest.log.postgres import UNSAFE, not_durable
from ingest.log.schema import ORDERING_LOCK

__all__ = ["Appended", "Bodies", "Expected", "append_batch"]

Status = Literal["accepted", "duplicate", "conflict"]
Bodies = Callable[[Sequence[int]], Awaitable[dict[int, str]]]
"""Returns bodies by position that have left the database; one that has expired is left out."""

_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_KNOWN_AND_NEW = f"""
WITH known AS MATERIALIZED (SELECT id, position, digest FROM event WHERE id = ANY(%(ids)s::uuid[])),
head AS (SELECT position, chain FROM event ORDER BY position DESC LIMIT 1)
SELECT ARRAY({UNSAFE}), array_agg(id::text), array_agg(position), array_agg(digest),
    ARRAY(SELECT nextval('event_position_seq') FROM generate_series(1, %(events)s - (SELECT count(*) FROM known))),
    coalesce((SELECT position FROM head), 0), coalesce((SELECT chain FROM head), (SELECT sha256(uuid_send(id)) FROM log)),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM known
"""
_DRAW_ABOVE = """
SELECT ARRAY(SELECT nextval('event_position_seq') FROM generate_series(1, %s)) FROM setval('event_position_seq', %s)
"""
_VERSION = "SELECT coalesce(max(position), 0) FROM event WHERE subject = %s"
_BODIES = "SELECT position, body FROM event WHERE position = ANY(%s)"
_COPY = f"COPY event ({CHAINED}, chain, body) FROM STDIN (FORMAT BINARY)"
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = struct.pack("!h", -1)
_COLUMNS = struct.pack("!h", 11)
_ROW_HEAD = struct.Struct("!iqiq")
_ID_AND_DIGEST = struct.Struct("!i16si32s")
_TIME = struct.Struct("!iq")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
_DIGEST_LENGTH = _LENGTH.pack(32)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


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
    connection: AsyncConnection[Any], events: Sequence[Decoded], archived: Bodies, expected: Expected | None = None
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
    existing, head, version = await _ask(connection, first, expected, begin=not begun)
    if expected is not None and head.positions and version != expected.version:
        raise _moved(expected, version)
    new = [identifier for identifier in first if identifier not in existing]
    placed = dict(zip(new, head.positions, strict=True))
    if new:
        content = _linked(placed, rows, head)
        async with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            await copy.write(content)
    if not begun:
        await connection.commit()
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
    connection: AsyncConnection[Any], first: dict[str, Decoded], expected: Expected | None, *, begin: bool
) -> tuple[dict[str, tuple[int, bytes]], _Head, int]:
    """Take the lock; return position and digest of the ids that are known, the head for the others, the version."""
    version = None
    async with connection.pipeline():
        if begin:
            await connection.execute("BEGIN", prepare=False)
        # A statement of its own: those after it take their snapshot and draw positions when the lock is held, so that
        # positions become visible in their order. A lock taken inside them would come too late, and a tailing reader
        # would pass over a lower position that is committed after a higher one.
        await connection.execute(_LOCK, [ORDERING_LOCK])
        cursor = await connection.execute(
            _KNOWN_AND_NEW, {"ids": "{" + ",".join(first) + "}", "events": len(first)}, binary=True
        )
        if expected is not None:
            version = await connection.execute(_VERSION, [expected.subject])
    result = await cursor.fetchone()
    if result is None:
        raise ServiceUnavailable("the log gave no answer.", remedy="Retry.")
    unsafe, ids, positions, digests, drawn, last, chain, now = result
    if unsafe:
        raise not_durable(unsafe)
    if chain is None:
        raise ServiceUnavailable("the log has no identity: its table `log` is empty.", remedy="Restore a backup.")
    if drawn and drawn[0] <= last:
        # The sequence was set back. A position below the head would be skipped by those who follow the log.
        ((drawn,),) = await (await connection.execute(_DRAW_ABOVE, [len(drawn), last])).fetchall()
    existing = {
        identifier: (position, bytes(digest))
        for identifier, position, digest in zip(ids or (), positions or (), digests or (), strict=True)
    }
    row = await version.fetchone() if version is not None else None
    return existing, _Head(drawn, bytes(chain), now - EPOCH_US), row[0] if row else 0


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
