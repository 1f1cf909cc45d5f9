"""Batches into rows: the state that a projection is after them, whatever the batches were."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa

from ingest.projection.names import Names, catalogue_digest, names_of
from ingest.projection.parts import Poison, part_table
from ingest.projection.statements import FOLD, TABLES, VIEWS

__all__ = ["BATCH_SCHEMA", "DATA_ERRORS", "Folder", "create"]

BATCH_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("event_id", pa.string()),
        ("type", pa.string()),
        ("source", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
        ("body", pa.string()),
    ]
)
DATA_ERRORS = (
    Poison, duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException, duckdb.OutOfRangeException,
)  # fmt: skip
"""What an event can cause. Anything else (no memory, no disk, a bug of ours) is not the event's fault."""

_INSERTS = (
    "keyed", "measurements", "tests", "runs", "run_ends", "models", "traces", "hardware", "environments", "prices",
    "retractions", "predictors", "recommendations",
)  # fmt: skip
_FACTS = frozenset(("assay.measurement.recorded.v1", "assay.measurement.failed.v1", "assay.test.reported.v1"))
_NEEDS = {
    "keyed": _FACTS,
    "measurements": {"assay.measurement.recorded.v1"},
    "tests": {"assay.measurement.failed.v1", "assay.test.reported.v1"},
    "runs": {"assay.run.started.v1"},
    "run_ends": {"assay.run.finished.v1"},
    "models": {"assay.model.described.v1"},
    "traces": {"assay.model.traced.v1"},
    "hardware": {"assay.hardware.described.v1"},
    "environments": {"assay.run.started.v1", "assay.hardware.described.v1", *_FACTS},
    "prices": {"assay.price.published.v1"},
    "retractions": {"assay.measurement.retracted.v1"},
    "predictors": {"assay.predictor.trained.v1"},
    "recommendations": {"assay.recommendation.issued.v1"},
}
_NAMED = {
    "model": {"measurement": True, "test": True, "model": False, "model_trace": False},
    "hardware": {"measurement": True, "test": True, "hardware_description": False, "price": False},
}
"""Tables that hold an id of each kind, and whether they hold a configuration too."""

_KEY = "configuration_key(execution::VARCHAR, hardware_id, hardware_count, model_id, workload::VARCHAR)"
_NAME_SCHEMA = pa.schema([("posted", pa.string()), ("canonical", pa.string())])


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables and views of an empty projection."""
    connection.begin()
    connection.execute(TABLES)
    for name, query in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    connection.execute("INSERT INTO projection VALUES (0, NULL, ?)", [catalogue_digest()])
    connection.commit()


class Folder:
    """Applies batches of events, each in one transaction with the checkpoint, over one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._names = self._declared()
        self.position: int = connection.execute("SELECT position FROM projection").fetchall()[0][0]

    def close(self) -> None:
        """Close the connection that it writes over."""
        self._connection.close()

    def apply(self, batch: pa.Table) -> None:
        """Apply events in the order of the log; those at or below the checkpoint must not be among them.

        An event that cannot be projected is found by halving, and recorded as a dead letter in the transaction that
        moves the checkpoint over it. An error that no event causes is raised, and nothing of the batch is kept.
        """
        if batch.num_rows == 0:
            return
        try:
            self._transact(batch, self._fold)
            return
        except DATA_ERRORS as error:
            reason = str(error).split("\n", 1)[0][:500]
        if batch.num_rows > 1:
            middle = batch.num_rows // 2
            self.apply(batch.slice(0, middle))
            self.apply(batch.slice(middle))
        else:
            self._transact(batch, lambda _: self._bury(reason))

    def _transact(self, batch: pa.Table, work: Callable[[frozenset[str]], object]) -> None:
        connection, names = self._connection, self._names
        connection.register("batch", batch)
        connection.begin()
        try:
            for always in ("counts", "moments"):
                connection.execute(FOLD[always])
            work(frozenset(batch.column("type").unique().to_pylist()))
            last = batch.slice(batch.num_rows - 1)
            position = last.column("position")[0].as_py()
            connection.execute(
                "UPDATE projection SET position = ?, event_id = ?", [position, last.column("event_id")[0].as_py()]
            )
            connection.commit()
        except BaseException:
            connection.rollback()
            self._names = names
            raise
        finally:
            connection.unregister("batch")
        self.position = position

    def _fold(self, types: frozenset[str]) -> None:
        connection = self._connection
        if "assay.alias.declared.v1" in types:
            connection.execute(FOLD["aliases"])
            self._names = self._declared()
            self._rename()
        if types & _FACTS:
            connection.execute(FOLD["facts"])
            parts = connection.execute(FOLD["distinct_parts"]).fetchall()
            connection.register("part", part_table(parts))
        for kind, block in (("model", "distinct_models"), ("hardware", "distinct_hardware")):
            posted = [name for (name,) in connection.execute(FOLD[block]).fetchall() if name is not None]
            connection.register(f"{kind}_name", _name_table(self._names[kind], posted))
        for name in _INSERTS:
            if types & _NEEDS[name]:
                connection.execute(FOLD[name])

    def _bury(self, reason: str) -> None:
        self._connection.execute(FOLD["dead_letter"], {"reason": reason})

    def _declared(self) -> dict[str, Names]:
        return names_of(
            self._connection.execute("SELECT kind, alias, canonical FROM alias ORDER BY position").fetchall()
        )

    def _rename(self) -> None:
        """Give the rows that are there the canonical ids that the aliases now say, as a rebuild would."""
        connection = self._connection
        for kind, tables in _NAMED.items():
            for table, keyed in tables.items():
                rows = connection.execute(f"SELECT DISTINCT {kind}_id_posted FROM {table}").fetchall()
                connection.register("renamed", _name_table(self._names[kind], [name for (name,) in rows]))
                changed = connection.execute(
                    f"UPDATE {table} SET {kind}_id = renamed.canonical FROM renamed "
                    f"WHERE {kind}_id_posted = renamed.posted AND {kind}_id <> renamed.canonical RETURNING position"
                ).fetchall()
                if changed and keyed:
                    connection.register("changed", pa.table({"position": [position for (position,) in changed]}))
                    connection.execute(
                        f"UPDATE {table} SET configuration = {_KEY} WHERE position IN (SELECT position FROM changed)"
                    )


def _name_table(names: Names, posted: list[str]) -> pa.Table:
    rows = [{"posted": name, "canonical": names.resolve(name)} for name in posted]
    return pa.Table.from_pylist(rows, schema=_NAME_SCHEMA)
