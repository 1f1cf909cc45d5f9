"""One SELECT of a stranger over a copy of the tables: no files, no network, no settings, and only so much of everything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from api.fence import require_fenced
from domain.errors import UsageError

__all__ = ["RESULT_BYTES", "Selected", "select"]

RESULT_BYTES = 64 * 2**20
"""Of a result, as Arrow holds it and as it is sent."""
_MEMORY_MB = 512
_SETTINGS: dict[str, str | bool | int] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "memory_limit": f"{_MEMORY_MB}MiB",
    "temp_directory": "",
    "threads": 1,
}
_VIEWS = "The views are in docs/tables.md; one SELECT at a time."
_LESS = "Select fewer rows or columns, or aggregate."
_WORD = re.compile(r"\w+")
_OURS = (duckdb.InternalException, duckdb.FatalException, duckdb.IOException)
"""What tells of DuckDB's own code and files, which is nothing for strangers."""


_OUR_KINDS = ("INTERNAL Error", "FATAL Error", "IO Error")
_ADVICE = re.compile(r"\s*(?:Possible solutions|\* SET |Use \"SET ).*", re.DOTALL)
"""For those who may change settings."""


class Selected(NamedTuple):
    """Columns (name and DuckDB type), at most as many rows as were asked for, and whether there were more."""

    columns: list[dict[str, str]]
    table: pa.Table
    truncated: bool


def select(path: Path, sql: str, limit: int, *, as_of: int | None = None, most_bytes: int = RESULT_BYTES) -> Selected:
    """Return what a SELECT gives; with `as_of` the views are as of that position.

    Raises UsageError for what is not one SELECT, reaches beyond the tables, needs too much memory, gives more than
    `most_bytes` or, with DuckDB's own words, does not run.
    """
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise _refused(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("only one SELECT is run.", field="sql", remedy=_VIEWS)
    with duckdb.connect(str(path), read_only=True, config=_SETTINGS) as connection:
        require_fenced(connection, sql)
        connection.execute("SET TimeZone = 'UTC'")
        if as_of is not None:
            _go_back(connection, as_of, sql)
        connection.execute("SET lock_configuration = true")
        try:
            return _fetched(connection.sql(sql), limit, most_bytes)
        except (duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
            # Arrow's stream gives DuckDB's errors as those of the system.
            raise _refused(error) from error


def _fetched(result: duckdb.DuckDBPyRelation, limit: int, most_bytes: int) -> Selected:
    columns = [{"name": str(name), "type": str(kind)} for name, kind, *_ in result.description]
    reader = result.to_arrow_reader(1024)
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > most_bytes:
            raise UsageError(f"the result has more than {most_bytes // 2**20} MiB.", field="sql", remedy=_LESS)
        if rows > limit:
            break
    table = pa.Table.from_batches(batches, schema=reader.schema)
    return Selected(columns, table.slice(0, limit), rows > limit)


def _go_back(connection: duckdb.DuckDBPyConnection, as_of: int, sql: str) -> None:
    """Put the views of a position before those of the file, under the same names: those that the text could name."""
    # Half a second of loading that other questions need not wait for.
    from ingest.projection.tables import Tables

    words = {word.casefold() for word in _WORD.findall(sql)}
    for name, query in Tables(connection, as_of).views_then().items():
        if name in words:
            connection.execute(f"CREATE TEMPORARY VIEW {name} AS {query}")


def _refused(error: Exception) -> UsageError:
    words = _ADVICE.sub("", str(error).replace("\n", " ")).strip()
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "Out of Memory Error" in words:
        return UsageError(f"it needs more memory than the {_MEMORY_MB} MiB of a query.", field="sql", remedy=_LESS)
    if "Arrow Appender" in words:
        return UsageError("a part of the result is too large.", field="sql", remedy=_LESS)
    if isinstance(error, _OURS) or any(kind in words for kind in _OUR_KINDS):
        return UsageError("DuckDB failed on it.", field="sql", remedy="Write it in another way; please report it.")
    return UsageError(words[:1000] or "it does not run.", field="sql", remedy=_VIEWS)
