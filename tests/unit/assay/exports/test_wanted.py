"""What can be asked of an export, and which format a path says."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.exports import ExportSelection, format_of
from domain.errors import UsageError


@pytest.mark.parametrize(
    ("path", "form"),
    [("a.parquet", "parquet"), ("a.csv", "csv"), ("a.csv.gz", "csv"), ("a.arrow", "arrow"), ("a.duckdb", "duckdb"),
     ("a.ndjson.gz", "ndjson"), ("a.jsonl", "ndjson"), ("a.svg", "badge")],
)  # fmt: skip
def test_the_suffix_says_the_format(path, form):
    assert format_of(Path(path), None, None, folder=False) == form


def test_a_name_wins_a_folder_is_parquet_and_json_says_nothing():
    assert format_of(Path("a.json"), "bmf", None, folder=False) == "bmf"
    assert format_of(Path("lake"), None, None, folder=True) == "parquet"
    assert format_of(Path("lake"), None, "all", folder=False) == "parquet"
    for name in ("a.json", "lake", "a.txt"):
        with pytest.raises(UsageError, match="no format"):
            format_of(Path(name), None, None, folder=False)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"what": "events", "format": "parquet", "filters": {"model": "x"}}, "model"),
        ({"what": "tests", "format": "parquet", "filters": {"types": ["x"]}}, "types"),
        ({"what": "all", "format": "duckdb", "filters": {"model": "x"}}, "model"),
        ({"what": "tests", "format": "bmf"}, "what"),
        ({"what": "best", "format": "csv", "partition_by": ["month"]}, "partition_by"),
        ({"what": "all", "format": "parquet", "partition_by": ["month"]}, "partition_by"),
        ({"what": "tests", "format": "parquet", "monthly": True}, "monthly"),
        ({"what": "best", "format": "csv", "metrics": ["latency_p50_ms"]}, "metric"),
    ],
)
def test_what_does_not_fit_together_is_named(parts, field):
    with pytest.raises(UsageError) as refused:
        ExportSelection(**{"filters": {}, **parts})
    assert refused.value.field == field
