"""Free SQL cannot learn anything of the machine that runs it, change anything, or take more than its share."""

from __future__ import annotations

import io
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest

from api.background import child
from api.http.select import _SCALARS, select
from domain.errors import ServiceUnavailable, UsageError
from ingest.projection.statements import SCHEMA_VERSION

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
    "SHOW and the name of a setting": "SHOW secret_directory",
    "SHOW in FROM": "FROM (SHOW memory_limit)",
    "COPY as a common table expression": "WITH x AS (COPY t TO 'out.csv') SELECT 1",
    "COPY FROM in one": "WITH x AS (COPY t FROM '/etc/passwd') SELECT 1",
    "INSERT as one": "WITH x AS (INSERT INTO t VALUES (2) RETURNING *) FROM x",
    "UPDATE as one": "WITH x AS (UPDATE t SET one = 2 RETURNING *) FROM x",
    "DELETE as one, deep inside": "SELECT (WITH x AS (DELETE FROM t RETURNING *) SELECT count(*) FROM x)",
    "a variable": "SELECT getvariable('x')",
    "waiting": "SELECT pg_sleep(1)",
    "a function of DuckDB's own": "SELECT __internal_decompress_string(1::UTINYINT)",
}


SEEN = {
    "current_database", "current_date", "current_schema", "current_schemas", "error", "gen_random_uuid", "get_current_time",
    "get_current_timestamp", "in_search_path", "now", "random", "today", "transaction_timestamp", "uuid", "uuidv4", "uuidv7",
}  # fmt: skip
"""What depends on more than its arguments, and tells of nothing but the moment, chance and the tables."""
THROUGH_HTTP = ("quoted and cased", "a common table expression", "a scalar function", "SQL in a string", "a macro")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret-folder") / "tables.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS one; CREATE VIEW v AS FROM t")
    return path


def rows(tables: Path, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = select(tables, sql, 100).table.to_pylist()
    return found


@pytest.mark.parametrize("name", REACHING)
def test_a_query_that_reaches_beyond_the_tables_is_refused(tables, name):
    with pytest.raises(UsageError) as refused:
        select(tables, REACHING[name], 100)
    assert refused.value.field == "sql"
    assert refused.value.remedy
    assert "secret-folder" not in str(refused.value)
    if "common table" in name or "SHOW" in name or " as one" in name:
        assert "reaches beyond the tables" in str(refused.value)


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


STATEMENTS = (
    "ATTACH '/tmp/other.duckdb' AS other", "DETACH tables", "COPY t TO '/tmp/out.csv'", "COPY (SELECT 1) TO STDOUT",
    "COPY t FROM '/etc/passwd'", "EXPORT DATABASE '/tmp/out'", "IMPORT DATABASE '/tmp/out'", "INSTALL httpfs", "LOAD httpfs",
    "PRAGMA version", "PRAGMA table_info('t')", "SET memory_limit = '10GB'", "SET GLOBAL threads = 64", "RESET memory_limit",
    "SET VARIABLE x = 1", "CALL pragma_version()", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p", "BEGIN", "COMMIT",
    "CHECKPOINT", "FORCE CHECKPOINT", "VACUUM", "ANALYZE", "USE memory", "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP TABLE x AS SELECT 1", "CREATE TEMP VIEW t AS SELECT 2", "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE SEQUENCE s", "CREATE TYPE x AS ENUM ('a')", "INSERT INTO t VALUES (2)", "UPDATE t SET one = 2", "DELETE FROM t",
    "TRUNCATE t", "DROP TABLE t", "ALTER TABLE t RENAME TO u", "COMMENT ON TABLE t IS 'x'", "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT * FROM read_text('/etc/passwd')", "MERGE INTO t USING v ON true WHEN MATCHED THEN DELETE",
    "SELECT 1; SELECT 2", "SELECT 1;; ATTACH 'x'", "SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT ?", "SELECT $1", "", ";", "-- nothing",
    "\x00", "SELECT \x00",
)  # fmt: skip
"""What is no single SELECT, or lacks something."""


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_not_one_select_is_refused_and_changes_nothing(tables, sql):
    before = tables.read_bytes()
    with pytest.raises(UsageError) as refused:
        select(tables, sql, 100)
    assert refused.value.field == "sql"
    assert tables.read_bytes() == before
    assert sorted(path.name for path in tables.parent.iterdir()) == [tables.name]


def test_every_function_that_looks_beyond_its_arguments_is_refused_or_was_looked_at(tables):
    with duckdb.connect() as offers:
        names = offers.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE internal AND function_type = 'scalar' "
            "AND stability IS DISTINCT FROM 'CONSISTENT'"
        ).fetchall()
    assert ("current_setting",) in names
    for (name,) in names:
        if name in SEEN:
            continue
        with pytest.raises(UsageError) as refused:
            select(tables, f'SELECT "{name}"()', 1)
        assert "beyond the tables" in str(refused.value), name


def test_no_macro_leads_to_a_function_that_is_refused(tables):
    with duckdb.connect() as offers:
        macros = offers.execute(
            "SELECT DISTINCT function_name, macro_definition FROM duckdb_functions() WHERE internal AND function_type = 'macro'"
        ).fetchall()
    assert len(macros) > 100
    leading = {name for name, text in macros if _SCALARS & set(re.findall(r"\w+", text))}
    assert leading - _SCALARS == set()


def test_the_tables_can_be_shown(tables):
    assert rows(tables, "SELECT name FROM (SHOW TABLES) ORDER BY 1") == [{"name": "t"}, {"name": "v"}]


def test_a_result_has_only_so_many_bytes_and_rows(tables):
    wide = "SELECT repeat('x', 1000) AS x FROM range(5000)"
    assert select(tables, wide, 5000).table.num_rows == 5000
    with pytest.raises(UsageError, match="more than 1 MiB"):
        select(tables, wide, 5000, most_bytes=2**20)
    assert select(tables, wide, 500, most_bytes=2**22).truncated


GREEDY = {
    "SELECT list(range) FROM range(200000000)": "512 MiB",
    # It fails while the rows are fetched, as an error of the system.
    "WITH RECURSIVE t AS (SELECT [1] AS l UNION ALL SELECT l || l FROM t) SELECT len(l) FROM t": "512 MiB",
    "SELECT " + "(" * 2000 + "1" + ")" * 2000: "depth",
}


@pytest.mark.parametrize("sql", GREEDY)
def test_what_needs_too_much_is_told_so_without_advice_for_administrators(tables, sql):
    with pytest.raises(UsageError, match=GREEDY[sql]) as refused:
        select(tables, sql, 1)
    assert "SET" not in str(refused.value)


ENDLESS = {
    "an endless recursion": "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "a cross join": "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range + b.range = c.range",
    "a large result": "SELECT repeat('x', 100000) FROM range(10000)",
    "a deep one": "SELECT " + "(" * 9000 + "1" + ")" * 9000,
}


def test_what_never_ends_or_is_too_large_is_stopped_and_the_service_goes_on(service, client):
    with ThreadPoolExecutor(4) as pool:
        asked = {
            name: pool.submit(
                httpx.post, f"{service.url}/v1/query", json={"sql": sql, "timeout_s": 2, "limit": 100_000}, timeout=60
            )
            for name, sql in ENDLESS.items()
        }
        begun = time.monotonic()
        assert client.ready()["error"] is None
        assert time.monotonic() - begun < 3
        for name, answer in asked.items():
            told = answer.result()
            assert (told.status_code, told.json()["field"]) == (422, "sql"), (name, told.text)
            assert told.json()["remedy"], name
    assert client.query("SELECT 1")["rows"] == [[1]]


def test_a_query_whose_process_dies_is_told_so_and_not_sent_again():
    error = child._ended(-11, "query", b"at /home/someone/tables.duckdb", "sql")
    assert isinstance(error, UsageError)
    assert "SIGSEGV" in str(error) and "someone" not in str(error)
    error = child._ended(1, "query", b"IOException: /home/someone/tables.duckdb", "sql")
    assert isinstance(error, ServiceUnavailable) and "someone" not in str(error)
    assert "someone" in str(child._ended(1, "train", b"IOException: /home/someone/x", None))


@pytest.mark.parametrize("media", ["text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"])
def test_an_answer_in_another_format_says_position_schema_and_whether_there_was_more(service, media):
    asked = {"sql": "SELECT range AS n, [range] AS list FROM range(5)", "limit": 3}
    answer = httpx.post(f"{service.url}/v1/query", json=asked, headers={"Accept": media}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(media)
    assert answer.headers["assay-truncated"] == "True"
    assert int(answer.headers["assay-schema"]) == SCHEMA_VERSION
    assert int(answer.headers["assay-position"]) >= 0
    if media.endswith("stream"):
        table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
        assert table.to_pydict() == {"n": [0, 1, 2], "list": [[0], [1], [2]]}
    elif media == "text/csv":
        assert answer.text.splitlines()[1] == '0,"[0]"'


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same floating-point values twice, in two orders."""
    path = tmp_path_factory.mktemp("shuffled") / "tables.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            "CREATE TABLE a AS SELECT i, i % 7 AS g, random() * 1e6 AS x, random() AS y FROM range(50_000) AS t(i)"
        )
        connection.execute("CREATE TABLE b AS FROM a ORDER BY hash(i)")
    return path


SUMS = (
    "SELECT avg(x), sum(x), stddev(x), corr(x, y), var_pop(x) FILTER (WHERE g > 2) FROM {}",
    "SELECT g, avg(x + y), sum(DISTINCT x) FROM {} GROUP BY g HAVING sum(x) > 0 ORDER BY g",
    "WITH m AS (SELECT g, AVG(x) AS mean FROM {} GROUP BY g) SELECT sum(mean) FROM m",
    'SELECT "avg(x)" FROM (SELECT avg(x) FROM {})',
    "SELECT i, avg(x) OVER (PARTITION BY g) FROM {} ORDER BY i",
)


@pytest.mark.parametrize("sql", SUMS)
def test_sums_of_floating_point_values_do_not_depend_on_the_order_of_rows(shuffled, sql):
    one, other = (select(shuffled, sql.format(name), 100_000) for name in "ab")
    assert one.table.equals(other.table)
    with duckdb.connect(str(shuffled), read_only=True) as connection:
        plain = connection.sql(sql.format("a"))
        assert [column["name"] for column in one.columns] == plain.columns
        assert [column["type"] for column in one.columns] == [str(kind) for kind in plain.types]
        for row, told in zip(one.table.to_pylist(), plain.to_arrow_table().to_pylist(), strict=True):
            assert list(row.values()) == pytest.approx(list(told.values()))


def test_an_error_in_a_sum_is_told_in_the_words_of_the_query(shuffled):
    with pytest.raises(UsageError, match="nothing") as caught:
        select(shuffled, "SELECT avg(nothing) FROM a", 1)
    assert "ORDER BY" not in str(caught.value)
