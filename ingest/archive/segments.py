"""What the database knows of the archive: one row a segment, and the lock that lets one process at a time change it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from psycopg.rows import class_row

from domain.errors import ServiceUnavailable
from ingest.log.postgres import connect

__all__ = ["SAMPLES_PREFIX", "Segment", "alone", "connected", "kinds_in", "record", "segments"]

SAMPLES_PREFIX = "assay.samples.recorded."
"""Types that begin so hold raw samples, in every version: expendable, and never projected."""

_LOCK = 4_702_111_234_474_983_747
_SEGMENTS = "SELECT {} FROM archive_segment WHERE last_position > %(after)s ORDER BY first_position"
_INSERT = """
INSERT INTO archive_segment
    (first_position, last_position, events, facts, samples, facts_sha256, samples_sha256, bytes)
VALUES (%(first_position)s, %(last_position)s, %(events)s, %(facts)s, %(samples)s, %(facts_sha256)s,
        %(samples_sha256)s, %(size_bytes)s)
"""
# One step an index entry of another type, instead of a look at every event.
_KINDS = """
WITH RECURSIVE kind AS (
    SELECT min(type) AS type FROM event
    UNION ALL SELECT (SELECT min(type) FROM event WHERE type > kind.type) FROM kind WHERE kind.type IS NOT NULL)
SELECT type FROM kind WHERE type IS NOT NULL
"""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One closed range of positions and the names of the files that hold it. `trimmed_at`: since when its bodies leave
    the database; from then on the files are the only place of some of them.
    """

    first_position: int
    last_position: int
    events: int
    facts: str
    facts_sha256: bytes
    size_bytes: int
    samples: str | None = None
    samples_sha256: bytes | None = None
    created_at: datetime | None = None
    trimmed_at: datetime | None = None


_COLUMNS = ", ".join(Segment.__struct_fields__).replace("size_bytes", "bytes AS size_bytes")


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection whose statements commit by themselves; ServiceUnavailable where Postgres is away."""
    try:
        with connect(url, autocommit=True, connect_timeout=5) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise ServiceUnavailable(
            f"Postgres does not answer: {error}.", remedy="Run the same command again; what was done stays done."
        ) from error
    except psycopg.errors.UndefinedTable as error:
        raise ServiceUnavailable("the database has no archive yet.", remedy="Run `assay db upgrade` once.") from error


@contextmanager
def alone(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Hold the archive for this connection; ServiceUnavailable where another process changes it."""
    ((held,),) = connection.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchall()
    if not held:
        raise ServiceUnavailable("another process works on the archive.", remedy="Wait until it has finished.")
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def segments(connection: psycopg.Connection[Any], after: int = 0) -> list[Segment]:
    """Return the segments that hold anything above a position, in order; they follow each other without a gap."""
    with connection.cursor(row_factory=class_row(Segment)) as cursor:
        return cursor.execute(_SEGMENTS.format(_COLUMNS), {"after": after}).fetchall()


def record(connection: psycopg.Connection[Any], segment: Segment) -> None:
    """Make a segment known: from here on it exists."""
    connection.execute(_INSERT, msgspec.structs.asdict(segment))


def kinds_in(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the types of event that the log holds, in order."""
    return [kind for (kind,) in connection.execute(_KINDS).fetchall()]
