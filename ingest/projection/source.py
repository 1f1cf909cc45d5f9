"""What the projection reads of the log, archive first and then the database: Arrow batches, no Python object an event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import pyarrow as pa
import pyarrow.compute as pc

from domain.errors import ServiceUnavailable
from ingest.archive import Archive, ArchiveDamaged, archive_folder
from ingest.archiving.files import whole
from ingest.archiving.segments import SAMPLES_PREFIX
from ingest.projection.fold import BATCH_SCHEMA

__all__ = ["LogSource"]

# Raw samples stay where they are: tables that knew them would change when samples expire.
_BATCHES = f"""
SELECT position, id::text AS event_id, type, source, time, recorded_at,
    CASE WHEN NOT starts_with(type, '{SAMPLES_PREFIX}') THEN body END AS body FROM event
WHERE position > {{after}} {{upto}} ORDER BY position {{limit}}
"""
_LAST = "SELECT coalesce(max(position), 0) FROM event"
_TRIMMED = "SELECT coalesce(max(last_position), 0) FROM archive_segment WHERE trimmed_at IS NOT NULL"
_EVENT_AT = "SELECT id::text FROM event WHERE position = {position}"
_LAG = """
SELECT coalesce(max(position), {position}), count(*),
       coalesce(extract(epoch FROM clock_timestamp() - min(recorded_at)), 0)::float8
FROM event WHERE position > {position}
"""
_FETCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"


class LogSource:
    """A reading connection to the log, for one thread; it connects anew after an error.

    `archive` is the archive's folder; None: ASSAY_ARCHIVE, or `archive` under ASSAY_HOME, looked for only when needed.
    """

    def __init__(self, uri: str, batch_bytes: int = 16 * 2**20, *, archive: Path | None = None) -> None:
        self._uri = uri
        self._batch_bytes = batch_bytes
        self._archive = archive
        self._connection: Any = None
        self._verified: set[str] = set()

    def batches(self, after: int, upto: int | None = None, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the events above `after` (and not above `upto`, at most `limit`) in order, about `batch_bytes` at a time.

        The body of raw samples is null. Positions that were trimmed come out of the archive, those above out of the
        database; ArchiveDamaged, which names file and remedy, where the archive has not what it should have.
        """
        trimmed = int(self._one(_TRIMMED)[0])
        while True:
            try:
                for table in self._pieces(after, trimmed, upto, limit):
                    yield table
                    after = table.column("position")[-1].as_py()
                    limit = None if limit is None else limit - table.num_rows
                return
            except _Trimmed:
                # The archive took these bodies while they were being read.
                before, trimmed = trimmed, int(self._one(_TRIMMED)[0])
                if trimmed == before:
                    raise ArchiveDamaged(
                        f"after position {after} the database has events without a body, and no archived segment has them.",
                        field="ASSAY_ARCHIVE",
                        remedy="Restore the database and the archive from one backup.",
                    ) from None

    def _pieces(self, after: int, trimmed: int, upto: int | None, limit: int | None) -> Iterator[pa.Table]:
        if after < trimmed:
            for table in self._archived(after, trimmed if upto is None else min(trimmed, upto)):
                piece = table if limit is None else table.slice(0, limit)
                limit = None if limit is None else limit - piece.num_rows
                if piece.num_rows:
                    yield piece
                if limit == 0:
                    return
        if upto is None or upto > trimmed:
            yield from self._stored(max(after, trimmed), upto, limit)

    def _archived(self, after: int, upto: int) -> Iterator[pa.Table]:
        archive = Archive(self._archive or archive_folder(), self._uri)
        for segment in archive.segments(after):
            if segment.first_position > upto:
                return
            if segment.facts not in self._verified:
                archive.verify(segment, deep=False, samples=False)
                self._verified.add(segment.facts)
            for table in whole(archive.folder / segment.facts, after, upto):
                yield table.select(BATCH_SCHEMA.names).cast(BATCH_SCHEMA)

    def _stored(self, after: int, upto: int | None, limit: int | None) -> Iterator[pa.Table]:
        statement = _BATCHES.format(
            after=int(after),
            upto="" if upto is None else f"AND position <= {int(upto)}",
            limit="" if limit is None else f"LIMIT {int(limit)}",
        )
        try:
            with self._cursor() as cursor:
                cursor.adbc_statement.set_options(**{_FETCH_BYTES: str(self._batch_bytes)})
                cursor.execute(statement)
                for batch in cursor.fetch_record_batch():
                    if batch.num_rows:
                        _require_bodies(batch)
                        yield pa.Table.from_batches([batch]).cast(BATCH_SCHEMA)
        except (adbc_driver_manager.Error, OSError) as error:
            self.close()
            raise _away(error) from error

    def last_position(self) -> int:
        """Return the highest position of the log."""
        return int(self._one(_LAST)[0])

    def event_at(self, position: int) -> str | None:
        """Return the id of the event at a position, None where there is none."""
        row = self._one(_EVENT_AT.format(position=int(position)))
        return None if row is None else str(row[0])

    def lag(self, position: int) -> tuple[int, int, float]:
        """Return the log's highest position, the events above `position`, and the age of the oldest of them in s."""
        last, events, seconds = self._one(_LAG.format(position=int(position)))
        return int(last), int(events), max(0.0, float(seconds))

    @property
    def connected(self) -> bool:
        """Whether it was connected when it was last used."""
        return self._connection is not None

    def close(self) -> None:
        """Disconnect; the next question connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _one(self, statement: str) -> Any:
        try:
            with self._cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchone()
        except (adbc_driver_manager.Error, OSError) as error:
            self.close()
            raise _away(error) from error

    def _cursor(self) -> Any:
        if self._connection is None:
            self._connection = adbc_driver_postgresql.dbapi.connect(self._uri, autocommit=True)
        return self._connection.cursor()


class _Trimmed(Exception):
    """A fact came without its body."""


def _require_bodies(batch: pa.RecordBatch) -> None:
    if batch.column("body").null_count:
        absent = batch.filter(pc.is_null(batch.column("body"))).column("type")
        if not pc.all(pc.starts_with(absent, SAMPLES_PREFIX)).as_py():
            raise _Trimmed


def _away(error: BaseException) -> ServiceUnavailable:
    return ServiceUnavailable(f"Postgres does not answer: {str(error)[:300]}.", remedy="It is asked again by itself.")
