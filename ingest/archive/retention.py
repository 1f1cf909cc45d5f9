"""The retention of raw samples: their bodies go, in the database and in the archive; facts and rows stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.archive.archive import Archive
from ingest.archive.files import damaged, missing, samples, sha256_of, write_samples
from ingest.archive.segments import SAMPLES_PREFIX, Segment, alone, connected, kinds_in, segments

__all__ = ["Expiry", "expire_samples"]

BATCH_EVENTS = 2_000

_CUTOFF = "SELECT clock_timestamp() - %s::interval"
_COUNT = """
SELECT count(*), coalesce(sum(octet_length(body)), 0)::bigint FROM event
WHERE type = ANY(%s) AND recorded_at < %s AND body IS NOT NULL
"""
_EXPIRE = """
WITH old AS (
    SELECT position FROM event WHERE type = ANY(%s) AND recorded_at < %s AND position > %s AND body IS NOT NULL
    ORDER BY position LIMIT %s),
gone AS (UPDATE event SET body = NULL FROM old WHERE event.position = old.position)
SELECT max(position) FROM old
"""
_REPLACED = """
UPDATE archive_segment SET samples = %s, samples_sha256 = %s, bytes = bytes + %s WHERE first_position = %s
"""


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """What expired, or would: events of raw samples recorded before `cutoff`, in the database and in the archive."""

    cutoff: datetime
    log_events: int
    log_bytes: int
    archived_events: int
    archived_bytes: int
    files: int


def expire_samples(archive: Archive, older_than: timedelta, *, dry_run: bool = False) -> Expiry:
    """Remove the raw samples that the log recorded longer ago than that, by the database's clock; say what went.

    What was interrupted is done by the next call. The clock may have gone back: each event is judged by itself.
    """
    with connected(archive.url) as connection, alone(connection):
        ((cutoff,),) = connection.execute(_CUTOFF, [older_than]).fetchall()
        types = [kind for kind in kinds_in(connection) if kind.startswith(SAMPLES_PREFIX)]
        ((events, size),) = connection.execute(_COUNT, [types, cutoff]).fetchall()
        archived = archived_bytes = files = 0
        for segment in segments(connection):
            if segment.samples is None:
                continue
            old, kept = _counted(archive.folder / segment.samples, cutoff)
            if old:
                before = (archive.folder / segment.samples).stat().st_size
                archived, files = archived + old, files + 1
                after = (
                    before * kept // (old + kept) if dry_run else _replace(connection, archive, segment, cutoff, kept)
                )
                archived_bytes += before - after
        if not dry_run:
            _expire_in_log(connection, types, cutoff)
    return Expiry(
        cutoff=cutoff,
        log_events=events,
        log_bytes=size,
        archived_events=archived,
        archived_bytes=archived_bytes,
        files=files,
    )


def _expire_in_log(connection: psycopg.Connection[Any], types: list[str], cutoff: datetime) -> None:
    reached: int | None = 0
    while reached is not None:
        ((reached,),) = connection.execute(_EXPIRE, [types, cutoff, reached, BATCH_EVENTS]).fetchall()
    connection.execute("VACUUM event")


def _counted(path: Path, cutoff: datetime) -> tuple[int, int]:
    """Return how many events of a file are older than the cutoff, and how many are not."""
    try:
        recorded_at = pq.read_table(path, columns=["recorded_at"])["recorded_at"]
    except FileNotFoundError as error:
        raise missing(path) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(error).split("\n", 1)[0][:300]) from error
    old = pc.sum(pc.less(recorded_at, pa.scalar(cutoff, recorded_at.type))).as_py() or 0
    return old, len(recorded_at) - old


def _replace(
    connection: psycopg.Connection[Any], archive: Archive, segment: Segment, cutoff: datetime, kept: int
) -> int:
    """Put a file of what is kept in the place of a segment's samples, and return its size in bytes.

    The database names the new file before the old one goes: a crash leaves a file too many, never one too few.
    """
    assert segment.samples is not None
    old = archive.folder / segment.samples
    new = old.with_name(_next_name(old.name)) if kept else None
    if new is not None:
        write_samples(new, _younger(old, cutoff))
    before, after = old.stat().st_size, new.stat().st_size if new is not None else 0
    connection.execute(
        _REPLACED,
        [new and new.name, new and sha256_of(new), after - before, segment.first_position],
    )
    old.unlink()
    return after


def _next_name(name: str) -> str:
    """Return the name of a file's next generation: samples-…-….parquet, samples-…-….2.parquet, samples-…-….3.parquet."""
    stem, _, generation = name.removesuffix(".parquet").partition(".")
    return f"{stem}.{int(generation or 1) + 1}.parquet"


def _younger(path: Path, cutoff: datetime) -> Iterator[pa.Table]:
    for table in samples(path):
        yield table.filter(pc.greater_equal(table["recorded_at"], pa.scalar(cutoff, table["recorded_at"].type)))
