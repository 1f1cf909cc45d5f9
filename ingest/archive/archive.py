"""The archive: closed ranges of the log as Parquet files, out of which the tables can be made again.

A segment is written, read back and compared with the log before the database knows it, so that a crash leaves nothing or
a whole segment. `trim` takes the bodies of archived events out of the database; the rows stay, so that ids stay unique
for ever. Facts and raw samples lie in files of their own: samples expire, facts never do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from domain.errors import ServiceUnavailable, UsageError
from ingest.archive import segments as rows
from ingest.archive.comparing import DIGEST_SCHEMA, DIGESTS, chained_at, differences, require_links, require_log_row
from ingest.archive.files import (
    ArchiveDamaged,
    bodies_at,
    damaged,
    missing,
    sha256_of,
    whole,
    write_facts,
    write_samples,
)
from ingest.archive.segments import SAMPLES_PREFIX, Segment, alone, connected, kinds_in, segments
from ingest.archive.shapes import planned

__all__ = ["Archive", "ArchiveDamaged", "Progress", "Segment", "archive_folder"]

Progress = Callable[[int], None]
"""Called with the number of events that were dealt with since the last call."""
SEGMENT_EVENTS = 1_000_000
TRIM_EVENTS = 5_000
SAMPLED_EVENTS = 4_000
_NEIGHBOURS = 50
"""So many events in a row are sampled together: every so-manieth alone may be of one kind, where a writer keeps a beat."""

_CLOSED = "SELECT position FROM event ORDER BY position DESC OFFSET %s LIMIT 1"
_RANGE = """
SELECT max(position), count(*) FROM (
    SELECT position FROM event WHERE position BETWEEN %s AND %s ORDER BY position LIMIT %s) AS chosen
"""
_FACTS = f"""
SELECT position, uuid_send(id) AS id, type, source, subject, time, recorded_at,
    CASE WHEN NOT starts_with(type, '{SAMPLES_PREFIX}') THEN body END AS body, attestation,
    CASE WHEN starts_with(type, '{SAMPLES_PREFIX}') OR body IS NULL THEN digest END AS digest
FROM event WHERE position BETWEEN {{first}} AND {{last}} ORDER BY position
"""
_SAMPLES = """
SELECT position, uuid_send(id) AS id, recorded_at, replace(body, id::text, chr(31)) AS body FROM event
WHERE type IN ({types}) AND position BETWEEN {first} AND {last} AND body IS NOT NULL ORDER BY position
"""
_COUNT = "SELECT count(*) FROM event WHERE position BETWEEN %s AND %s"
_SOME = """
SELECT id::text, body, time FROM event
WHERE position IN (
    SELECT first + place FROM generate_series(%s::bigint, %s::bigint, %s::bigint) AS first, generate_series(0, %s) AS place
) AND body IS NOT NULL AND NOT starts_with(type, %s)
ORDER BY position
"""
_TRIM_BEGINS = "UPDATE archive_segment SET trimmed_at = clock_timestamp() WHERE first_position = %s"
_TRIM = "UPDATE event SET body = NULL WHERE position BETWEEN %s AND %s AND body IS NOT NULL"
_RESTORE = """
UPDATE event SET body = given.body FROM unnest(%s::bigint[], %s::text[]) AS given (position, body)
WHERE event.position = given.position AND event.position BETWEEN %s AND %s AND event.body IS NULL
    AND digest = sha256(convert_to(given.body, 'UTF8'))
"""
_RESTORED = "UPDATE archive_segment SET trimmed_at = NULL WHERE first_position = %s"
_DIGESTS_AT = "SELECT position, digest, starts_with(type, %s) FROM event WHERE position = ANY(%s)"


def archive_folder(home: Path | str | None = None) -> Path:
    """Return where the archive is: ASSAY_ARCHIVE, else `archive` under `home` or ASSAY_HOME; UsageError without any."""
    named = os.environ.get("ASSAY_ARCHIVE")
    if named:
        return Path(named).expanduser().absolute()
    home = home or os.environ.get("ASSAY_HOME")
    if home is None:
        raise UsageError("it is not known where the archive is.", field="ASSAY_ARCHIVE", remedy="Set ASSAY_ARCHIVE.")
    return Path(home).expanduser().absolute() / "archive"


class Archive:
    """The archive of the log at `url` in one folder. Processes that change it exclude each other; readers do not mind."""

    def __init__(self, folder: Path | str, url: str) -> None:
        self.folder = Path(folder)
        self.url = url
        self._uri = url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._known: list[Segment] = []

    def segments(self, after: int = 0) -> list[Segment]:
        """Return the segments that hold anything above a position, in order."""
        with connected(self.url) as connection:
            return segments(connection, after)

    def write(
        self, *, keep: int = 0, segment_events: int = SEGMENT_EVENTS, progress: Progress | None = None
    ) -> list[Segment]:
        """Archive what is not archived yet but the newest `keep` events, and return the new segments.

        Every position up to the highest that can be seen is closed: the ordering lock lets none appear below it.
        """
        made = []
        with connected(self.url) as connection, alone(connection):
            newest = connection.execute(_CLOSED, [keep]).fetchone()
            while newest is not None:
                first = 1 + max((item.last_position for item in segments(connection)), default=0)
                chosen = connection.execute(_RANGE, [first, newest[0], segment_events]).fetchone()
                if chosen is None or not chosen[1]:
                    break
                segment = self._segment(connection, first, int(chosen[0]), progress)
                rows.record(connection, segment)
                made.append(segment)
        return made

    def require(self, segment: Segment) -> None:
        """Raise ArchiveDamaged unless its files are there in their size; `verify` reads them."""
        paths = [self.folder / name for name in (segment.facts, segment.samples) if name is not None]
        for path in paths:
            if not path.exists():
                raise missing(path)
        size = sum(path.stat().st_size for path in paths)
        if size != segment.size_bytes:
            raise damaged(paths[0], f"with its samples it has {size:,} bytes, not {segment.size_bytes:,}")

    def verify(self, segment: Segment, *, deep: bool = True, samples: bool = True) -> None:
        """Raise ArchiveDamaged unless its files are there, byte for byte; `deep` also compares each event with the log."""
        files = ((segment.facts, segment.facts_sha256), (segment.samples if samples else None, segment.samples_sha256))
        for name, digest in files:
            if name is not None and sha256_of(self.folder / name) != digest:
                raise damaged(self.folder / name, "its SHA-256 is not the one that was recorded")
        if deep:
            self._compare(segment)

    def trim(self, *, keep: int = 0, progress: Progress | None = None) -> list[Segment]:
        """Take the bodies of archived events out of the database but those of the newest `keep`; return the segments.

        Each segment is compared with the log once more before. What was interrupted is taken up again.
        """
        trimmed = []
        with connected(self.url) as connection, alone(connection):
            newest = connection.execute(_CLOSED, [keep]).fetchone()
            matching_segments = [
                item for item in segments(connection) if newest is not None and item.last_position <= newest[0]
            ]
            begun = [item for item in matching_segments if item.trimmed_at is not None]
            for segment in begun[-1:]:
                self._empty(connection, segment, progress)
            for segment in matching_segments:
                if segment.trimmed_at is None:
                    self.verify(segment)
                    # Said before it is done: whoever then finds a body missing knows where it is.
                    connection.execute(_TRIM_BEGINS, [segment.first_position])
                    self._empty(connection, segment, progress)
                    trimmed.append(segment)
            # Without it the room would stay with rows that nobody sees until autovacuum comes by.
            connection.execute("VACUUM event")
        return trimmed

    def restore(self, *, progress: Progress | None = None) -> list[Segment]:
        """Bring the bodies of trimmed segments back into the database, and return the segments; the files stay."""
        restored = []
        with connected(self.url) as connection, alone(connection):
            for segment in segments(connection):
                if segment.trimmed_at is not None:
                    self.verify(segment, deep=False)
                    for name in filter(None, (segment.facts, segment.samples)):
                        self._refill(connection, self.folder / name, progress)
                    connection.execute(_RESTORED, [segment.first_position])
                    restored.append(segment)
        return restored

    def bodies(self, positions: Sequence[int]) -> dict[int, str]:
        """Return the bodies at these positions; what has expired is left out. Safe from any number of threads.

        ArchiveDamaged where a file is missing or unreadable, or where a body that does not expire is nowhere.
        """
        wanted = sorted(set(positions))
        if not wanted:
            return {}
        segments = self._known
        if not segments or segments[-1].last_position < wanted[-1]:
            segments = self._known = self.segments()
        try:
            return self._look(segments, wanted)
        except ArchiveDamaged:
            # Samples that expired leave a file that is gone and a segment that was known with it; a log that lost its tail
            # has other segments than were known.
            segments = self._known = self.segments()
            return self._look(segments, wanted)

    def _look(self, segments: Sequence[Segment], wanted: Sequence[int]) -> dict[int, str]:
        matches: dict[int, str] = {}
        for segment in segments:
            inside = [position for position in wanted if segment.first_position <= position <= segment.last_position]
            if not inside:
                continue
            matches |= bodies_at(self.folder / segment.facts, inside)
            rest = [position for position in inside if position not in matches]
            if rest and segment.samples is not None:
                matches |= bodies_at(self.folder / segment.samples, rest)
        self._require_true(wanted, matches)
        return matches

    def _require_true(self, positions: Sequence[int], matches: dict[int, str]) -> None:
        """Raise ArchiveDamaged unless the bodies are those that the log has digests of, and only raw samples are absent."""
        with connected(self.url) as connection:
            rows = connection.execute(_DIGESTS_AT, [SAMPLES_PREFIX, list(positions)]).fetchall()
        for position, digest, raw in rows:
            body = matches.get(position)
            if body is None and not raw:
                raise _lost(position, "is neither in the database nor in an archived segment")
            if body is not None and sha256(body.encode()).digest() != digest:
                raise _lost(position, "came out of the archive other than it was sent")

    def _segment(
        self, connection: psycopg.Connection[Any], first: int, last: int, progress: Progress | None
    ) -> Segment:
        facts = self._place(first, last)
        samples = facts.with_name(facts.name.replace("facts-", "samples-", 1))
        place = {"first": first, "last": last}
        step = _NEIGHBOURS * (1 + (last - first) // SAMPLED_EVENTS)
        some = connection.execute(_SOME, [first, last, step, _NEIGHBOURS - 1, SAMPLES_PREFIX]).fetchall()
        tables = self._fetched(_FACTS.format(**place), progress)
        events = write_facts(facts, planned(some), tables, chained_at(connection, first, last))
        kinds = [kind for kind in kinds_in(connection) if kind.startswith(SAMPLES_PREFIX)]
        raw = 0
        if kinds:
            types = ", ".join(_literal(kind) for kind in kinds)
            raw = write_samples(samples, self._fetched(_SAMPLES.format(types=types, **place), None))
        if not raw:
            samples.unlink(missing_ok=True)
        segment = Segment(
            first_position=first,
            last_position=last,
            events=events,
            facts=facts.name,
            facts_sha256=sha256_of(facts),
            samples=samples.name if raw else None,
            samples_sha256=sha256_of(samples) if raw else None,
            size_bytes=facts.stat().st_size + (samples.stat().st_size if raw else 0),
        )
        try:
            self._compare(segment)
        except BaseException:
            facts.unlink(missing_ok=True)
            samples.unlink(missing_ok=True)
            raise
        return segment

    def _place(self, first: int, last: int) -> Path:
        """Return the path for the facts of a new segment: never one that holds events which this log does not have.

        A log that lost its tail may have archived it before; then these files are the only place where it still is.
        """
        name = f"facts-{first:012d}-{last:012d}"
        path, generation = self.folder / f"{name}.parquet", 1
        while path.exists() and not self._holds_this_log(path):
            generation += 1
            path = self.folder / f"{name}.{generation}.parquet"
        return path

    def _holds_this_log(self, path: Path) -> bool:
        try:
            for group in whole(path):
                first, last = group["position"][0].as_py(), group["position"][-1].as_py()
                if differences(group, self._digests(first, last), facts=True):
                    return False
        except ArchiveDamaged:
            return False
        return True

    def _compare(self, segment: Segment) -> None:
        """Raise ArchiveDamaged unless the files hold exactly what the log says by its digests."""
        for name in filter(None, (segment.facts, segment.samples)):
            events = 0
            for group in whole(self.folder / name):
                first, last = group["position"][0].as_py(), group["position"][-1].as_py()
                differ = differences(group, self._digests(first, last), facts=name == segment.facts)
                if differ:
                    require_log_row(self.url, differ[0])
                    raise damaged(
                        self.folder / name,
                        f"{len(differ):,} events are not as the log has them, the first at position {differ[0]}",
                    )
                events += group.num_rows
            if name == segment.facts:
                self._require_count(segment, events)
                require_links(self.folder / name)

    def _digests(self, first: int, last: int) -> dict[int, tuple[str, bytes, bool]]:
        """Return of each event of the log in a range its id, its digest, and whether it holds raw samples."""
        batches = self._batches(DIGESTS.format(first=first, last=last))
        columns = pa.Table.from_batches(list(batches), schema=DIGEST_SCHEMA).to_pydict()
        return dict(
            zip(columns["position"], zip(columns["id"], columns["digest"], columns["raw"], strict=True), strict=True)
        )

    def _require_count(self, segment: Segment, events: int) -> None:
        with connected(self.url) as connection:
            place = [segment.first_position, segment.last_position]
            ((there,),) = connection.execute(_COUNT, place).fetchall()
        if not events == segment.events == there:
            raise damaged(self.folder / segment.facts, f"it has {events:,} events, and the log {there:,} in its range")

    def _fetched(self, statement: str, progress: Progress | None) -> Iterator[pa.Table]:
        for batch in self._batches(statement):
            yield pa.Table.from_batches([batch])
            if progress is not None:
                progress(batch.num_rows)

    def _batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        try:
            with (
                adbc_driver_postgresql.dbapi.connect(self._uri, autocommit=True) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)
                yield from cursor.fetch_record_batch()
        except adbc_driver_manager.Error as error:
            raise ServiceUnavailable(
                f"Postgres does not answer: {str(error)[:300]}.", remedy="Run the same command again."
            ) from error

    def _refill(self, connection: psycopg.Connection[Any], path: Path, progress: Progress | None) -> None:
        """Bring the bodies of one file back into the database, a few thousand in a transaction."""
        for group in whole(path, 0, None):
            for start in range(0, group.num_rows, TRIM_EVENTS):
                part = group.slice(start, TRIM_EVENTS)
                part = part.filter(pc.is_valid(part["body"]))
                positions = part["position"].to_pylist()
                if positions:
                    value = [positions, part["body"].to_pylist(), positions[0], positions[-1]]
                    connection.execute(_RESTORE, value)
                if progress is not None:
                    progress(part.num_rows)

    def _empty(self, connection: psycopg.Connection[Any], segment: Segment, progress: Progress | None) -> None:
        """Take a segment's bodies out of the database, a few thousand in a transaction."""
        for first in range(segment.first_position, segment.last_position + 1, TRIM_EVENTS):
            last = min(first + TRIM_EVENTS - 1, segment.last_position)
            emptied = connection.execute(_TRIM, [first, last]).rowcount
            if progress is not None:
                progress(emptied)


def _lost(position: int, what: str) -> ArchiveDamaged:
    return ArchiveDamaged(
        f"the body of the event at position {position} {what}.",
        field="ASSAY_ARCHIVE",
        remedy="Restore database and archive from one backup; `assay archive verify` tells which segments are whole.",
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
