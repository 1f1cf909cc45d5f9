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
from ingest.schema import ORDERING_LOCK

__all__ = ["COPY", "LOCK", "copy_rows", "fill", "grow"]

COPY = "COPY {table} (id, type, source, subject, time, digest, body) FROM STDIN (FORMAT BINARY)"
LOCK = "SELECT pg_advisory_xact_lock(%s)"
_TRANSACTION = 20_000
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = struct.pack("!h", -1)
_LENGTH = struct.Struct("!i")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def copy_rows(documents: Iterable[Document]) -> bytes:
    """Return the documents as the bytes of a binary COPY of the columns that `COPY` names."""
    parts = [_HEAD]
    for document in documents:
        fields = (
            uuid.UUID(document.id).bytes, document.type.encode(), document.source.encode(),
            document.subject.encode() or None, struct.pack("!q", (document.time - _EPOCH) // _MICROSECOND),
            hashlib.sha256(document.body).digest(), document.body,
        )  # fmt: skip
        parts.append(struct.pack("!h", len(fields)))
        for field in fields:
            if field is None:
                parts.append(_LENGTH.pack(-1))
            else:
                parts += (_LENGTH.pack(len(field)), field)
    parts.append(_END)
    return b"".join(parts)


def fill(url: str, documents: Iterable[Document]) -> int:
    """Copy the documents into the log, some thousands a transaction, and return how many."""
    stream: Iterator[Document] = iter(documents)
    count = 0
    with psycopg.connect(url) as connection:
        while part := list(islice(stream, _TRANSACTION)):
            rows = copy_rows(part)
            connection.execute(LOCK, [ORDERING_LOCK])
            with connection.cursor().copy(COPY.format(table="event")) as copy:
                copy.write(rows)
            connection.commit()
            count += len(part)
    return count


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
