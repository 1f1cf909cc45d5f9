"""Files of ranges into one: what the ranges said apart, as one fold of the whole log would have it.

Rows of events are copied. What depends on more than one range is made once, over all of them: ids of parts and subjects
(the position of the first event that said it), names (aliases rename earlier and later rows), what retractions void, and
the standing of each subject.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from ingest.projection.dimensions import PARTS
from ingest.projection.fold import Aggregates, Folder
from ingest.projection.store import Store

__all__ = ["merge"]

_ID = {
    "subject": {"model": "model", "hardware": "hardware", "workload_id": "workload_id", "execution_id": "execution_id"},
    "measurement": {"subject": "subject", "context": "context", "judgement": "judgement"},
    "test": {"subject": "subject", "context": "context"},
}
"""Columns that hold an id of a range, by table, each with the kind of its ids."""
_COMPUTED = {"measurement": "event_id"}
"""Columns that are computed from others, by table."""
_APART = {"projection", "event_type_count", "environment", "voided", "subject", "standing"}
"""Tables that are not the rows of the ranges one after another."""
_COUNTS = """
INSERT INTO event_type_count FROM piece.event_type_count ORDER BY type
ON CONFLICT (type) DO UPDATE SET events = events + excluded.events, last_position = excluded.last_position
"""
_ENVIRONMENTS = """
INSERT INTO environment FROM piece.environment
WHERE fingerprint NOT IN (SELECT fingerprint FROM main.environment) ORDER BY position
"""
_END = "SELECT position, event_id, chain, log, epoch FROM piece.projection"
_MOVED = "UPDATE projection SET position = ?, event_id = ?, chain = ?, log = ?, epoch = ?"
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"


def merge(files: Sequence[Path], *, threads: int = 1) -> None:
    """Merge the files of ranges that follow each other into the first of them, in one transaction.

    Their measurements are counted here: `standing` is empty in each of them.
    The first one's ids are those of the whole log already, so its rows stay where they are.
    """
    first, *others = files
    connection = Store.connect(first)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET GLOBAL threads = {int(threads)}")
    try:
        for number, file in enumerate(others):
            connection.execute(f"ATTACH '{_quoted(file)}' AS piece_{number} (READ_ONLY)")
        connection.begin()
        for number in range(len(others)):
            _take(connection, f"piece_{number}")
        _settle(connection)
        connection.commit()
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


def _quoted(file: Path) -> str:
    return str(file).replace("'", "''")


def _take(connection: duckdb.DuckDBPyConnection, piece: str) -> None:
    """Take the rows of the range that comes next."""

    def run(statement: str) -> None:
        connection.execute(statement.replace("piece.", f"{piece}.main."))

    for kind, part in PARTS.items():
        _unite(connection, kind, part.table, part.sent, f"{piece}.main.{part.table}")
    _unite(connection, "subject", "subject", tuple(_ID["subject"]), f"({_remapped('subject', piece)})")
    parts = {part.table for part in PARTS.values()}
    for (table,) in connection.execute(_TABLES).fetchall():
        if table not in _APART and table not in parts:
            run(f"INSERT INTO main.{table} {_remapped(table, piece)}")
    run(_COUNTS)
    run(_ENVIRONMENTS)
    ((*end,),) = connection.execute(_END.replace("piece.", f"{piece}.main.")).fetchall()
    connection.execute(_MOVED, end)


def _unite(connection: duckdb.DuckDBPyConnection, kind: str, table: str, key: Sequence[str], rows: str) -> None:
    """Add what the ranges before did not say, and keep in `kind`_id which id of the range is which of the whole."""
    columns = ", ".join(key)
    connection.execute(
        f"INSERT INTO main.{table} SELECT * FROM {rows} AS said ANTI JOIN main.{table} USING ({columns}) ORDER BY id"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMPORARY TABLE {kind}_id AS "
        f"SELECT said.id AS old, whole.id AS new FROM {rows} AS said JOIN main.{table} AS whole USING ({columns})"
    )


def _remapped(table: str, piece: str) -> str:
    """Return the SELECT of a range's rows with the ids of the whole."""
    ids = _ID.get(table, {})
    replaced = ", ".join(f"{column}_is.new AS {column}" for column in ids)
    joins = " ".join(
        f"JOIN {kind}_id AS {column}_is ON said.{column} = {column}_is.old" for column, kind in ids.items()
    )
    stored = f"said.* EXCLUDE ({_COMPUTED[table]})" if table in _COMPUTED else "said.*"
    columns = f"{stored} REPLACE ({replaced})" if ids else "*"
    return f"SELECT {columns} FROM {piece}.main.{table} AS said {joins}"


def _settle(connection: duckdb.DuckDBPyConnection) -> None:
    """Say what all ranges together say: the names that aliases give, what is void, and the standing that follows of it."""
    folder = Folder(connection)
    folder.rename()
    aggregates = Aggregates(connection)
    aggregates.postponed = True
    if connection.execute("SELECT 1 FROM retraction LIMIT 1").fetchall():
        connection.execute("DELETE FROM voided")
        aggregates.follow(0, facts=False, retracted=True)
    aggregates.count_all()
