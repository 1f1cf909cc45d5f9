"""One SELECT of a stranger over a copy of the tables: no files, no network, no settings, and only so much of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa

from domain.errors import UsageError

__all__ = ["RESULT_BYTES", "Node", "Selected", "nodes", "require_fenced", "select"]

_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_tables",
        "duckdb_views",
        "generate_series",
        "histogram",
        "histogram_values",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "pragma_table_info",
        "range",
        "repeat",
        "unnest",
    }
)
"""All others are refused: those of a later DuckDB, and those that run SQL or read files, too."""
_SYSTEM_VIEWS = ("duckdb_", "pg_", "pragma_", "sqlite_")
_SHOWN_VIEWS = frozenset({"duckdb_columns", "duckdb_tables", "duckdb_views"})
_SCALARS = frozenset(
    {
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_setting",
        "current_transaction_id",
        "currval",
        "getenv",
        "getvariable",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "nextval",
        "parse_duckdb_log_message",
        "pg_sleep",
        "setseed",
        "setval",
        "sleep_ms",
        "stats",
        "txid_current",
        "variant_bytes_to_variant",
        "vector_type",
        "write_log",
    }
)
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
        name = _sql_allowlist_refused(node)
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


def _sql_allowlist_refused(node: Node) -> str | None:
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
_SUMMED = frozenset(
    {
        "avg",
        "corr",
        "covar_pop",
        "covar_samp",
        "favg",
        "fsum",
        "geomean",
        "geometric_mean",
        "kahan_sum",
        "kurtosis",
        "kurtosis_pop",
        "mean",
        "product",
        "regr_avgx",
        "regr_avgy",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "sem",
        "skewness",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "sum",
        "sumkahan",
        "var_pop",
        "var_samp",
        "variance",
    }
)
"""Aggregates whose last digits depend on the order in which they take floating-point values."""
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
        tree = require_fenced(connection, sql)
        connection.execute("SET TimeZone = 'UTC'")
        if as_of is not None:
            _go_back(connection, as_of, sql)
        connection.execute("SET lock_configuration = true")
        try:
            return _fetched(connection.sql(_reproducible(connection, sql, tree)), limit, most_bytes)
        except (duckdb.Error, pa.ArrowException, MemoryError, OSError) as error:
            # Arrow's stream gives DuckDB's errors as those of the system.
            raise _refused(error) from error


def _reproducible(connection: duckdb.DuckDBPyConnection, sql: str, tree: Node) -> str:
    """Return the SELECT with its sums taken in the order of their values.

    Rows come in an order that depends on the plan, and the plan on all that the tables hold, later events included. A sum
    of floating-point values in that order changes in its last digits.
    """
    if not any(_is_unordered_sum(entry) for entry in nodes(tree)):
        return sql
    connection.sql(sql)  # What is wrong with it is said in its own words.
    for node in list(nodes(tree)):
        for item in node.get("select_list") or ():
            if not item["alias"] and any(map(_is_unordered_sum, nodes(item))):
                item["alias"] = _name(connection, item)
    for node in filter(_is_unordered_sum, list(nodes(tree))):
        ordered = node["arg_orders"] if node["type"] == "WINDOW_AGGREGATE" else node["order_bys"]["orders"]
        ordered += [
            {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT", "expression": argument["expression"]}
            for argument in node["arguments"]
        ]
    return _written(connection, tree)


def _name(connection: duckdb.DuckDBPyConnection, item: Node) -> str:
    """Return the name that DuckDB gives to the column of an expression: its text."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()
    alone: Node = msgspec.json.decode(tree)
    alone["statements"][0]["node"]["select_list"] = [item]
    return _written(connection, alone).removeprefix("SELECT ")


def _written(connection: duckdb.DuckDBPyConnection, tree: Node) -> str:
    ((text,),) = connection.execute(
        "SELECT json_deserialize_sql(?::JSON)", [msgspec.json.encode(tree).decode()]
    ).fetchall()
    return str(text)


def _is_unordered_sum(node: Node) -> bool:
    """Whether a node is a sum that takes its values in the order of the rows: a window with an ORDER BY has its own."""
    if node.get("type") not in ("FUNCTION", "WINDOW_AGGREGATE") or node.get("orders"):
        return False
    arguments = [argument["expression"] for argument in node.get("arguments", ())]
    is_plain = not any(item.get("class") == "STAR" for argument in arguments for item in nodes(argument))
    return is_plain and str(node["function_name"]).casefold() in _SUMMED and bool(arguments)


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
