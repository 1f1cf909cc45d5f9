"""What a panel offers to take away."""

from __future__ import annotations

import csv
import io

import pyarrow.parquet as pq

from dashboard.downloads import stem, table_files

ROWS = [
    {"model": "acme/tiny", "latency_ms": 2.5, "n": 30, "evidence": ["a", "b"], "mixed": 1},
    {"model": "acme/large", "latency_ms": None, "origin": "imported", "mixed": "two"},
]


def test_a_file_is_named_by_page_subject_and_position() -> None:
    assert stem("compare", "acme/ti ny", 42) == "assay_compare_acme-ti-ny_p42"
    assert stem("overview", "", 7) == "assay_overview_p7"


def test_csv_has_every_column_and_leaves_the_missing_empty() -> None:
    _, name, media, make = table_files("rows", ROWS, as_of=9)[0]
    assert (name, media) == ("rows.csv", "text/csv")
    read = list(csv.DictReader(io.StringIO(make().decode())))
    assert list(read[0]) == ["model", "latency_ms", "n", "evidence", "mixed", "origin", "as_of"]
    assert read[0]["evidence"] == '["a", "b"]'
    assert (read[1]["latency_ms"], read[1]["n"], read[1]["as_of"]) == ("", "", "9")


def test_parquet_has_the_same_rows_typed_and_a_column_of_several_types_as_text() -> None:
    _, name, _, make = table_files("rows", ROWS, as_of=9)[1]
    assert name == "rows.parquet"
    table = pq.read_table(io.BytesIO(make()))
    assert table.column("latency_ms").to_pylist() == [2.5, None]
    assert table.column("mixed").to_pylist() == ["1", "two"]
    assert table.column("as_of").to_pylist() == [9, 9]


def test_no_rows_are_a_file_with_its_head() -> None:
    for _, _, _, make in table_files("rows", [], as_of=9):
        assert make()
