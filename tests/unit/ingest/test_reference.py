"""The reference of the tables: everything is described, the page is what is described, and views stay what they were."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from api.http.select import select
from domain.errors import UnknownView
from ingest.projection import reference, statements
from ingest.projection.fold import BATCH_SCHEMA, Folder, create
from ingest.projection.statements import SCHEMA_VERSION, VIEWS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tables.md"
KEPT = ROOT / "tests" / "golden" / "tables"
MAKE = "python -m ingest.projection > docs/tables.md"


def shapes() -> dict[str, dict[str, str]]:
    return {view.name: {column.name: column.type for column in view.columns} for view in reference.views()}


def test_every_view_column_and_table_is_described_and_nothing_else():
    assert reference.undescribed() == []
    assert {view.name for view in reference.views()} == set(VIEWS) - {"best"}
    assert all(column.meaning[-1] != "." and column.type for view in reference.views() for column in view.columns)


def test_what_nobody_described_is_found(monkeypatch):
    told = reference._reference()
    views = {name: one for name, one in told["views"].items() if name != "runs"}
    views["models"] = {**views["models"], "columns": {"measurements": "[1] measurements", "mood": "how it feels"}}
    monkeypatch.setattr(reference, "_reference", lambda: {**told, "views": views, "tables": {"lost": "nothing"}})
    found = reference.undescribed()
    assert "runs is not described" in found
    assert "models.config is not described" in found
    assert "models.mood is described and is not there" in found
    assert "lost is described and is not there" in found
    assert "measurement is not described" in found


def test_units_are_those_that_the_names_say():
    said = {"_ms": "ms", "_bytes": "B", "_j": "J", "_w": "W", "_hz": "Hz", "_per_s": "1/s", "usd_per_hour": "USD/h"}
    for view in reference.views():
        for column in view.columns:
            for end, unit in said.items():
                if column.name.endswith(end) and column.type != "JSON":
                    assert column.unit == unit, (view.name, column.name)
            if column.type == "BIGINT" and not column.name.endswith("position"):
                assert column.unit is not None, (view.name, column.name)


def test_the_page_is_what_is_described():
    assert PAGE.read_text() == reference.page(), f"make it again: {MAKE}"
    assert f"assay-v{SCHEMA_VERSION}.duckdb" in PAGE.read_text()
    assert f"| {SCHEMA_VERSION} | " in PAGE.read_text()


def test_the_star_names_views_and_columns_that_there_are():
    known = shapes()
    joins = re.findall(r"^    (\w+) \S+ (\w+) : (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(joins) > 15
    for one, other, label in joins:
        columns = known[one].keys() | known[other].keys()
        assert set(re.findall(r"\w+", label)) <= columns, (one, other, label)


def test_views_are_what_they_were_at_this_version():
    kept: dict[str, dict[str, str]] = json.loads((KEPT / f"v{SCHEMA_VERSION}.json").read_text())
    now = shapes()
    for view, columns in kept.items():
        for column, kind in columns.items():
            assert now.get(view, {}).get(column) == kind, (
                f"{view}.{column} was {kind}: whoever takes it away or changes its type raises SCHEMA_VERSION"
            )
    new = [f"{view}.{column}" for view in now for column in now[view] if column not in kept.get(view, {})]
    assert new == [], f"from now on they stay: write them into v{SCHEMA_VERSION}.json"


def test_the_tables_say_their_version():
    with duckdb.connect() as connection:
        create(connection)
        assert connection.execute("SELECT schema_version FROM state").fetchall() == [(SCHEMA_VERSION,)]


def test_meanings_stand_in_the_file_once(tmp_path):
    with duckdb.connect(str(tmp_path / "tables.duckdb")) as connection:
        create(connection)
        assert reference.comment(connection)
        assert not reference.comment(connection)
        said = connection.execute(
            "SELECT comment FROM duckdb_columns() WHERE table_name = 'best_measurements' AND column_name = 'load_ms'"
        ).fetchall()
        assert said == [("[ms] loading the model",)]
        ((rows,),) = connection.execute("SELECT comment FROM duckdb_views() WHERE view_name = 'runs'").fetchall()
        assert rows.startswith("One row: a run.")
        ((missing,),) = connection.execute(
            "SELECT count(*) FROM duckdb_columns() JOIN duckdb_views() ON table_name = view_name "
            "WHERE NOT duckdb_views.internal AND view_name <> 'best' AND duckdb_columns.comment IS NULL"
        ).fetchall()
        assert missing == 0


def test_meanings_are_written_while_a_writer_is_at_work(tmp_path):
    path = str(tmp_path / "tables.duckdb")
    with duckdb.connect(path) as writer, duckdb.connect(path) as other:
        create(writer)
        writer.begin()
        writer.execute("UPDATE projection SET position = 1")
        assert reference.comment(other)
        writer.commit()
        assert writer.execute("SELECT position FROM state").fetchall() == [(1,)]


def test_a_view_that_there_is_not_gets_the_nearest_names():
    with pytest.raises(UnknownView) as refused:
        reference.view("measurement")
    assert "measurements" in refused.value.nearest


def test_the_version_is_said_in_one_place():
    assert f"SELECT position, {statements.SCHEMA_VERSION} AS schema_version" in VIEWS["state"]


def batch(events: list[dict[str, Any]], first: int) -> pa.Table:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "position": position, "event_id": event["id"], "type": event["type"], "source": event["source"],
            "attestation": "anonymous", "chain": bytes(32), "time": None, "recorded_at": begin + timedelta(seconds=position), "body": json.dumps(event),
        }
        for position, event in enumerate(events, start=first)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=BATCH_SCHEMA)


@pytest.fixture(scope="module")
def tables(build, tmp_path_factory) -> Path:
    """A small log in which every example finds something."""
    path = tmp_path_factory.mktemp("examples") / "tables.duckdb"
    price = {"hardware": {"id": "acme-one"}, "provider": "acme", "usd_per_hour": 0.5, "date": "2026-01-01"}
    first = [
        build.measurement(p50=2.0),
        build.measurement(p50=8.0, batch_size=8),
        build.measurement(p50=1.0, platform="openvino"),
        build.test("failed"),
        build.event("assay.price.published.v1", price),
    ]
    with duckdb.connect(str(path)) as connection:
        create(connection)
        folder = Folder(connection)
        folder.apply(batch(first, 1))
        ((key,),) = connection.execute("SELECT configuration FROM measurements WHERE position = 1").fetchall()
        option = {
            "rank": 1, "configuration": key, "hardware": "acme-one", "hardware_count": 1, "platform": "cpu",
            "precision": "fp32", "batch_size": 1, "sequence_length": 128, "basis": "predicted", "origin": None,
            "latency_ms": 2.25,            "latency_ms_low": 1.5, "latency_ms_high": 3.0, "evidence": ["e1", "e2"], "why": "it is near",
        }  # fmt: skip
        answer = {"model": "acme/tiny", "predictor": "sha256:0", "interval": 0.8, "ranked": [option], "abstained": None}
        question = {"model": "acme/tiny", "mode": "inference", "objective": "latency", "percentile": "p50"}
        issued = {"recommendation": "abc", "position": 5, "question": question, "answer": answer}
        then = [
            build.event("assay.recommendation.issued.v1", issued),
            build.event("assay.snapshot.named.v1", {"name": "release 1.4", "position": 5}),
            build.measurement(p50=2.5, run_id="run-2"),
            build.test("passed", run_id="run-2"),
            build.kernels(m=(16, 16, 32)),
        ]
        folder.apply(batch(then, 6))
        assert connection.execute("FROM dead_letter").fetchall() == []
        folder.close()
    return path


@pytest.mark.parametrize(("title", "sql"), reference.examples())
def test_each_example_runs_and_finds_something(tables, title, sql):
    assert select(tables, sql, 100).table.num_rows > 0, title


def test_there_are_enough_examples():
    assert len(reference.examples()) >= 10


def test_what_was_answered_stands_beside_what_was_measured_since(tables):
    ((_, sql),) = [one for one in reference.examples() if one[0].startswith("What was predicted")]
    (row,) = select(tables, sql, 10).table.to_pylist()
    assert (row["recommendation"], row["latency_ms"], row["latency_p50_ms"], row["within"]) == ("abc", 2.25, 2.5, True)
    (told,) = select(tables, "FROM predictions", 10).table.to_pylist()
    assert (told["position"], told["answered_at_position"], told["model_id"], told["rank"]) == (6, 5, "acme/tiny", 1)
    assert (told["evidence"], told["interval_coverage"], told["latency_high_ms"]) == (["e1", "e2"], 0.8, 3.0)
    assert (told["energy_j"], told["origin"]) == (None, None)


def test_an_answer_without_options_is_no_row_of_predictions_and_a_strange_one_does_no_harm(build):
    with duckdb.connect() as connection:
        create(connection)
        folder = Folder(connection)
        asked = {"recommendation": "x", "position": 0, "question": {}}
        answers = [
            {"ranked": [], "abstained": "nothing is known"},
            {"ranked": "x"},
            {},
            {"ranked": [{"rank": "first"}]},
        ]
        events = [build.event("assay.recommendation.issued.v1", {**asked, "answer": one}) for one in answers]
        folder.apply(batch(events, 1))
        assert connection.execute("SELECT position, rank FROM predictions").fetchall() == [(4, None)]
        told = connection.execute("SELECT options, abstained FROM recommendations ORDER BY position").fetchall()
    assert told[0] == (0, "nothing is known")
    assert told[3] == (1, None)
