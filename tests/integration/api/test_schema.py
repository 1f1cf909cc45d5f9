"""The views' version and meaning are told by the service; and of a query, the views can be those of an earlier position."""

from __future__ import annotations

import duckdb
import httpx
import pytest

from api.http.select import select
from assay.cli import run
from domain.errors import UnknownView
from ingest.projection import reference
from ingest.projection.projector import Projection
from ingest.projection.statements import SCHEMA_VERSION
from tests.integration.ingest.test_projection import everything


def test_answers_say_the_version_of_the_views(service, client):
    assert client.query("SELECT 1")["schema"] == SCHEMA_VERSION
    assert client.summary()["schema"] == SCHEMA_VERSION
    assert httpx.get(f"{service.url}/v1/measurements?limit=1").json()["schema"] == SCHEMA_VERSION
    assert client.query("SELECT schema_version FROM state")["rows"] == [[SCHEMA_VERSION]]
    lines = httpx.get(f"{service.url}/v1/measurements?limit=1", headers={"Accept": "text/csv"})
    assert int(lines.headers["assay-schema"]) == SCHEMA_VERSION


def test_the_meaning_of_each_column_is_told(service, client, capsys):
    told = client.schema()
    assert (told["schema"], len(told["views"])) == (SCHEMA_VERSION, len(reference.views()))
    (view,) = client.schema("prices")["views"]
    assert {"name": "usd_per_hour", "type": "DOUBLE", "unit": "USD/h"}.items() <= next(
        column for column in view["columns"] if column["name"] == "usd_per_hour"
    ).items()
    with pytest.raises(UnknownView):
        client.schema("price")
    sql = "SELECT comment FROM duckdb_columns() WHERE table_name = 'prices' AND column_name = 'usd_per_hour'"
    ((comment,),) = client.query(sql)["rows"]
    assert comment == "[USD/h] price of an hour of the whole offer"
    assert run(["query", "--schema", "--server", service.url]) == 0
    assert "best_measurements" in capsys.readouterr().out
    assert run(["query", "--schema", "prices", "--server", service.url]) == 0
    assert "USD/h" in capsys.readouterr().out
    assert run(["query", "--server", service.url]) == 2
    assert run(["query", "SELECT 1", "--schema", "prices", "--server", service.url]) == 2


def test_the_views_of_a_query_can_be_those_of_an_earlier_position(database, append, build, tmp_path):
    answers = append(everything(build))
    at = answers[8].position
    with Projection(tmp_path / "whole", database) as whole, Projection(tmp_path / "cut", database) as cut:
        whole.catch_up()
        whole.publish(tmp_path / "copy.duckdb")
        cut.catch_up(to=at)
        with whole.tables(as_of=at) as tables, cut.tables() as now:
            then = tables.views_then()
            assert then.keys() >= {view.name for view in reference.views()}
            for name, query in then.items():
                found, expected = tables.cursor.sql(query), now.cursor.sql(f"FROM {name}")
                assert found.columns == expected.columns, name
                assert sorted(map(str, found.fetchall())) == sorted(map(str, expected.fetchall())), name
        with cut.tables() as now:
            expected = now.cursor.sql("SELECT model_id, event_id FROM measurements ORDER BY position").fetchall()
    sql = "SELECT model_id, event_id FROM Measurements ORDER BY position"
    found = select(tmp_path / "copy.duckdb", sql, 100, as_of=at).table.to_pylist()
    assert [tuple(row.values()) for row in found] == expected
    assert len(select(tmp_path / "copy.duckdb", sql, 100).table) != len(expected)


def test_names_of_strangers_do_no_harm_in_the_views_of_an_earlier_position(database, append, build, tmp_path):
    odd = "it's?'--"
    append([build.measurement(model=odd), build.measurement(), build.alias(odd, "acme/other")])
    with Projection(tmp_path / "home", database) as projection:
        projection.catch_up()
        with projection.tables(as_of=2) as tables:
            found = tables.cursor.sql(tables.views_then()["measurements"]).project("model_id").fetchall()
    assert sorted(found) == [("acme/tiny",), (odd,)]


def test_a_query_goes_to_a_file_with_its_types_and_to_csv_without_formulas(service, tmp_path, capsys):
    sql = "SELECT 1.5 AS number, [1, 2] AS list, '=1+1' AS text, TIMESTAMPTZ '2026-01-01 00:00:00+00' AS time"
    parquet = tmp_path / "answer.parquet"
    assert run(["query", sql, "--format", "parquet", "--out", str(parquet), "--server", service.url]) == 0
    (row,) = duckdb.sql(
        f"SELECT number, list, text, time = TIMESTAMPTZ '2026-01-01 00:00:00+00' AS same FROM '{parquet}'"
    ).fetchall()
    assert row == (1.5, [1, 2], "=1+1", True)
    assert run(["query", sql, "--format", "csv", "--server", service.url]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head == "number,list,text,time"
    assert line.startswith('1.5,"[1,2]",\'=1+1,2026-01-01T00:00:00')
    assert run(["query", sql, "--format", "parquet", "--server", service.url]) == 2
