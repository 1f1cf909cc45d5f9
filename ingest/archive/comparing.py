"""The archive's files against the log: whose events they are, and which of the two was altered where they differ."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from domain.errors import LogAltered
from ingest.archive.files import Chained, damaged, relinked
from ingest.archive.segments import SAMPLES_PREFIX, connected
from ingest.log.chain import altered
from ingest.log.chain_breaks import breaks_between

__all__ = ["DIGESTS", "DIGEST_SCHEMA", "chained_at", "differences", "require_links", "require_log_row"]

DIGESTS = f"""
SELECT position, id::text AS id, digest, starts_with(type, '{SAMPLES_PREFIX}') AS raw FROM event
WHERE position BETWEEN {{first}} AND {{last}} ORDER BY position
"""
_BEFORE = """
SELECT coalesce(event.position, 0), coalesce(event.chain, sha256(uuid_send(log.id))) FROM log
LEFT JOIN (SELECT position, chain FROM event WHERE position < %s ORDER BY position DESC LIMIT 1) AS event ON true
"""
_LINKS = """
SELECT log.id::text, encode(coalesce((SELECT chain FROM event WHERE position < %s ORDER BY position DESC LIMIT 1),
    sha256(uuid_send(log.id))), 'hex'), (SELECT encode(chain, 'hex') FROM event WHERE position = %s) FROM log
"""
DIGEST_SCHEMA = pa.schema([("position", pa.int64()), ("id", pa.string()), ("digest", pa.binary()), ("raw", pa.bool_())])


def differences(group: pa.Table, log: dict[int, tuple[str, bytes, bool]], *, facts: bool) -> list[int]:
    """Return the positions at which a group of a file is not what the log has; facts must hold every event of theirs."""
    differ = []
    columns = (group[name].to_pylist() for name in ("position", "event_id", "body"))
    for position, identifier, body in zip(*columns, strict=True):
        existing = log.pop(position, None)
        if existing is None or existing[0] != identifier:
            differ.append(position)
        elif existing[2] and facts:
            continue
        elif body is None or sha256(body.encode()).digest() != existing[1]:
            differ.append(position)
    return sorted([*differ, *(log if facts else ())])


def chained_at(connection: psycopg.Connection[Any], first: int, last: int) -> Chained:
    """Return between which links the events from `first` to `last` stand."""
    row = connection.execute(_LINKS, [first, last]).fetchone()
    if row is None:
        raise LogAltered("the table `log` is empty: the log has lost its identity.", remedy="Restore a backup.")
    return Chained(log=row[0], before=row[1], link=row[2])


def require_links(path: Path, before: str | None = None) -> str | None:
    """Raise ArchiveDamaged unless the events in a file of facts are the chain that it says, which follows on `before`.

    Return the link of the last event, as hex; None where the file is of a version that does not say.
    """
    result = relinked(path)
    if result is None:
        return None
    chained, link = result
    if link.hex() != chained.link:
        raise damaged(path, "its events are not those that its link was computed from")
    if before is not None and chained.before != before:
        raise damaged(path, "it does not follow on the file before it")
    return chained.link


def require_log_row(url: str, position: int) -> None:
    """Raise LogAltered where it is the log's row at a position that was altered, and not a file."""
    with connected(url) as connection:
        before = connection.execute(_BEFORE, [position]).fetchone()
        if before is None:
            return
        after, previous = before
        result = next(breaks_between(connection, previous, after, upto=position, archived=position), None)
    if result is not None and result.position is not None:
        raise altered(result.position, result.id or "", result.detail)
