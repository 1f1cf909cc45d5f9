"""What the projection reads of the log: Arrow batches through ADBC, without a Python object an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql.dbapi
import pyarrow as pa

from domain.errors import ServiceUnavailable
from ingest.projection.fold import BATCH_SCHEMA

__all__ = ["LogSource"]

_BATCHES = """
SELECT position, id::text AS event_id, type, source, time, recorded_at, body FROM event
WHERE position > {after} {upto} ORDER BY position {limit}
"""
_LAST = "SELECT coalesce(max(position), 0) FROM event"
_EVENT_AT = "SELECT id::text FROM event WHERE position = {position}"
_LAG = """
SELECT coalesce(max(position), {position}), count(*),
       coalesce(extract(epoch FROM clock_timestamp() - min(recorded_at)), 0)::float8
FROM event WHERE position > {position}
"""
_FETCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"


class LogSource:
    """A reading connection to the log, for one thread; it connects anew after an error."""

    def __init__(self, uri: str, batch_bytes: int = 16 * 2**20) -> None:
        self._uri = uri
        self._batch_bytes = batch_bytes
        self._connection: Any = None

    def batches(self, after: int, upto: int | None = None, limit: int | None = None) -> Iterator[pa.Table]:
        """Yield the events above `after` (and not above `upto`) in order, in pieces of about `batch_bytes`."""
        statement = _BATCHES.format(
            after=int(after),
            upto="" if upto is None else f"AND position <= {int(upto)}",
            limit="" if limit is None else f"LIMIT {int(limit)}",
        )
        try:
            with self._cursor() as cursor:
                cursor.adbc_statement.set_options(**{_FETCH_BYTES: str(self._batch_bytes)})
                cursor.execute(statement)
                reader = cursor.fetch_record_batch()
                for batch in reader:
                    if batch.num_rows:
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


def _away(error: BaseException) -> ServiceUnavailable:
    return ServiceUnavailable(f"Postgres does not answer: {str(error)[:300]}.", remedy="It is asked again by itself.")
