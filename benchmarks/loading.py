"""Documents into the table `event`, without the service: for logs that are only the ground of a measurement."""

from __future__ import annotations

import hashlib
import multiprocessing
import struct
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

import psycopg

from benchmarks.documents import Document, measurements
from ingest.log.chain import CHAINED, EPOCH_US, link
from ingest.log.schema import ORDERING_LOCK

__all__ = ["COPY", "LOCK", "copy_rows", "fill", "grow"]

COPY = "COPY {table} (id, type, source, subject, time, digest, body, attestation, chain) FROM STDIN (FORMAT BINARY)"
LOCK = "SELECT pg_advisory_xact_lock(%s)"
_LINKED = f"COPY event ({CHAINED}, chain, body) FROM STDIN (FORMAT BINARY)"
_HEAD_OF_LOG = """
SELECT coalesce((SELECT chain FROM event ORDER BY position DESC LIMIT 1), (SELECT sha256(uuid_send(id)) FROM log)),
    ARRAY(SELECT nextval('event_position_seq') FROM generate_series(1, %s)),
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
"""
_ATTESTATION = b"anonymous"
_TRANSACTION = 20_000
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = struct.pack("!h", -1)
_COLUMNS = struct.pack("!h", 11)
_LENGTH = struct.Struct("!i")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def copy_rows(documents: Iterable[Document]) -> bytes:
    """Return the documents as the bytes of a binary COPY of the columns that `COPY` names.

    The link of each is only as long as a link: these rows are for peers that keep no chain.
    """
    parts = [_HEAD]
    for document in documents:
        digest = hashlib.sha256(document.body).digest()
        parts.append(
            _row(
                uuid.UUID(document.id).bytes, document.type.encode(), document.source.encode(),
                document.subject.encode() or None, _microseconds(document), digest, document.body, _ATTESTATION, digest,
            )
        )  # fmt: skip
    parts.append(_END)
    return b"".join(parts)


def fill(url: str, documents: Iterable[Document]) -> int:
    """Copy the documents into the log, each linked to the one before it, some thousands a transaction; return how many."""
    stream: Iterator[Document] = iter(documents)
    count = 0
    with psycopg.connect(url) as connection:
        while part := list(islice(stream, _TRANSACTION)):
            connection.execute(LOCK, [ORDERING_LOCK])
            head = connection.execute(_HEAD_OF_LOG, [len(part)]).fetchone()
            assert head is not None
            with connection.cursor().copy(_LINKED) as copy:
                copy.write(_linked_rows(part, *head))
            connection.commit()
            count += len(part)
    return count


def _linked_rows(documents: Iterable[Document], previous: bytes, positions: list[int], recorded_at_us: int) -> bytes:
    recorded_at = struct.pack("!q", recorded_at_us - EPOCH_US)
    parts = [_HEAD]
    for document, position in zip(documents, positions, strict=True):
        fields = (
            struct.pack("!q", position), recorded_at, uuid.UUID(document.id).bytes,
            hashlib.sha256(document.body).digest(), _ATTESTATION, document.type.encode(), document.source.encode(),
            document.subject.encode() or None, _microseconds(document),
        )  # fmt: skip
        chained = _row(*fields)[2:]
        previous = link(previous, chained)
        parts += (_COLUMNS, chained, _row(previous, document.body)[2:])
    parts.append(_END)
    return b"".join(parts)


def _row(*fields: bytes | None) -> bytes:
    parts = [struct.pack("!h", len(fields))]
    for field in fields:
        if field is None:
            parts.append(_LENGTH.pack(-1))
        else:
            parts += (_LENGTH.pack(len(field)), field)
    return b"".join(parts)


def _microseconds(document: Document) -> bytes:
    return struct.pack("!q", (document.time - _EPOCH) // _MICROSECOND)


def grow(url: str, count: int, *, models: int, seed: int, processes: int = 2) -> None:
    """Put `count` measurements into the log, made by several processes."""
    parts = [
        (url, count // processes + (number < count % processes), models, seed + number) for number in range(processes)
    ]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.starmap(_grow, parts)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) event")


def _grow(url: str, count: int, models: int, seed: int) -> None:
    fill(url, measurements(count, seed=seed, models=models))
