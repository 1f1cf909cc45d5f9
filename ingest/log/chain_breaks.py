"""Where the hash chain of the log breaks, and what kind of change that shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, Literal

import msgspec
import psycopg

from ingest.archive.segments import SAMPLES_PREFIX
from ingest.log.chain import COPY_ROWS, Row, link, rows

__all__ = ["MOST_BREAKS", "Break", "Kind", "breaks_between"]

MOST_BREAKS = 20
"""Breaks that are explained; a log with more of them was not changed by accident."""
Kind = Literal[
    "body-altered",
    "body-missing",
    "row-altered",
    "deleted",
    "inserted",
    "reordered",
    "rewritten",
    "tail-lost",
    "other-log",
    "head-forged",
    "archive-damaged",
]


class _Enough(Exception):
    """Ends a COPY before its end: psycopg asks the server to stop sending only where it is left by an exception."""


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the log is not as it was appended. `position` is None where no event of it is to blame."""

    kind: Kind
    position: int | None
    id: str | None
    detail: str


def breaks_between(
    connection: psycopg.Connection[Any],
    previous: bytes,
    after: int = 0,
    *,
    upto: int | None = None,
    archived: int = 0,
    counted: Callable[[Row], object] = lambda _: None,
) -> Iterator[Break]:
    """Yield the breaks with `after` < position ≤ `upto`, given the link at `after`.

    Bodies at or below `archived` may be absent. After a break the chain is followed from the link that the row has.
    """
    # Without a lower bound at the beginning: a row that was moved below position 1 is read by nobody else.
    bounds = [f"position > {int(after)}"] * bool(after) + ([] if upto is None else [f"position <= {int(upto)}"])
    where = f"WHERE {' AND '.join(bounds)}" if bounds else ""
    before = after
    unexplained: list[tuple[bytes, int, Row]] = []
    with suppress(_Enough), connection.cursor() as cursor, cursor.copy(COPY_ROWS.format(where=where)) as copy:
        for row in rows(copy):
            if link(previous, row.chained) != row.link:
                unexplained.append((previous, before, row))
                if len(unexplained) >= MOST_BREAKS:
                    raise _Enough
            elif row.body is not None and sha256(row.body).digest() != row.digest:
                yield _break("body-altered", row, "its body does not match its digest")
            elif row.body is None and row.position > archived and not row.type.startswith(SAMPLES_PREFIX):
                yield _break("body-missing", row, "its body is neither in the database nor in the archive")
            previous, before = row.link, row.position
            counted(row)
    for number, (link_before, position_before, row) in enumerate(unexplained):
        yield _explained(connection, link_before, position_before, row, thorough=number == 0)


def _explained(connection: psycopg.Connection[Any], previous: bytes, before: int, row: Row, *, thorough: bool) -> Break:
    """Return how a row came to stand where it does not link to the one before it."""
    if row.body is not None and sha256(row.body).digest() != row.digest:
        return _break("row-altered", row, "neither its body nor its link matches the digest")
    if thorough:
        elsewhere = _elsewhere(connection, previous, row)
        if elsewhere is not None:
            return elsewhere
    missing = row.position - before - 1
    if missing:
        events = f"position {before + 1}" if missing == 1 else f"positions {before + 1} to {row.position - 1}"
        return _break("deleted", row, f"the events before it are gone ({events}), or it was altered itself")
    return _break("row-altered", row, "its columns do not match its link")


def _elsewhere(connection: psycopg.Connection[Any], previous: bytes, row: Row) -> Break | None:
    """Look for the event that belongs to this position among those after it; None where there is none."""
    statement = COPY_ROWS.replace("body FROM", "NULL::text FROM").format(where=f"WHERE position > {row.position}")
    match = None
    with suppress(_Enough), connection.cursor() as cursor, cursor.copy(statement) as copy:
        for number, other in enumerate(rows(copy)):
            if number == 0 and link(previous, other.chained) == other.link:
                match = _break("inserted", row, f"the event at position {other.position} links to the one before it")
            elif link(previous, other.at(row.position)) in (other.link, row.link):
                match = _break("reordered", row, f"the event that belongs here stands at position {other.position}")
            if match is not None:
                raise _Enough
    return match


def _break(kind: Kind, row: Row, detail: str) -> Break:
    return Break(kind=kind, position=row.position, id=row.id, detail=detail)
