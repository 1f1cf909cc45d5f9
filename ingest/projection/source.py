"""What the projection reads of the log, archive first and then the database: Arrow batches, no Python object an event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import pyarrow as pa
import pyarrow.compute as pc

from domain.errors import LogAltered, ServiceUnavailable
from ingest.archive.archive import Archive, ArchiveDamaged, archive_folder
from ingest.archive.files import whole
from ingest.archive.segments import SAMPLES_PREFIX, connected
from ingest.archive.shapes import id_texts
from ingest.log.chain import altered, genesis
from ingest.log.chain_arrow import link_table
from ingest.log.chain_breaks import Break, breaks_between
from ingest.projection.fold import BATCH_SCHEMA
from ingest.projection.history import History

__all__ = ["Diverged", "LogSource"]

# Raw samples stay where they are: tables that knew them would change when samples expire.
_COLUMNS = """
SELECT position, uuid_send(id) AS id, type, source, subject, time, recorded_at, attestation, chain"""
# The event at the checkpoint comes along, without its body: in one statement with what follows it.
_BATCHES = f"""{_COLUMNS},
    CASE WHEN body IS NULL OR starts_with(type, '{SAMPLES_PREFIX}') THEN digest END AS digest,
    CASE WHEN position > {{after}} AND NOT starts_with(type, '{SAMPLES_PREFIX}') THEN body END AS body FROM event
WHERE position >= {{after}} {{upto}} ORDER BY position
"""
_ROWS = f"{_COLUMNS}, digest FROM event WHERE position BETWEEN {{first}} AND {{last}} ORDER BY position"
_STATE = """
SELECT (SELECT coalesce(max(last_position), 0) FROM archive_segment WHERE trimmed_at IS NOT NULL), id::text, epoch FROM log
"""
_RECORDED = """
SELECT position, (extract(epoch FROM recorded_at) * 1000000)::bigint FROM event
WHERE position >= {first} AND position < {end} ORDER BY position
"""
_NEXT_EPOCH = "UPDATE log SET epoch = epoch + 1 WHERE epoch = {epoch} RETURNING epoch"
_AT = "SELECT chain FROM event WHERE position = {position}"
_AT_MOST = "SELECT coalesce(max(position), 0) FROM event WHERE position <= {position}"
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
        self.history = History()

    def batches(self, after: int, upto: int | None = None, *, chain: bytes | None = None) -> Iterator[pa.Table]:
        """Yield the events above `after` (and not above `upto`) in order, about `batch_bytes` at a time.

        `chain` is the link of the event at `after`. The body of raw samples is null. Positions that were trimmed come out
        of the archive, those above out of the database. Diverged where the log has no such event at `after`; LogAltered
        where an event is not as it was appended: those before it are yielded first. ArchiveDamaged, which names file and
        remedy, where the archive has not what it should have.
        """
        if upto is not None and upto <= after:
            return
        trimmed = self._state()
        previous = chain or (self.chain_at(after) if after else genesis(UUID(self.history.log)))
        if previous is None:
            raise Diverged(after)
        while True:
            try:
                for table in self._pieces(after, previous, trimmed, upto):
                    yield table
                    after, previous = table.column("position")[-1].as_py(), table.column("chain")[-1].as_py()
                return
            except _Trimmed:
                # The archive took these bodies while they were being read.
                before, trimmed = trimmed, self._state()
                if trimmed == before:
                    raise ArchiveDamaged(
                        f"after position {after} the database has events without a body, and no archived segment has them.",
                        field="ASSAY_ARCHIVE",
                        remedy="Restore the database and the archive from one backup.",
                    ) from None

    def _state(self) -> int:
        """Return the position up to which the log is trimmed, and learn which log it is."""
        row = self._one(_STATE)
        if row is None:
            raise LogAltered("the table `log` is empty: the log has lost its identity.", remedy="Restore a backup.")
        self.history = History(str(row[1]), int(row[2]))
        return int(row[0])

    def _pieces(self, after: int, previous: bytes, trimmed: int, upto: int | None) -> Iterator[pa.Table]:
        if after < trimmed:
            if after and self.chain_at(after) != previous:
                raise Diverged(after)
            for table in self._archived(after, trimmed if upto is None else min(trimmed, upto)):
                yield from self._linked(after, previous, table, archived=True)
                after, previous = table.column("position")[-1].as_py(), table.column("chain")[-1].as_py()
        if upto is None or upto > trimmed:
            yield from self._stored(after, previous, upto)

    def _archived(self, after: int, upto: int) -> Iterator[pa.Table]:
        """Yield the bodies of the archive beside the rows that the log still has of them."""
        archive = Archive(self._archive or archive_folder(), self._uri)
        for segment in archive.segments(after):
            if segment.first_position > upto:
                return
            if segment.facts not in self._verified:
                archive.verify(segment, deep=False, samples=False)
                self._verified.add(segment.facts)
            for table in whole(archive.folder / segment.facts, after, upto):
                if table.num_rows:
                    yield self._rows(table).append_column("body", table["body"])

    def _rows(self, archived: pa.Table) -> pa.Table:
        """Return the log's rows of the events in a table of the archive; LogAltered where they are not the same events."""
        first, last = archived["position"][0].as_py(), archived["position"][-1].as_py()
        with self._asked(_ROWS.format(first=first, last=last)) as cursor:
            rows = cursor.fetch_arrow_table()
        if rows["position"].to_pylist() != archived["position"].to_pylist():
            raise LogAltered(
                f"the log does not have the events from position {first} to {last} that its archive has.",
                field="position",
                remedy="`assay log verify` says where; put the rows back from a backup.",
            )
        return rows

    def _stored(self, after: int, previous: bytes, upto: int | None) -> Iterator[pa.Table]:
        statement = _BATCHES.format(after=int(after), upto="" if upto is None else f"AND position <= {int(upto)}")
        unseen = after > 0
        try:
            with self._cursor() as cursor:
                cursor.adbc_statement.set_options(**{_FETCH_BYTES: str(self._batch_bytes)})
                cursor.execute(statement)
                for batch in cursor.fetch_record_batch():
                    if not batch.num_rows:
                        continue
                    table = pa.Table.from_batches([batch])
                    if unseen:
                        if table["position"][0].as_py() != after or table["chain"][0].as_py() != previous:
                            raise Diverged(after)
                        unseen, table = False, table.slice(1)
                    if table.num_rows:
                        _require_bodies(table)
                        yield from self._linked(after, previous, table)
                        after, previous = table["position"][-1].as_py(), table["chain"][-1].as_py()
        except (adbc_driver_manager.Error, OSError) as error:
            self.close()
            raise _away(error) from error
        if unseen:
            raise Diverged(after)

    def _linked(self, after: int, previous: bytes, table: pa.Table, *, archived: bool = False) -> Iterator[pa.Table]:
        """Yield the batch in the schema of the Folder where it links to the event at `after`.

        Where it does not, yield what comes before the first event that was altered, and raise LogAltered.
        """
        table = table.set_column(
            table.schema.get_field_index("id"), "id", table["id"].combine_chunks().cast(pa.binary(16))
        )
        broken = None
        if link_table(previous, table) != table["chain"][-1].as_py():
            broken = self._broken(after, previous, table, archived)
            table = table.filter(pc.less(table["position"], broken.position))
        if table.num_rows:
            identifiers = id_texts(table["id"].combine_chunks())
            yield table.append_column("event_id", identifiers).select(BATCH_SCHEMA.names).cast(BATCH_SCHEMA)
        if broken is not None:
            raise altered(broken.position or 0, broken.id or "", broken.detail)

    def _broken(self, after: int, previous: bytes, table: pa.Table, archived: bool) -> Break:
        last = table["position"][-1].as_py()
        with connected(self._uri) as connection:
            broken = next(breaks_between(connection, previous, after, upto=last, archived=last), None)
        if broken is None and archived:
            raise ArchiveDamaged(
                f"a body between position {after + 1} and {last} came out of the archive other than it was appended.",
                field="ASSAY_ARCHIVE",
                remedy="`assay archive verify --deep` names the file; put it back from a copy of the archive.",
            )
        if broken is None or broken.position is None or broken.id is None:
            raise ServiceUnavailable(
                f"the events from position {after + 1} to {last} did not match their links, and match them now.",
                remedy="They are read again by themselves.",
            )
        return broken

    def last_position(self) -> int:
        """Return the highest position of the log."""
        return int(self._one("SELECT coalesce(max(position), 0) FROM event")[0])

    def position_at_most(self, position: int) -> int:
        """Return the highest position that an event has and that is not above `position`, 0 where there is none."""
        return int(self._one(_AT_MOST.format(position=int(position)))[0])

    def chain_at(self, position: int) -> bytes | None:
        """Return the link of the event at a position, None where there is none."""
        row = self._one(_AT.format(position=int(position)))
        return None if row is None else bytes(row[0])

    def identify(self) -> History:
        """Ask which log it is, and in which epoch."""
        self._state()
        return self.history

    def recorded_at(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return position and time of recording, in microseconds since 1970, of the events from `first` up to before `end`."""
        with self._asked(_RECORDED.format(first=int(first), end=int(end))) as cursor:
            return [(int(position), int(moment)) for position, moment in cursor.fetchall()]

    def next_epoch(self, epoch: int) -> int:
        """Begin the epoch after `epoch`, unless somebody has, and return the epoch of the log."""
        self._one(_NEXT_EPOCH.format(epoch=int(epoch)))
        self._state()
        return self.history.epoch or 0

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
        with self._asked(statement) as cursor:
            return cursor.fetchone()

    @contextmanager
    def _asked(self, statement: str) -> Iterator[Any]:
        try:
            with self._cursor() as cursor:
                cursor.execute(statement)
                yield cursor
        except (adbc_driver_manager.Error, OSError) as error:
            self.close()
            raise _away(error) from error

    def _cursor(self) -> Any:
        if self._connection is None:
            self._connection = adbc_driver_postgresql.dbapi.connect(self._uri, autocommit=True)
        return self._connection.cursor()


class _Trimmed(Exception):
    """A fact came without its body."""


class Diverged(ServiceUnavailable):
    """The log has not the event that the tables end with."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"the log has not the event at position {position} that the tables end with.",
            remedy="The tables are made anew by themselves.",
        )


def _require_bodies(batch: pa.Table) -> None:
    if batch.column("body").null_count:
        absent = batch.filter(pc.is_null(batch.column("body"))).column("type")
        if not pc.all(pc.starts_with(absent, SAMPLES_PREFIX)).as_py():
            raise _Trimmed


def _away(error: BaseException) -> ServiceUnavailable:
    return ServiceUnavailable(f"Postgres does not answer: {str(error)[:300]}.", remedy="It is asked again by itself.")
