"""One batch into the log: the statements, their order, and what became of each event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from domain.canonical import first_difference
from domain.events import Decoded
from ingest.schema import ORDERING_LOCK

__all__ = ["Appended", "append_batch", "prepare"]

Status = Literal["accepted", "duplicate", "conflict"]

_STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS staged_event (
    ordinal integer, id uuid, type text, source text, subject text, time timestamptz, digest bytea, body text
) ON COMMIT DELETE ROWS
"""
_COPY = "COPY staged_event (ordinal, id, type, source, subject, time, digest, body) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES = ["int4", "uuid", "text", "text", "text", "timestamptz", "bytea", "text"]
_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_INSERT = """
INSERT INTO event (id, type, source, subject, time, digest, body)
SELECT id, type, source, subject, time, digest, body FROM staged_event ORDER BY ordinal
ON CONFLICT (id) DO NOTHING
RETURNING id::text, position
"""
_KNOWN = """
SELECT event.id::text, event.position, event.digest = staged_event.digest,
       CASE WHEN event.digest <> staged_event.digest THEN event.body END
FROM event JOIN staged_event USING (id)
"""


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


class _Batch:
    """The events of a batch by id: the first of each id is staged, the others are answered from it."""

    def __init__(self, events: Sequence[Decoded]) -> None:
        self.events = events
        self.first: dict[str, Decoded] = {}
        self.staged: set[int] = set()
        for index, event in enumerate(events):
            if event.id not in self.first:
                self.first[event.id] = event
                self.staged.add(index)

    def answer(self, placed: dict[str, int], known: dict[str, tuple[int, str | None]]) -> list[Appended]:
        """Return one answer an event, in their order.

        `placed` holds the positions of new ids; `known` those of ids that were there, with the stored text where it
        differs from the staged event.
        """
        return [self._answer(index, event, placed, known) for index, event in enumerate(self.events)]

    def _answer(
        self, index: int, event: Decoded, placed: dict[str, int], known: dict[str, tuple[int, str | None]]
    ) -> Appended:
        first = self.first[event.id]
        if event.id in placed:
            position = placed[event.id]
            if index in self.staged:
                return Appended(position=position, status="accepted")
            stored: Any = first.event
        else:
            position, text = known[event.id]
            stored = first.event if text is None else json.loads(text)
        difference = None if event.event is stored else first_difference(stored, event.event)
        if difference is None:
            return Appended(position=position, status="duplicate")
        return Appended(position=position, status="conflict", difference=difference)


async def prepare(connection: AsyncConnection[Any]) -> None:
    """Make the staging table of a new connection."""
    await connection.execute(_STAGE)
    await connection.commit()


async def append_batch(connection: AsyncConnection[Any], events: Sequence[Decoded]) -> list[Appended]:
    """Append the events in their order in one transaction, and return what became of each, after the commit."""
    if not events:
        return []
    batch = _Batch(events)
    known: dict[str, tuple[int, str | None]] = {}
    async with connection.transaction(), connection.cursor() as cursor:
        await _stage(cursor, list(batch.first.values()))
        # A statement of its own: the INSERT then takes its snapshot and draws its positions after the lock is held,
        # so that positions become visible in their order. A lock taken inside the INSERT would come too late, and a
        # tailing reader would pass over a lower position that is committed after a higher one.
        await cursor.execute(_LOCK, [ORDERING_LOCK])
        await cursor.execute(_INSERT)
        placed: dict[str, int] = dict(await cursor.fetchall())
        if len(placed) < len(batch.first):
            await cursor.execute(_KNOWN)
            known = {
                identifier: (position, text)
                for identifier, position, _, text in await cursor.fetchall()
                if identifier not in placed
            }
    return batch.answer(placed, known)


async def _stage(cursor: Any, events: Sequence[Decoded]) -> None:
    async with cursor.copy(_COPY) as copy:
        copy.set_types(_COPY_TYPES)
        for ordinal, event in enumerate(events):
            await copy.write_row(
                (
                    ordinal,
                    UUID(event.id),
                    event.type,
                    event.source,
                    event.subject,
                    event.time,
                    bytes.fromhex(event.digest.removeprefix("sha256:")),
                    event.raw.decode(),
                )
            )
