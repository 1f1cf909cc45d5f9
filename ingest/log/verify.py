"""Verify the log: recompute its hash chain and the digests of its bodies, and say where and how it was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from domain.errors import LogAltered, UsageError
from ingest.archive.archive import Archive, ArchiveDamaged
from ingest.archive.segments import Segment, connected, segments
from ingest.log.chain import Row, genesis
from ingest.log.chain_breaks import MOST_BREAKS, Break, Kind, breaks_between
from ingest.log.chain_heads import SignedHead

__all__ = ["Verified", "identity", "verify_log"]

Progress = Callable[[int], None]
_STEP = 10_000
_IDENTITY = "SELECT id, epoch FROM log"
_LINKS_AT = "SELECT position, chain FROM event WHERE position = ANY(%s::bigint[])"
_LINK_AT = "SELECT position, chain FROM event WHERE position <= %s ORDER BY position DESC LIMIT 1"


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification covered and found: `chain` is the link of the last event, as hex; `breaks` are in order."""

    log: str
    epoch: int
    since: int
    events: int
    position: int
    chain: str
    heads: int
    breaks: list[Break]


def identity(connection: psycopg.Connection[Any]) -> tuple[UUID, int]:
    """Return the id and the epoch of the log; LogAltered where it has none."""
    row = connection.execute(_IDENTITY).fetchone()
    if row is None:
        raise LogAltered("the table `log` is empty: the log has lost its identity.", remedy="Restore a backup.")
    return row[0], row[1]


def verify_log(
    url: str,
    archive: Archive | None = None,
    heads: Mapping[str, SignedHead] | None = None,
    *,
    since: int = 0,
    progress: Progress | None = None,
) -> Verified:
    """Recompute the chain above `since`, and compare it with signed heads (by name) and the archive's bodies.

    The link at `since` is believed. At most MOST_BREAKS breaks are returned; memory stays flat. UsageError where the log
    does not reach `since`.
    """
    heads = heads or {}
    with connected(url) as connection:
        log, epoch = identity(connection)
        previous = genesis(log)
        if since:
            row = connection.execute(_LINK_AT, [since]).fetchone()
            if row is None:
                raise UsageError(
                    f"the log has nothing up to position {since}.", field="since", remedy="Name a lower one."
                )
            since, previous = row
        trimmed = _trimmed(connection)
        counted = _Counted(progress, previous, since)
        breaks = breaks_between(connection, previous, since, archived=_closed(trimmed), counted=counted.add)
        result = list(islice(breaks, MOST_BREAKS))
        counted.finish()
        # What the archive took while the log was being read is not missing.
        trimmed = _trimmed(connection)
        result = [item for item in result if item.kind != "body-missing" or (item.position or 0) > _closed(trimmed)]
        result.sort(key=lambda item: item.position or 0)
        result += _against_heads(connection, str(log), heads)
    if archive is not None:
        result += _in_archive(archive, [segment for segment in trimmed if segment.last_position > since])
    return Verified(
        log=str(log),
        epoch=epoch,
        since=since,
        events=counted.events,
        position=counted.position,
        chain=counted.link.hex(),
        heads=len(heads),
        breaks=result,
    )


def _trimmed(connection: psycopg.Connection[Any]) -> list[Segment]:
    return [segment for segment in segments(connection) if segment.trimmed_at is not None]


def _closed(trimmed: Sequence[Segment]) -> int:
    return trimmed[-1].last_position if trimmed else 0


def _in_archive(archive: Archive, trimmed: Iterable[Segment]) -> Iterator[Break]:
    """Yield the segments whose bodies are not those that the log has digests of."""
    for segment in trimmed:
        try:
            archive.verify(segment)
        except (ArchiveDamaged, LogAltered) as error:
            yield Break(kind="archive-damaged", position=None, id=None, detail=error.detail)


class _Counted:
    """How far a verification has come."""

    def __init__(self, progress: Progress | None, previous: bytes, position: int) -> None:
        self.events, self.position, self.link = 0, position, previous
        self._progress = progress
        self._told = 0

    def add(self, row: Row) -> None:
        self.events += 1
        self.position, self.link = row.position, row.link
        if self.events - self._told >= _STEP:
            self.finish()

    def finish(self) -> None:
        if self._progress is not None and self.events > self._told:
            self._progress(self.events - self._told)
        self._told = self.events


def _against_heads(connection: psycopg.Connection[Any], log: str, heads: Mapping[str, SignedHead]) -> Iterator[Break]:
    """Yield what contradicts heads that were signed before."""
    rows = dict(connection.execute(_LINKS_AT, [[head.position for head in heads.values()]]).fetchall())
    ((last,),) = connection.execute("SELECT coalesce(max(position), 0) FROM event").fetchall()
    for name, head in heads.items():
        if not head.genuine:
            yield _contradicted("head-forged", head, f"{name}: the signature does not match what it says")
        elif head.log != log:
            yield _contradicted("other-log", head, f"{name} is of the log {head.log}, not of {log}")
        elif head.position > last:
            detail = f"{name} was signed at position {head.position}, and the log ends at {last}"
            yield _contradicted("tail-lost", head, detail)
        elif head.position and rows.get(head.position) != bytes.fromhex(head.chain):
            detail = f"{name} was signed at position {head.position} over other events than the log has now"
            yield _contradicted("rewritten", head, detail)


def _contradicted(kind: Kind, head: SignedHead, detail: str) -> Break:
    return Break(kind=kind, position=head.position, id=None, detail=detail)
