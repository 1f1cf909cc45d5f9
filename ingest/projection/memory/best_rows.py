"""The best row of each configuration, in memory by model: DuckDB plans each statement anew, by the column."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from domain.events import (
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    RUN_FINISHED,
    RUN_STARTED,
    SAMPLES_RECORDED,
    TEST_REPORTED,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["COLUMNS", "ONLY_ROWS", "BestRows", "Snapshot", "types_since"]

ROOM_BYTES = 128 * 2**20
"""Bytes of the rows in memory: about 300,000 rows. The batch that was not asked for the longest goes first."""
TOGETHER = 30_000
"""Rows of models that were never read which one statement takes along with those that are asked for."""
AGAIN = 1_000
"""Rows of models that changed which a question about all models reads again; of more, it is cheaper to ask for its own rows by SQL."""
_ROW_BYTES = 450
"""About what a row takes."""
COLUMNS = (
    "architecture", "arrival_rate_per_s", "audio_seconds", "backward_ms", "batch_size", "compiled", "concurrency",
    "configuration", "device", "energy_j", "energy_per_item_j", "energy_per_token_j", "energy_verdict",
    "environment_fingerprint", "event_id", "fallback_share", "forward_ms", "frames", "gradient_checkpointing",
    "hardware_count", "hardware_id", "hardware_kind", "image_size", "images", "input_tokens",
    "latency_mean_ci95_high_ms", "latency_mean_ci95_low_ms", "latency_mean_ms", "latency_n",
    "latency_p50_ci95_high_ms", "latency_p50_ci95_low_ms", "latency_p50_ms", "layout", "loss_ms", "mode",
    "model_id", "optimizer", "optimizer_ms", "options", "origin", "output_tokens", "parallelism",
    "peak_memory_bytes", "platform", "platform_asked", "position", "power_w", "precision", "precision_asked",
    "revision", "run_id", "runtime_name", "runtime_version", "scenario", "scenario_result", "sequence_length",
    "steps", "streams", "threads", "throughput_per_s", "time", "tokens_per_s", "verdict", "weights",
)  # fmt: skip
"""Columns of the view `best_measurements` that are kept: what comparisons and the page of a model read."""
_UNIQUE = ("configuration", "event_id")
"""Columns of text that differ in every row; all others repeat."""
_MODELS = """
SELECT model_id, count(*) FROM main.standing JOIN main.subject ON standing.subject = subject.id
WHERE best IS NOT NULL GROUP BY model_id ORDER BY model_id
"""
_NO_ROWS = frozenset((MEASUREMENT_FAILED, TEST_REPORTED, SAMPLES_RECORDED, RUN_STARTED, RUN_FINISHED))
ONLY_ROWS = _NO_ROWS | {MEASUREMENT_RECORDED}
"""Types of most events. They declare no alias, retract nothing and choose no predictor; other types, old versions among them, may."""
_TYPES_SINCE = "SELECT type FROM main.event_type_count WHERE last_position > ?"
_CHANGED = """
SELECT (SELECT count(*) FROM main.alias WHERE position > $since),
    (SELECT coalesce(list(position), []) FROM main.voided WHERE since > $since OR until > $since)
"""
# Without the second DISTINCT, DuckDB expects most of the log to have come since, and hashes all subjects.
_MEASURED = """
SELECT DISTINCT model_id FROM main.subject WHERE id IN (SELECT DISTINCT subject FROM main.measurement WHERE position > ?)
"""
_VOIDED = """
SELECT DISTINCT model_id FROM main.subject WHERE id IN (
    SELECT subject FROM main.measurement WHERE position IN (SELECT unnest(?::BIGINT[])))
"""
Wanted = Mapping[str, Sequence[Any]]
"""Columns with the values of which a row has one."""
Read = Callable[[Sequence[str]], "pa.Table"]
"""Read the best rows of these models, with all columns that are kept, from the tables."""


class Snapshot(NamedTuple):
    """One state of the tables: its file, its log and epoch, and its position."""

    file: str
    history: str
    position: int


def types_since(cursor: duckdb.DuckDBPyConnection, position: int) -> set[str]:
    """Return the types of the events above a position, in the version that they were sent in."""
    return {type_ for (type_,) in cursor.execute(_TYPES_SINCE, [position]).fetchall()}


class _Batch:
    """Rows of several models that were read together, ordered by model and position; text that repeats is stored once."""

    def __init__(self, rows: pa.Table) -> None:
        import pyarrow as pa

        rows = rows.sort_by([("model_id", "ascending"), ("position", "ascending")])
        self.bytes = 0
        """How many bytes the rows take."""
        self._columns: dict[str, tuple[pa.Array, Sequence[Any] | None]] = {}
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            values, words = column.combine_chunks(), None
            if pa.types.is_string(values.type) and name not in _UNIQUE:
                encoded = values.dictionary_encode()
                self.bytes += encoded.dictionary.nbytes
                words = [*encoded.dictionary.to_pylist(), None]
                values = encoded.indices.fill_null(len(words) - 1)
            self.bytes += values.nbytes
            self._columns[name] = values, words
        self.models = 0
        """How many models are taken from here."""
        self._places: dict[str, tuple[int, int]] = {}
        begin = 0
        for model in rows.column("model_id").value_counts().to_pylist():
            self._places[model["values"]] = (begin, model["counts"])
            begin += model["counts"]

    def rows(self, models: Iterable[str], columns: Sequence[str], wanted: Wanted) -> list[tuple[Any, ...]]:
        """Return the rows of models, of each by position, that have the `wanted` values; with the values that Arrow gives for them."""
        places = [self._places[model] for model in models if model in self._places]
        if len(places) == 1 and not wanted:
            # A slice of one model's rows is a view of them.
            ((begin, count),) = places
            parts = {name: self._columns[name][0].slice(begin, count) for name in columns}
        else:
            import numpy as np

            indices = np.concatenate([np.arange(begin, begin + count) for begin, count in places] or [np.arange(0)])
            for name, values in wanted.items():
                indices = indices[self._has(name, indices, values)]
            parts = {name: self._columns[name][0].take(indices) for name in columns}
        return list(zip(*(self._values(name, parts[name]) for name in columns), strict=True))

    def _has(self, name: str, indices: NDArray[Any], values: Sequence[Any]) -> NDArray[Any]:
        """Return which of these rows have one of the values in a column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column, words = self._columns[name]
        among = values if words is None else [words.index(value) for value in values if value in words]
        chosen: NDArray[Any] = pc.is_in(column.take(indices), value_set=pa.array(among, column.type)).to_numpy(False)
        return chosen

    def _values(self, name: str, part: pa.Array) -> list[Any]:
        words = self._columns[name][1]
        if words is not None:
            return [words[code] for code in part.to_pylist()]
        return part.to_pylist() if name != "time" else _times(part)


class BestRows:
    """Best rows of models at the newest state that was asked for, for any number of threads; what is not there is read.

    What came between two states takes away the models that it touches: those with a new measurement, or with one that was
    retracted or restored. An alias, another file or another log takes away all. A reader whose state is older than the
    newest gets nothing from here.
    """

    def __init__(self, columns: Iterable[str] = COLUMNS, room_bytes: int = ROOM_BYTES) -> None:
        """Begin with nothing; `columns` are those of the view `best_measurements` that are kept."""
        self.columns = tuple(dict.fromkeys(("model_id", "position", *columns)))
        self._room_bytes = room_bytes
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._batch_of: dict[str, int] = {}
        self._unread: dict[str, int] = {}
        """Models that were never read, with at most how many rows each has."""
        self._rows_of: dict[str, int] = {}
        """All models that have best rows or may have some, with about how many."""
        self._count = 0

    @property
    def bytes(self) -> int:
        """How many bytes the rows take, those included that lie beside others in a batch and are out of date."""
        return sum(batch.bytes for batch in self._batches.values())

    def rows(
        self,
        snapshot: Snapshot,
        models: Sequence[str] | None,
        columns: Sequence[str],
        wanted: Wanted,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        read: Read,
    ) -> list[tuple[Any, ...]] | None:
        """Return the best rows with the `wanted` values by position, as the view has them in this state; None where it is not the newest.

        Without `models` those of all models, or None where these have more rows than one reading takes, or too many changed. `cursor` returns a connection in a transaction on that state, and `read` reads through it; where there is no such
        transaction any more, `cursor` raises.
        """
        with self._lock:
            if not self._follow(snapshot, cursor):
                return None
            if models is None:
                changed = self._rows_of.keys() - self._batch_of.keys() - self._unread.keys()
                again = sum(self._rows_of[model] for model in changed)
                if again > AGAIN or sum(self._rows_of.values()) > TOGETHER:
                    return None
                models = list(self._rows_of)
            batches = {model: self._batches[key] for model in models if (key := self._batch_of.get(model)) is not None}
            for model in batches:
                self._batches.move_to_end(self._batch_of[model])
            missing = [model for model in models if model not in batches]
            if missing:
                cursor()  # Before models are taken along, because it may raise.
            reading = [*missing, *self._along(missing)] if missing else []
        if reading:
            batch = _Batch(read(reading))
            batches |= dict.fromkeys(missing, batch)
            with self._lock:
                if self._snapshot == snapshot:
                    self._keep(reading, batch)
        by_batch: dict[_Batch, list[str]] = {}
        for model, batch in batches.items():
            by_batch.setdefault(batch, []).append(model)
        rows = [row for batch, names in by_batch.items() for row in batch.rows(names, columns, wanted)]
        return rows if len(batches) == 1 else sorted(rows, key=itemgetter(columns.index("position")))

    def _follow(self, snapshot: Snapshot, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> bool:
        """Drop what is no longer so in a state; False where a newer one was followed already."""
        before = self._snapshot
        if before is None or before[:2] != snapshot[:2]:
            self._begin(cursor())
        elif snapshot.position < before.position:
            return False
        elif snapshot.position > before.position:
            since, connection = before.position, cursor()
            types, aliases, voided = types_since(connection, since), 0, []
            if not types <= ONLY_ROWS:
                ((aliases, voided),) = connection.execute(_CHANGED, {"since": since}).fetchall()
            if aliases:
                self._begin(connection)
            else:
                if not types <= _NO_ROWS:
                    self._drop(connection.execute(_MEASURED, [since]).fetchall())
                if voided:
                    self._drop(connection.execute(_VOIDED, [voided]).fetchall())
        self._snapshot = snapshot
        return True

    def _begin(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._batches.clear()
        self._batch_of.clear()
        self._unread = dict(cursor.execute(_MODELS).fetchall())
        self._rows_of = dict(self._unread)

    def _along(self, missing: Sequence[str]) -> Iterator[str]:
        """Yield models that were never read, as many as go into one reading and into the room."""
        for model in missing:
            self._unread.pop(model, None)
        most = min(TOGETHER, (self._room_bytes - self.bytes) // _ROW_BYTES)
        for model, rows in list(self._unread.items()):
            most -= rows
            if most < 0:
                return
            del self._unread[model]
            yield model

    def _keep(self, models: Sequence[str], batch: _Batch) -> None:
        batch.models = len(models)
        self._batch_of |= dict.fromkeys(models, self._count)
        self._batches[self._count] = batch
        self._count += 1
        while self.bytes > self._room_bytes:
            key, _ = self._batches.popitem(last=False)
            self._batch_of = {model: other for model, other in self._batch_of.items() if other != key}

    def _drop(self, models: Iterable[tuple[str]]) -> None:
        for (model,) in models:
            self._rows_of[model] = self._rows_of.get(model, 0) + 1
            key = self._batch_of.pop(model, None)
            if key is not None:
                self._batches[key].models -= 1
                if not self._batches[key].models:
                    del self._batches[key]


def _times(column: pa.Array) -> list[datetime | None]:
    """Return times of UTC as `to_pylist` does, which takes several times as long to add the zone to each."""
    begin = datetime(1970, 1, 1, tzinfo=ZoneInfo(column.type.tz))
    microseconds = column.view("int64").to_pylist()
    return [None if value is None else begin + timedelta(0, 0, value) for value in microseconds]
