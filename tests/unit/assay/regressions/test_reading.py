"""Sides read from files: events, rows in each format that an export has, and what was saved."""

from __future__ import annotations

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from assay.regressions import read_side, row_of_event, write_side
from domain.errors import UsageError


def no_service():
    raise AssertionError("a file needs no service")


def read(path, **wanted):
    return read_side(str(path), no_service, wanted, field="baseline")


@pytest.fixture
def events(build):
    return [build.measurement(1.0), build.measurement(2.0, batch_size=8), build.test("failed")]


@pytest.fixture
def lines(events, tmp_path):
    path = tmp_path / "events.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def flat(event):
    row = row_of_event(event)
    del row["environment"]
    nested = ("workload", "execution", "verdict_reasons", "metric_verdicts")
    return {name: json.dumps(value) if name in nested else value for name, value in row.items()}


def test_events_compressed_or_not(lines, tmp_path):
    side = read(lines)
    assert [row.figures["latency_p50_ms"].value for row in side.measured] == [1.0, 2.0]
    assert ("verify", "failed") in {(one.test, one.outcome) for one in side.cases}
    packed = tmp_path / "packed.ndjson.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    assert read(packed).measured == side.measured
    assert read(lines, model="other").measured == []


def test_a_retraction_voids_the_events_before_it(events, build, tmp_path):
    path = tmp_path / "events.ndjson"
    void = build.retraction(event_id=events[0]["id"])
    path.write_text("".join(json.dumps(event) + "\n" for event in [*events, void]))
    assert [row.figures["latency_p50_ms"].value for row in read(path).measured] == [2.0]
    path.write_text("".join(json.dumps(event) + "\n" for event in [*events, build.retraction(run_id="run-1")]))
    assert read(path).measured == []
    undo = build.retraction(event_id=void["id"])
    path.write_text("".join(json.dumps(event) + "\n" for event in [*events, void, undo]))
    assert len(read(path).measured) == 2


def test_rows_in_every_format_give_the_same_side(events, lines, tmp_path):
    rows = [flat(event) for event in events[:2]]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "lake").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "lake" / "part-0.parquet")
    with (tmp_path / "rows.csv").open("w", newline="") as text:
        writer = csv.DictWriter(text, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "rows.json").write_text(json.dumps({"items": rows}))
    (tmp_path / "list.json").write_text(json.dumps(rows))
    expected = read(lines).measured
    for name in ("rows.parquet", "lake", "rows.csv", "rows.json", "list.json"):
        assert read(tmp_path / name).measured == expected, name


def test_events_in_parquet_are_events(events, lines, tmp_path):
    rows = [{"type": event["type"], "id": event["id"], "data": json.dumps(event["data"])} for event in events]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet")
    side = read(tmp_path / "events.parquet")
    assert (side.measured, side.cases) == (read(lines).measured, read(lines).cases)


def test_what_was_saved_is_what_was_known(lines, tmp_path):
    side = read(lines)
    write_side(tmp_path / "baseline.json", side)
    again = read(tmp_path / "baseline.json")
    assert (again.name, again.measured, again.cases, again.environments) == (
        "baseline.json", side.measured, side.cases, side.environments,
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["baseline.json", "events.ndjson"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", '{"assay_regressions": 9}', "format 9"),
        ("a.json", '{"items": 3}', "no measurements"),
        ("a.json", '[{"event_id": "x"}]', "record 1"),
        ("a.json", "[3]", "no object"),
        ("a.ndjson", '{"id": "x"}\n', "record 1"),
        ("a.txt", "x", "no file that can be compared"),
    ],
)
def test_a_file_that_holds_nothing_of_the_kind_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=said) as refused:
        read(tmp_path / name)
    assert refused.value.field == "baseline"
    assert refused.value.remedy


@pytest.mark.parametrize("name", ["missing.json", "missing.ndjson.gz", "some/where"])
def test_a_file_that_is_not_there_is_not_taken_for_a_snapshot(name):
    with pytest.raises(UsageError, match=f"no file {name}"):
        read(name)


def test_a_snapshot_may_have_a_dot_and_a_service_is_asked_for_it():
    with pytest.raises(AssertionError, match="needs no service"):
        read("release 1.4")
