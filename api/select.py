"""One SELECT of a stranger over a copy of the tables: no files, no network, no settings, and only so many rows."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import pyarrow as pa

from api.fence import require_fenced
from domain.errors import UsageError

__all__ = ["select"]

_SETTINGS: dict[str, str | bool | int] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "memory_limit": "512MiB",
    "temp_directory": "",
    "threads": 1,
}
_VIEWS = "The views are in docs/tables.md; one SELECT at a time."


def select(path: Path, sql: str, limit: int) -> tuple[list[dict[str, str]], bytes, bool]:
    """Return columns, rows (an Arrow stream) and whether more than `limit` rows were there.

    Raises UsageError for what is not one SELECT, reaches beyond the tables or, with DuckDB's own words, does not run.
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
        connection.execute("SET lock_configuration = true")
        try:
            result = connection.sql(sql)
            columns = [{"name": str(name), "type": str(kind)} for name, kind, *_ in result.description]
            reader = result.to_arrow_reader(1024)
            batches: list[pa.RecordBatch] = []
            rows = 0
            for batch in reader:
                batches.append(batch)
                rows += batch.num_rows
                if rows > limit:
                    break
        except (duckdb.Error, pa.ArrowException) as error:
            raise _refused(error) from error
        table = pa.Table.from_batches(batches, schema=reader.schema)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.slice(0, limit))
    return columns, sink.getvalue(), rows > limit


def _refused(error: Exception) -> UsageError:
    words = str(error).replace("\n", " ").strip()
    return UsageError(words[:1000], field="sql", remedy=_VIEWS)
