"""Free SQL cannot learn anything of the machine that runs it: settings, paths, logs, secrets, other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from api.select import select
from domain.errors import UsageError

REACHING = {
    "plain": "SELECT * FROM duckdb_settings()",
    "quoted and cased": 'SELECT * FROM "DuckDB_Settings"()',
    "of a schema": "SELECT * FROM system.main.duckdb_databases()",
    "a view, not a function": "TABLE duckdb_databases",
    "a quoted view of a schema": 'SELECT * FROM "main"."PRAGMA_database_list"',
    "under another name": "SELECT x.path FROM duckdb_databases AS x",
    "pg_catalog": "SELECT * FROM pg_catalog.pg_settings",
    "a common table expression": "WITH a AS MATERIALIZED (FROM duckdb_settings()) FROM a",
    "a recursive one": "WITH RECURSIVE t AS (SELECT '' AS p UNION SELECT path FROM duckdb_databases) FROM t",
    "a scalar subquery": "SELECT (SELECT max(path) FROM duckdb_databases)",
    "a subquery of ORDER BY": "SELECT 1 ORDER BY (SELECT max(path) FROM duckdb_databases)",
    "a subquery of LIMIT": "SELECT 1 LIMIT (SELECT length(max(path)) FROM duckdb_databases)",
    "an argument": "SELECT * FROM range((SELECT length(max(path)) FROM duckdb_databases))",
    "VALUES": "VALUES ((SELECT max(path) FROM duckdb_databases))",
    "a UNION": "SELECT '' UNION ALL SELECT value FROM duckdb_settings()",
    "LATERAL": "SELECT * FROM range(3) AS t(x), LATERAL (SELECT x, path FROM duckdb_databases())",
    "a window": "SELECT first((SELECT max(path) FROM duckdb_databases)) OVER ()",
    "REPLACE": "SELECT * REPLACE ((SELECT max(path) FROM duckdb_databases) AS x) FROM range(2) AS t(x)",
    "SUMMARIZE": "SUMMARIZE duckdb_databases",
    "SUMMARIZE in FROM": "FROM (SUMMARIZE SELECT * FROM duckdb_settings())",
    "PIVOT": "SELECT * FROM (PIVOT duckdb_databases ON path IN ('a') USING count(*))",
    "UNPIVOT": "UNPIVOT duckdb_databases ON path",
    "SQL in a string": "FROM query('FROM duckdb_settings()')",
    "a name in a string": "FROM query_table('duckdb_databases')",
    "a serialized statement": "FROM json_execute_serialized_sql(json_serialize_sql('FROM duckdb_settings()'))",
    "a scalar function": "SELECT current_setting('secret_directory')",
    "in a lambda": "SELECT list_transform(['secret_directory'], lambda x: current_setting(x))",
    "as a method": "SELECT 'secret_directory'.current_setting()",
    "the environment": "SELECT getenv('HOME')",
    "a file": "SELECT * FROM read_text('/proc/self/environ')",
    "a variable of the program": "FROM statements",
    "a file as a table": "SELECT * FROM '/etc/passwd'",
    "a macro": "CREATE TEMP MACRO m() AS TABLE FROM duckdb_settings()",
    "PRAGMA": "PRAGMA database_list",
    "CALL": "CALL duckdb_settings()",
    "beside another": "SELECT 1; FROM duckdb_settings()",
}


THROUGH_HTTP = ("quoted and cased", "a common table expression", "a scalar function", "SQL in a string", "a macro")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret-folder") / "tables.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS one; CREATE VIEW v AS FROM t")
    return path


def rows(tables: Path, sql: str) -> list[dict[str, Any]]:
    _, stream, _ = select(tables, sql, 100)
    found: list[dict[str, Any]] = pa.ipc.open_stream(stream).read_all().to_pylist()
    return found


@pytest.mark.parametrize("name", REACHING)
def test_a_query_that_reaches_beyond_the_tables_is_refused(tables, name):
    with pytest.raises(UsageError) as refused:
        select(tables, REACHING[name], 100)
    assert refused.value.field == "sql"
    assert refused.value.remedy
    assert "secret-folder" not in str(refused.value)


@pytest.mark.parametrize("name", THROUGH_HTTP)
def test_it_is_refused_over_http(service, name):
    answer = httpx.post(f"{service.url}/v1/query", json={"sql": REACHING[name]}, timeout=60)
    assert (answer.status_code, answer.json()["field"]) == (422, "sql"), answer.text
    assert answer.json()["remedy"]
    assert str(service.home) not in answer.text


def test_nothing_that_duckdb_offers_by_itself_shows_a_path(tables):
    with duckdb.connect() as offers:
        views = offers.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE internal").fetchall()
        functions = offers.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro')"
        ).fetchall()
    statements = [f'FROM "{schema}"."{name}"' for schema, name in views] + [f'FROM "{name}"()' for (name,) in functions]
    allowed = []
    for sql in [*statements, "SHOW DATABASES", "SHOW ALL TABLES", "SELECT current_database()"]:
        try:
            told = str(rows(tables, sql))
        except UsageError as refused:
            told = str(refused)
        else:
            allowed.append(sql)
        assert "secret-folder" not in told, sql
    assert len(statements) > 100
    assert {'FROM "information_schema"."tables"', 'FROM "duckdb_columns"()', "SHOW DATABASES"} <= set(allowed)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("FROM v", [1]),
        ("SELECT t.x FROM range(2) AS t(x), LATERAL (SELECT x) ORDER BY 1", [0, 1]),
        ("SELECT unnest([1, 2])", [1, 2]),
        ("SELECT key FROM json_each('{\"a\": 1}')", ["a"]),
        ("WITH duck AS (SELECT 'duckdb_settings()' AS text) FROM duck", ["duckdb_settings()"]),
        ("SELECT table_name FROM duckdb_columns() WHERE column_name = 'one' ORDER BY 1", ["t", "v"]),
        ("SELECT table_name FROM information_schema.tables ORDER BY 1", ["t", "v"]),
        ("SELECT column_name FROM (DESCRIBE v)", ["one"]),
        ("SELECT " + "+".join(["1"] * 200), [200]),
    ],
)
def test_what_computes_and_describes_the_tables_is_allowed(tables, sql, found):
    assert [value for row in rows(tables, sql) for value in row.values()] == found


def test_a_query_nested_too_deeply_is_refused_with_a_remedy(tables):
    with pytest.raises(UsageError, match="deeply"):
        select(tables, "SELECT " + "+".join(["1"] * 900), 100)
