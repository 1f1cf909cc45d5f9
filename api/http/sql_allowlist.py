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

__all__ = ["Node", "nodes", "require_fenced"]

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
    {
        "current_connection_id", "current_query", "current_query_id", "current_setting", "current_transaction_id", "currval",
        "getenv", "getvariable", "json_execute_serialized_sql", "json_serialize_plan", "nextval", "parse_duckdb_log_message",
        "pg_sleep", "setseed", "setval", "sleep_ms", "stats", "txid_current", "variant_bytes_to_variant", "vector_type",
        "write_log",
    }
)  # fmt: skip
"""A test looks at every function whose result depends on more than its arguments: it is here, or was found harmless."""
_INTERNAL = "__internal"
_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Since DuckDB 2 a common table expression may be COPY, INSERT, UPDATE or DELETE as well."""
_REMEDY = "Use the views in docs/tables.md, range, generate_series, unnest, json_each or duckdb_columns()."
Node = dict[str, Any]


def require_fenced(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """Return the tree of one SELECT; UsageError where it names a function or view that reaches beyond the tables."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        document: Node = msgspec.json.decode(tree)
    except RecursionError as error:
        raise UsageError("nested too deeply to be checked.", field="sql", remedy="Nest less.") from error
    if document["error"]:
        raise UsageError(f"it cannot be checked: {document['error_message']}", field="sql", remedy=_REMEDY)
    for node in nodes(document):
        name = _refused(node)
        if name is not None:
            raise UsageError(f"{name} reaches beyond the tables and is not for queries.", field="sql", remedy=_REMEDY)
    return document


def nodes(tree: Node) -> Iterator[Node]:
    """Yield every object of a tree."""
    waiting: list[Any] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _refused(node: Node) -> str | None:
    match node.get("type"):
        case "TABLE_FUNCTION":
            name = str(node["function"].get("function_name")).casefold()
            return None if name in _TABLE_FUNCTIONS else f"{name}()"
        case "FUNCTION":
            name = str(node["function_name"]).casefold()
            return f"{name}()" if name in _SCALARS or name.startswith(_INTERNAL) else None
        case "BASE_TABLE":
            name = str(node["table_name"]).casefold()
            return name if name.startswith(_SYSTEM_VIEWS) and name not in _SHOWN_VIEWS else None
        case "SHOW_REF":
            # SHOW and a name that no table has gives the setting of that name; DESCRIBE does not.
            return f"SHOW {node['table_name']}" if node["show_type"] == "SHOW" else None
        case str() as kind if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            return kind.removesuffix("_QUERY_NODE")
    return None
