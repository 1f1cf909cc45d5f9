"""Tables in files: every format gives back what went in, and says of itself what it is."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

from assay.exports.tables import WRITERS, DuckdbFile, write_partitioned
from domain.cells import restored
from domain.errors import UsageError

TOLD = {"assay.position": "7", "assay.filters": "{}"}
SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), metadata={"assay.type": "BIGINT"}),
        pa.field("recorded_at", pa.timestamp("us", tz="UTC"), metadata={"assay.type": "TIMESTAMP WITH TIME ZONE"}),
        pa.field("model_id", pa.string(), metadata={"assay.type": "VARCHAR"}),
        pa.field("value", pa.float64(), metadata={"assay.type": "DOUBLE"}),
        pa.field("options", pa.string(), metadata={"assay.type": "JSON"}),
        pa.field("names", pa.list_(pa.string()), metadata={"assay.type": "VARCHAR[]"}),
    ]
)
ROWS = [
    {
        "position": number, "recorded_at": datetime(2026, 10 + number % 2, 1, tzinfo=UTC),
        "model_id": name, "value": None if number == 2 else -1.5 * number, "options": '{"a":1}' if number else None,
        "names": ["x", "=y"],
    }
    for number, name in enumerate(("acme/tiny", "=HYPERLINK(1)", "", None, "'=quoted", "'plain", "-dash"))
]  # fmt: skip


def tables():
    yield pa.Table.from_pylist(ROWS[:3], schema=SCHEMA)
    yield pa.Table.from_pylist(ROWS[3:], schema=SCHEMA)


def test_parquet_and_arrow_hold_rows_types_and_card(tmp_path):
    assert WRITERS["parquet"](tmp_path / "a.parquet", SCHEMA, tables(), TOLD) == len(ROWS)
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == ROWS
    assert parquet.read_schema(tmp_path / "a.parquet").metadata[b"assay.position"] == b"7"
    assert WRITERS["arrow"](tmp_path / "a.arrow", SCHEMA, tables(), TOLD) == len(ROWS)
    with pa.OSFile(str(tmp_path / "a.arrow")) as file:
        read = pa.ipc.open_file(file).read_all()
    assert read.to_pylist() == ROWS
    assert read.schema.metadata[b"assay.filters"] == b"{}"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_has_no_formula_and_tells_null_from_empty(tmp_path, name):
    path = tmp_path / f"{name}.writing"
    assert WRITERS["csv"](path, SCHEMA, tables(), TOLD) == len(ROWS)
    content = path.read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    cells = list(csv.DictReader(text.splitlines()))
    assert [row["model_id"] for row in cells] == [
        "acme/tiny", "'=HYPERLINK(1)", "", "", "''=quoted", "'plain", "'-dash",
    ]  # fmt: skip
    assert [restored(row["model_id"]) for row in cells] == [row["model_id"] or "" for row in ROWS]
    # A number stays one, whatever its sign.
    assert cells[1]["value"] == "-1.5"
    assert cells[0]["names"] == '["x","=y"]'
    lines = text.splitlines()
    assert ',"",' in lines[3] and ",," in lines[4]


def test_lines_hold_json_as_json(tmp_path):
    path = tmp_path / "a.ndjson"
    assert WRITERS["ndjson"](path, SCHEMA, tables(), TOLD) == len(ROWS)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[1]["options"] == {"a": 1}
    assert (rows[0]["options"], rows[2]["value"]) == (None, None)
    assert rows[1]["recorded_at"] == "2026-11-01T00:00:00Z"


def test_folders_are_named_by_columns_and_months(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    assert write_partitioned(folder, SCHEMA, tables(), TOLD, ["month", "model_id"]) == len(ROWS)
    months = sorted(path.name for path in folder.iterdir())
    assert months == ["month=2026-10", "month=2026-11"]
    files = list(folder.rglob("*.parquet"))
    assert parquet.read_schema(files[0]).metadata[b"assay.position"] == b"7"
    found = duckdb.sql(f"SELECT position FROM read_parquet('{folder}/**/*.parquet') ORDER BY 1").fetchall()
    assert [position for (position,) in found] == [row["position"] for row in ROWS]


@pytest.mark.parametrize("by", [["value"], ["nothing"], ["names"]])
def test_rows_go_into_folders_by_words_and_whole_numbers_only(tmp_path, by):
    with pytest.raises(UsageError, match=by[0]):
        write_partitioned(tmp_path, SCHEMA, tables(), TOLD, by)


def test_rows_without_a_time_have_no_month(tmp_path):
    schema = pa.schema([("model_id", pa.string())])
    with pytest.raises(UsageError, match="no time"):
        write_partitioned(tmp_path, schema, iter([schema.empty_table()]), TOLD, ["month"])


def test_a_duckdb_file_has_the_types_of_the_views_and_says_what_it_is(tmp_path):
    path = tmp_path / "a.duckdb"
    with DuckdbFile(path) as file:
        assert file.add("measurements", SCHEMA, tables()) == len(ROWS)
        assert file.add("empty", SCHEMA, iter([SCHEMA.empty_table()])) == 0
        file.tell(TOLD)
    with duckdb.connect(str(path), read_only=True) as connection:
        kinds = dict(
            connection.sql(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'measurements'"
            ).fetchall()
        )
        assert kinds == {field.name: field.metadata[b"assay.type"].decode() for field in SCHEMA}
        assert connection.sql("SELECT options->>'a' FROM measurements WHERE position = 1").fetchall() == [("1",)]
        assert connection.sql("SELECT value FROM export WHERE name = 'assay.position'").fetchall() == [("7",)]
        assert connection.sql("SELECT count(*) FROM empty").fetchall() == [(0,)]
