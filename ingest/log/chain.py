"""The hash chain over the log: every event is linked to the one before it, so that no row can be changed unnoticed.

The link of an event is the SHA-256 of the link before it followed by nine fields of its row: position, recorded_at, id,
digest, attestation, type, source, subject, time. Each field is encoded as PostgreSQL's binary COPY encodes it: its length
as a big-endian int32 (-1 for null), then its value. The link before the first event is the SHA-256 of the log's id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from domain.errors import LogAltered

__all__ = ["CHAINED", "COPY_ROWS", "EPOCH_US", "Row", "altered", "genesis", "link", "rows"]

CHAINED = "position, recorded_at, id, digest, attestation, type, source, subject, time"
"""The chained columns in their order."""
COPY_ROWS = f"COPY (SELECT chain, {CHAINED}, body FROM event {{where}} ORDER BY position) TO STDOUT (FORMAT binary)"
"""What `rows` reads."""
EPOCH_US = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's binary timestamps begin."""

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_LENGTH = struct.Struct("!i")
_POSITION = struct.Struct("!iq")
_DIGEST_AT = 44
"""Where the digest begins among the chained fields: position, recorded_at and id have a fixed size and are never null."""


def genesis(log: UUID) -> bytes:
    """Return the link before the first event of a log."""
    return sha256(log.bytes).digest()


def link(previous: bytes, chained: bytes) -> bytes:
    """Return the link of an event from the link before it and its encoded fields."""
    return sha256(previous + chained).digest()


def altered(position: int, identifier: str, what: str = "its body does not match its digest") -> LogAltered:
    """Return the error of a row of the log that is not as it was appended."""
    return LogAltered(
        f"the log's event {identifier} at position {position} was altered in Postgres: {what}.",
        field="position",
        remedy="`assay log verify` says what else was altered; put the row back from a backup or the archive.",
    )


class Row(NamedTuple):
    """A row of the log as verification reads it; `chained` are its encoded fields, `body` is None where it has none."""

    position: int
    link: bytes
    digest: bytes
    chained: bytes
    body: bytes | None

    @property
    def id(self) -> str:
        """The id of the event."""
        return str(UUID(bytes=_fields(self.chained, 0, 3)[2]))

    @property
    def type(self) -> str:
        """The type of the event."""
        return (_fields(self.chained, 0, 6)[5] or b"").decode()

    def at(self, position: int) -> bytes:
        """Return the encoded fields as they would be at another position."""
        return _POSITION.pack(8, position) + self.chained[_POSITION.size :]


def rows(blocks: Iterable[bytes | bytearray | memoryview]) -> Iterator[Row]:
    """Yield the rows of COPY_ROWS from the blocks that the server sends; a block holds whole rows."""
    for block in blocks:
        data = bytes(block).removeprefix(_HEADER)
        start = 0
        while start < len(data) - 2:
            start += 2
            (length,) = _LENGTH.unpack_from(data, start)
            first = start + 4 + length
            (_, position) = _POSITION.unpack_from(data, first)
            (digest,) = _LENGTH.unpack_from(data, first + _DIGEST_AT)
            end = first + _DIGEST_AT
            for _ in range(6):
                (size,) = _LENGTH.unpack_from(data, end)
                end += 4 + size if size > 0 else 4
            (size,) = _LENGTH.unpack_from(data, end)
            body = data[end + 4 : end + 4 + size] if size >= 0 else None
            yield Row(
                position,
                data[start + 4 : first],
                data[first + _DIGEST_AT + 4 : first + _DIGEST_AT + 4 + digest],
                data[first:end],
                body,
            )
            start = end + 4 + max(0, size)


def _fields(data: bytes, start: int, count: int) -> list[bytes | None]:
    """Return the first fields of an encoded row."""
    contents: list[bytes | None] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, start)
        start += 4
        contents.append(data[start : start + length] if length >= 0 else None)
        start += max(0, length)
    return contents
