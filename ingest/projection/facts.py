"""Measurements, failures and tests of a batch: their parts become ids, their figures rows.

DuckDB reads the JSON; what an event says again and again is looked up once for each distinct text of the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from domain.configuration import configuration_key
from ingest.projection.dimensions import PARTS, Poison, check_metrics, part_row
from ingest.projection.names import Names
from ingest.projection.statements import FOLD

__all__ = ["MEASURED", "TESTED", "Facts", "Input", "Projected", "halves"]

MEASURED = "assay.measurement.recorded.v1"
TESTED = frozenset(("assay.measurement.failed.v1", "assay.test.reported.v1"))

_SUBJECT = ("model", "hardware", "workload_id", "execution_id")
_JSON_OF_SUBJECT = ("workload", "execution")
"""Columns of parts that stand at the end of a subject."""
_SUBJECT_COLUMNS: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("id", *_SUBJECT), pa.int64()),
    "configuration": pa.string(),
    **{
        name: type_
        for kind in _SUBJECT
        for name, type_ in PARTS[kind].columns.items()
        if name not in ("id", *PARTS[kind].sent, *_JSON_OF_SUBJECT)
    },
    **dict.fromkeys(_JSON_OF_SUBJECT, pa.string()),
}
_FEW = 2_000
_FIRST_FIGURE = "mean"
_BESIDE = frozenset(
    (
        "p50_high",
        "mean_high",
        "other_ci95",
        "samples_n",
        "stopped_by",
        "other_load",
        "clock_before_hz",
        "clock_after_hz",
        "energy_reading",
    )
)
"""Columns among the figures that are no member of the metrics of their own."""
_MOST = {**dict.fromkeys((*PARTS, "environment"), 250_000), "subject": 500_000}
"""Texts of a kind, and subjects, that are kept in memory; what is forgotten is looked up in the tables.

Half a million subjects take 100 MB. Ten million measurements have 288,000 in the benchmarks.
"""
_READ_WHOLE = 20_000
"""Rows of a table that are read into memory at once, some 10 MB of texts."""
_PIECE_ROWS = 8192

_NO_ID = "0" * 32
Key = tuple[Any, ...]
Codes = np.ndarray[Any, np.dtype[np.int64]]


class Projected(NamedTuple):
    """The facts of a batch as they were read, its measurements as they were written, and whether environments are new."""

    seen: pa.Table
    measured: pa.Table | None
    new_environments: bool


class Input:
    """A name under which the statements of a connection read an Arrow table, which may be another one for each batch.

    To register each table by itself would keep all of them in memory until the transaction ends: 4 KB an event.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self.table = pa.table({"position": pa.array([], pa.int64())})
        connection.register(name, self)

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # DuckDB gives each thread a piece at a time, and keeps the order of the rows.
        return self.table.to_reader(max_chunksize=_PIECE_ROWS).__arrow_c_stream__(requested_schema)


def halves(ids: Sequence[str | None]) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """Return UUIDs as the tables store them: their upper and lower 64 bits, null where an id is."""
    missing = np.array([item is None for item in ids], dtype=bool)
    digits = "".join(item or _NO_ID for item in ids).replace("-", "")
    pairs = np.frombuffer(bytes.fromhex(digits), ">u8").astype(np.uint64).reshape(-1, 2)
    return pa.array(pairs[:, 0], mask=missing), pa.array(pairs[:, 1], mask=missing)


class Facts:
    """Reads the facts of the registered `batch`, within the transaction of the Folder. Call `settle` or `undo` after it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known = {kind: _Memory(most, _packed if kind == "subject" else tuple) for kind, most in _MOST.items()}
        self._asked, self._learnt, self._met, self._tested = (
            Input(connection, name) for name in ("asked", "learnt", "met", "tested")
        )

    def settle(self) -> None:
        """Remember what was learnt: it is in the file now."""
        for memory in self._known.values():
            memory.settle()

    def undo(self) -> None:
        """Forget what was learnt since the last `settle`."""
        for memory in self._known.values():
            memory.undo()

    def project(
        self, rows: int, types: frozenset[str], names: Mapping[str, Names], few: pa.Table | None = None
    ) -> Projected:
        """Write the rows of the facts; those of a small batch were read before, and are `few`.

        Raises Poison, which names the events and why they cannot be read.
        """
        connection = self._connection
        seen = few
        if seen is None:
            seen = self._read(rows)
            self._check(seen)
        positions = seen.column("position").to_numpy()
        ids: dict[str, Codes] = {}
        codes: dict[str, tuple[Codes, list[Key]]] = {}
        learnt = False
        for kind, part in PARTS.items():
            inverse, distinct = _distinct([seen.column(name) for name in part.sent])
            result, new = self._ids(kind, inverse, distinct, positions, names)
            ids[kind] = result[inverse]
            codes[kind] = inverse, distinct
            if new and kind == "context":
                learnt = self._new_environments(distinct)
        subject = self._subjects(ids, codes, positions, names if few is not None else None)
        keys = {
            "subject": pa.array(subject),
            "context": pa.array(ids["context"]),
            "judgement": pa.array(ids["judgement"]),
        }
        measured = None
        if MEASURED in types:
            measured = _with(seen, keys)
            if types & TESTED:
                measured = measured.filter(pc.equal(measured.column("type"), MEASURED))
            columns = ["position", "event_id", "time", "recorded_at", *keys, *_figures(seen)]
            measured = measured.select(columns)
            place = measured.column_names.index("event_id")
            stored = measured.remove_column(place)
            for offset, half in enumerate(halves(measured.column("event_id").to_pylist())):
                stored = stored.add_column(place + offset, ("id_high", "id_low")[offset], half)
            # In one piece: rows of several are appended by several threads, each to row groups of its own.
            stored = stored.combine_chunks()
            if few is None:
                connection.from_arrow(stored).insert_into("measurement")
            else:
                # A relation is planned twice.
                self._learnt.table = stored
                connection.execute("INSERT INTO measurement FROM learnt")
        if types & TESTED:
            self._tested.table = pa.table({"position": seen.column("position"), **keys})
            connection.execute(FOLD["tests"])
        return Projected(seen, measured, learnt)

    def _new_environments(self, contexts: list[Key]) -> bool:
        """Remember the texts of the environments, and return whether one of them was not seen before."""
        place = PARTS["context"].sent.index("environment_sent")
        memory = self._known["environment"]
        texts = [(text,) for text in {context[place] for context in contexts} if text]
        missing = _missing(memory.values(texts))
        for index in missing:
            memory.learn(texts[index], 0)
        return bool(missing)

    def _read(self, rows: int) -> pa.Table:
        """Return the facts of `rows` events, parts as text and figures typed."""
        connection = self._connection
        if rows > _FEW:
            return connection.sql(FOLD["seen"]).to_arrow_table()
        # A relation is planned twice, which costs more than the copy of a few rows.
        connection.execute(f"CREATE OR REPLACE TEMPORARY TABLE seen AS {FOLD['seen']}")
        return connection.sql("FROM seen").to_arrow_table()

    def _check(self, seen: pa.Table) -> None:
        """Raise Poison for measurements whose metrics the gate would not take; most are known to be whole."""
        read = np.zeros(seen.num_rows, np.int64)
        for name in _figures(seen):
            if name not in _BESIDE:
                read += seen.column(name).is_valid().to_numpy()
        whole = pc.and_kleene(pc.equal(seen.column("figures"), pa.array(read)), pc.invert(seen.column("odd")))
        doubtful = pc.and_(pc.equal(seen.column("type"), MEASURED), pc.invert(pc.fill_null(whole, False)))
        wrong = {
            row["position"]: reason
            for row in seen.select(["position", "metrics", "samples"]).filter(doubtful).to_pylist()
            if (reason := check_metrics(row["metrics"], row["samples"])) is not None
        }
        if wrong:
            raise Poison(wrong)

    def _ids(
        self, kind: str, inverse: Codes, distinct: list[Key], positions: Codes, names: Mapping[str, Names]
    ) -> tuple[Codes, bool]:
        """Return the id of each distinct text, and whether any is new; new parts are written."""
        memory, part = self._known[kind], PARTS[kind]
        values, new = memory.look_up(distinct, self._connection, part.table, part.sent)
        missing = _missing(values)
        if missing and not new:
            distincts = {name: [distinct[index][place] for index in missing] for place, name in enumerate(part.sent)}
            self._asked.table = pa.table({name: pa.array(texts, pa.string()) for name, texts in distincts.items()})
            for result, *texts in self._connection.execute(
                f"SELECT id, {', '.join(part.sent)} FROM asked JOIN {part.table} USING ({', '.join(part.sent)})"
            ).fetchall():
                memory.learn(tuple(texts), result)
            values = memory.values(distinct)
            missing = _missing(values)
        if missing:
            self._learn(kind, missing, inverse, distinct, positions, names)
            values = memory.values(distinct)
        return np.array(values, np.int64), bool(missing)

    def _learn(
        self,
        kind: str,
        missing: Sequence[int],
        inverse: Codes,
        distinct: list[Key],
        positions: Codes,
        names: Mapping[str, Names],
    ) -> None:
        part = PARTS[kind]
        firsts = positions[_firsts(inverse, len(distinct))]
        rows: list[Key] = []
        wrong: dict[int, str] = {}
        for index in missing:
            try:
                rows.append((int(firsts[index]), *distinct[index], *part_row(kind, names, distinct[index])))
            except ValueError as error:
                wrong |= dict.fromkeys(positions[inverse == index].tolist(), str(error))
        if wrong:
            raise Poison(wrong)
        self._insert(part.table, part.columns, rows)
        for index in missing:
            self._known[kind].learn(distinct[index], int(firsts[index]))

    def _insert(self, table: str, columns: Mapping[str, pa.DataType], rows: list[Key]) -> None:
        """Write rows, whose first column is their id, in the order of their ids."""
        values = zip(columns.items(), zip(*sorted(rows, key=itemgetter(0)), strict=True), strict=True)
        self._learnt.table = pa.table({name: pa.array(column, type_) for (name, type_), column in values})
        self._connection.execute(f"INSERT INTO {table} FROM learnt")

    def _subjects(
        self,
        ids: Mapping[str, Codes],
        codes: Mapping[str, tuple[Codes, list[Key]]],
        positions: Codes,
        names: Mapping[str, Names] | None,
    ) -> Codes:
        """Return the subject of each row; new ones are written, in Python where `names` say what names stand for."""
        memory = self._known["subject"]
        combined, _ = codes[_SUBJECT[0]]
        for kind in _SUBJECT[1:]:
            inverse, texts = codes[kind]
            combined = combined * len(texts) + inverse
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        met = {kind: ids[kind][first] for kind in _SUBJECT}
        distinct: list[bytes] = np.stack([*met.values()], axis=1).view(f"V{8 * len(met)}").ravel().tolist()
        values, new = memory.look_up(distinct, self._connection, "subject", _SUBJECT)
        missing = _missing(values)
        if missing:
            firsts = positions[first]
            columns = {"key": np.array(missing), "position": firsts[missing]}
            table = pa.table({**columns, **{kind: column[missing] for kind, column in met.items()}})
            if not new:
                self._met.table = table
                for key, result in self._connection.execute(FOLD["known_subjects"]).fetchall():
                    memory.learn(distinct[key], result)
                missing = _missing(memory.values(distinct))
                table = table.filter(pc.is_in(table.column("key"), pa.array(missing, pa.int64())))
            if missing:
                if names is None:
                    self._met.table = table
                    self._connection.execute(FOLD["subjects"])
                else:
                    self._write_subjects(table, codes, first[missing], names)
                for index in missing:
                    memory.learn(distinct[index], int(firsts[index]))
            values = memory.values(distinct)
        return np.array(values, np.int64)[inverse]

    def _write_subjects(
        self, met: pa.Table, codes: Mapping[str, tuple[Codes, list[Key]]], first: Codes, names: Mapping[str, Names]
    ) -> None:
        """Write new subjects from the texts of their parts, as the statement `subjects` does: planning it takes 10 ms.

        `first` is the first row of each in the batch.
        """
        part_rows: dict[tuple[str, Key], tuple[Any, ...]] = {}
        rows: list[Key] = []
        for key, row in zip(met.select(["position", *_SUBJECT]).to_pylist(), first.tolist(), strict=True):
            parts = []
            for kind in _SUBJECT:
                inverse, distinct = codes[kind]
                texts = distinct[inverse[row]]
                if (kind, texts) not in part_rows:
                    part_rows[kind, texts] = tuple(part_row(kind, names, texts))
                parts.append(part_rows[kind, texts])
            model, hardware, (*workload, workload_json), (*execution, execution_json) = parts
            _, configuration = configuration_key(workload_json, execution_json, model[0], hardware[0], hardware[3])
            rows.append(
                (*key.values(), configuration, *model, *hardware, *workload, *execution, workload_json, execution_json)
            )
        self._insert("subject", _SUBJECT_COLUMNS, rows)


class _Memory:
    """Ids by key: those of the file, and those of the transaction that is under way."""

    def __init__(self, most: int, key_of: Callable[[Sequence[Any]], Key | bytes]) -> None:
        self._most, self._key_of = most, key_of
        self._kept: dict[Key | bytes, int] = {}
        self._fresh: dict[Key | bytes, int] = {}
        self._complete: bool | None = None

    def look_up(
        self, keys: Sequence[Key | bytes], connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]
    ) -> tuple[list[int | None], bool]:
        """Return the id of each key, None where it is not here, and whether the table has none of those either.

        That is so as long as nothing was forgotten: a table with few rows is read whole, once.
        """
        values = self.values(keys)
        if self._complete is None and None in values:
            ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
            self._complete = rows <= _READ_WHOLE
            if rows and self._complete:
                stored = connection.execute(f"SELECT id, {', '.join(columns)} FROM {table}").fetchall()
                self._kept = {self._key_of(key): value for value, *key in stored}
                values = self.values(keys)
        return values, bool(self._complete)

    def values(self, keys: Sequence[Key | bytes]) -> list[int | None]:
        """Return the id of each key, None where it is not here.

        Among many subjects a key is rarely in the processor's cache, so that none is looked for twice.
        """
        values = list(map(self._kept.get, keys))
        if self._fresh and None in values:
            fresh = self._fresh
            values = [fresh.get(key) if value is None else value for key, value in zip(keys, values, strict=True)]
        return values

    def learn(self, key: Key | bytes, value: int) -> None:
        self._fresh[key] = value

    def settle(self) -> None:
        if len(self._kept) + len(self._fresh) > self._most:
            self._kept, self._complete = {}, False
        self._kept |= self._fresh
        self._fresh = {}

    def undo(self) -> None:
        self._fresh = {}
        self._complete = self._complete and bool(self._kept)


def _missing(values: Sequence[int | None]) -> list[int]:
    return [index for index, value in enumerate(values) if value is None]


def _packed(ids: Sequence[int]) -> bytes:
    """Return ids as bytes: a key of integers takes three times as much memory."""
    return struct.pack(f"={len(ids)}q", *ids)


def _distinct(columns: Sequence[pa.ChunkedArray]) -> tuple[Codes, list[Key]]:
    """Return for each row the number of its distinct texts, and these."""
    combined: Codes | None = None
    texts: list[pa.Array] = []
    codes: list[Codes] = []
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        texts.append(encoded.dictionary)
        codes.append(encoded.indices.to_numpy().astype(np.int64))
        combined = codes[-1] if combined is None else combined * len(encoded.dictionary) + codes[-1]
    if combined is None:
        raise ValueError("no column")
    if len(columns) == 1:
        return combined, [(text,) for text in texts[0].to_pylist()]
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    chosen = (text.take(pa.array(code[first])).to_pylist() for text, code in zip(texts, codes, strict=True))
    return inverse, list(zip(*chosen, strict=True))


def _firsts(inverse: Codes, count: int) -> Codes:
    """Return the first row of each number."""
    first = np.empty(count, np.int64)
    first[inverse[::-1]] = np.arange(len(inverse) - 1, -1, -1)
    return first


def _figures(seen: pa.Table) -> list[str]:
    names: list[str] = seen.column_names
    return names[names.index(_FIRST_FIGURE) :]


def _with(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table
