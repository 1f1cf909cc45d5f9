"""The log in Postgres: its schema, its growth, its clock, its tokens, and the archive that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from assay.diagnosis.finding import Finding, fine, note, problem
from domain.errors import AssayError
from ingest.archive.archive import Archive, ArchiveDamaged, Progress, Segment
from ingest.log import migrate
from ingest.log.postgres import UNSAFE, not_durable
from ingest.log.verify import verify_log
from presentation import formatting

__all__ = ["archived", "chain", "clock", "durability", "growth", "peers", "schema", "server", "tokens"]

OLDEST_SERVER = 15
LOOKED_AT = 100_000
EXPIRES_WITHIN_DAYS = 14

_GROWTH = """
SELECT coalesce(max(position), 0), pg_total_relation_size('event'),
       (SELECT count(*) FROM event WHERE recorded_at >= clock_timestamp() - interval '7 days')
FROM event
"""
_BACK = """
SELECT count(*) FILTER (WHERE recorded_at < before), min(position) FILTER (WHERE recorded_at < before), count(*),
       count(*) FILTER (WHERE recorded_at > clock_timestamp() + interval '1 minute')
FROM (SELECT position, recorded_at, lag(recorded_at) OVER (ORDER BY position) AS before
      FROM event WHERE position > (SELECT coalesce(max(position), 0) FROM event) - %s) AS newest
"""
_TOKENS = """
SELECT name, expires_at, expires_at <= clock_timestamp() FROM token
WHERE revoked_at IS NULL AND expires_at <= clock_timestamp() + make_interval(days => %s) ORDER BY expires_at
"""
_PEERS = """
SELECT name, problem, coalesce(pulled_at, added_at) < clock_timestamp() - make_interval(days => %s)
FROM peer WHERE removed_at IS NULL ORDER BY name
"""
PULLED_WITHIN_DAYS = 7


def schema(url: str) -> Finding:
    """Return whether the log's schema is the one that this version needs."""
    revision, needed = migrate.revision(url), migrate.head()
    if revision == needed:
        return fine("schema", f"at {revision}")
    return problem(
        "schema",
        f"at {revision or 'nothing yet'}; this version needs {needed}",
        "`assay db upgrade`; if the schema is newer than this version, install the newer Assay or `assay db downgrade` with it.",
    )


def server(connection: psycopg.Connection[Any]) -> Finding:
    """Return the server's version."""
    number = connection.info.server_version
    text = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number // 10_000 < OLDEST_SERVER:
        return problem("postgres", text, f"PostgreSQL {OLDEST_SERVER} or newer is needed.")
    return fine("postgres", text)


def durability(connection: psycopg.Connection[Any]) -> Finding:
    """Return whether the server keeps what it has acknowledged."""
    unsafe = [name for (name,) in connection.execute(UNSAFE).fetchall()]
    if unsafe:
        error = not_durable(unsafe)
        return problem("durability", error.detail, error.remedy or "")
    return fine("durability", "acknowledged events are on disk")


def growth(connection: psycopg.Connection[Any]) -> tuple[Finding, float | None]:
    """Return the log's size, and how many bytes it grew a day last week; None for an empty log."""
    ((events, size, week),) = connection.execute(_GROWTH).fetchall()
    if not events:
        return fine("log", "empty"), None
    each = size / events
    text = f"{formatting.count(events)} events, {formatting.memory(size)} ({each:,.0f} bytes each with indexes), {formatting.count(week)} in 7 days"
    return fine("log", text), each * week / 7


def clock(connection: psycopg.Connection[Any]) -> Finding:
    """Return how often the server's clock went back among the newest events; nothing in Assay depends on it."""
    ((back, first, looked_at, ahead),) = connection.execute(_BACK, [LOOKED_AT]).fetchall()
    if ahead:
        return problem(
            "clock",
            f"{formatting.count(ahead)} of the newest {formatting.count(looked_at)} events were recorded in what is the future now",
            "Correct the database server's clock (NTP). Order and tables are by position and stay right; ages and retention wait.",
        )
    if back:
        return note(
            "clock",
            f"recorded_at went back {formatting.count(back)} times in the newest {formatting.count(looked_at)} events, first at position {first}",
            "Check the database server's clock (NTP). Order and tables are by position and stay right.",
        )
    return fine("clock", f"recorded_at never went back in the newest {formatting.count(looked_at)} events")


def chain(archive: Archive, progress: Progress) -> Iterator[Finding]:
    """Yield where the log is not as it was appended: its hash chain and the digests of its bodies, computed again."""
    verified = verify_log(archive.url, archive, progress=progress)
    for item in verified.breaks:
        place = f" at position {item.position}" if item.position is not None else ""
        yield problem(
            "chain",
            f"{item.kind}{place}: {item.detail}",
            "Put it back from a backup; `assay log verify --head FILE` compares with heads that were signed before.",
        )
    if not verified.breaks:
        yield fine(
            "chain", f"{formatting.count(verified.events)} events are as they were appended ({verified.chain[:16]}…)"
        )


def tokens(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Yield the tokens that expire soon, and those that have."""
    rows = connection.execute(_TOKENS, [EXPIRES_WITHIN_DAYS]).fetchall()
    for name, expires_at, gone in rows:
        if gone:
            yield note("tokens", f"{name!r} expired on {formatting.date(expires_at)}", "Revoke it, or create another.")
        else:
            yield problem(
                "tokens",
                f"{name!r} expires on {formatting.date(expires_at)}",
                "`assay token create` another and hand it out before.",
            )
    if not rows:
        yield fine("tokens", f"none expires within {EXPIRES_WITHIN_DAYS} days")


def peers(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Yield the peers whose last pull ended early or was long ago; nothing where there is no peer."""
    rows = connection.execute(_PEERS, [PULLED_WITHIN_DAYS]).fetchall()
    for name, why, quiet in rows:
        if why:
            yield problem(
                "peers", f"the last pull from {name} ended early: {why}", f"`assay peer pull {name}` tries again."
            )
        elif quiet:
            yield note(
                "peers",
                f"nothing was pulled from {name} for {PULLED_WITHIN_DAYS} days",
                f"`assay peer pull {name} --follow` keeps up, `assay peer remove {name}` ends it.",
            )
    if rows and not any(why or quiet for _, why, quiet in rows):
        yield fine("peers", f"{len(rows)} read: {', '.join(name for name, _, _ in rows)}")


def archived(archive: Archive, segments: list[Segment], *, deep: bool) -> Iterator[Finding]:
    """Yield whether the archive's files are there; with `deep` also whether they hold what the log has digests of."""
    damaged = 0
    for segment in segments:
        try:
            if deep:
                archive.verify(segment)
            else:
                archive.require(segment)
        except ArchiveDamaged as error:
            damaged += 1
            yield problem("archive", error.detail, error.remedy or "")
        except AssayError as error:
            yield problem("archive", error.detail, error.remedy or "")
            return
    if damaged:
        return
    if not segments:
        yield fine("archive", "nothing archived yet")
        return
    trimmed = max((item.last_position for item in segments if item.trimmed_at), default=0)
    size = formatting.memory(sum(item.size_bytes for item in segments))
    whole = "whole" if deep else "there (`--deep` reads them)"
    yield fine(
        "archive",
        f"{len(segments)} segments up to position {segments[-1].last_position}, trimmed up to {trimmed}, {size}, all files {whole}",
    )
