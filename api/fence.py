"""What a stranger's SELECT may name: the tables and what computes, not what tells of the machine that runs it.

DuckDB has functions and views that show settings, paths, logs and secrets. They are found in the tree that DuckDB's
own parser makes of the statement, so quoting, case, schemas and nesting hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import msgspec

from domain.errors import UsageError

__all__ = ["require_fenced"]

_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns", "duckdb_tables", "duckdb_views", "generate_series", "histogram", "histogram_values",
        "json_each", "json_tree", "pg_timezone_names", "pragma_table_info", "range", "repeat", "unnest",
    }
)  # fmt: skip
"""All others are refused: those of a later DuckDB, and those that run SQL or read files, too."""
_SYSTEM_VIEWS = ("duckdb_", "pg_", "pragma_", "sqlite_")
_SHOWN_VIEWS = frozenset({"duckdb_columns", "duckdb_tables", "duckdb_views"})
_SCALARS = frozenset(
    {"current_setting", "getenv", "json_execute_serialized_sql", "json_serialize_plan", "parse_duckdb_log_message", "write_log"}
)  # fmt: skip
_REMEDY = "Use the views in docs/tables.md, range, generate_series, unnest, json_each or duckdb_columns()."
Node = dict[str, Any]


def require_fenced(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise UsageError where one SELECT names a function or view of DuckDB that reaches beyond the tables."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        told: Node = msgspec.json.decode(tree)
    except RecursionError as error:
        raise UsageError("nested too deeply to be checked.", field="sql", remedy="Nest less.") from error
    if told["error"]:
        raise UsageError(f"it cannot be checked: {told['error_message']}", field="sql", remedy=_REMEDY)
    for node in _nodes(told):
        name = _refused(node)
        if name is not None:
            raise UsageError(f"{name} reaches beyond the tables and is not for queries.", field="sql", remedy=_REMEDY)


def _nodes(tree: Node) -> Iterator[Node]:
    waiting: list[Any] = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _refused(node: Node) -> str | None:
    match node.get("type"):
        case "TABLE_FUNCTION":
            name = str(node["function"].get("function_name")).casefold()
            return None if name in _TABLE_FUNCTIONS else f"{name}()"
        case "FUNCTION":
            name = str(node["function_name"]).casefold()
            return f"{name}()" if name in _SCALARS else None
        case "BASE_TABLE":
            name = str(node["table_name"]).casefold()
            return name if name.startswith(_SYSTEM_VIEWS) and name not in _SHOWN_VIEWS else None
    return None
