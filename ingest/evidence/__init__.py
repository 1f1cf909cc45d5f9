"""Evidence that ships with Assay: published whole-model measurements, ready to be appended to a log as `imported`.

`shipped.parquet` holds each event as it is appended, with its source, run, reference, licence, commit and date. It is
made by `python -m research.pack_evidence`; `assay data` lists, adds and removes sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from domain.events import MEASUREMENT_RECORDED

__all__ = ["BATCH", "Source", "count", "events", "first_id", "runs", "sources"]

BATCH = 4096
"""Events that are appended at a time; the file's row groups are as large."""
_FILE = Path(__file__).with_name("shipped.parquet")
# A file or row within a repository is not another source.
_SOURCES = """
SELECT source AS name, measurements, undated, first, last, refs AS references, licences, runs
FROM (
    SELECT source, list_sort(list(DISTINCT run)) AS runs, count(*) FILTER (type = $measured) AS measurements,
        count(*) FILTER (type = $measured AND date IS NULL) AS undated,
        min(date) FILTER (type = $measured) AS first, max(date) FILTER (type = $measured) AS last,
        list_sort(list(DISTINCT regexp_extract(reference, '^[^/ ]*(/[^/ ]*)?')) FILTER (type = $measured)) AS refs,
        list_sort(list(DISTINCT licence) FILTER (type = $measured)) AS licences
    FROM read_parquet($file) GROUP BY source
) ORDER BY source
"""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher's rows: how many measurements, of when, under which licences, and the runs that they are.

    `first` and `last` are ISO dates, None where no event has one.
    """

    name: str
    measurements: int
    undated: int
    first: str | None
    last: str | None
    references: list[str]
    licences: list[str]
    runs: list[str]


def _rows(statement: str, **values: Any) -> duckdb.DuckDBPyConnection:
    return duckdb.connect().execute(statement, {"file": str(_FILE), **values})


@cache
def sources() -> tuple[Source, ...]:
    """Return what ships, by name."""
    rows = _rows(_SOURCES, measured=MEASUREMENT_RECORDED)
    names = [column[0] for column in rows.description or ()]
    return tuple(Source(**dict(zip(names, row, strict=True))) for row in rows.fetchall())


@cache
def runs() -> frozenset[str]:
    """Return the runs of all that ships."""
    return frozenset(run for (run,) in _rows("SELECT DISTINCT run FROM read_parquet($file)").fetchall())


@cache
def count() -> int:
    """Return how many events ship."""
    ((result,),) = _rows("SELECT count(*) FROM read_parquet($file)").fetchall()
    return int(result)


@cache
def first_id() -> str:
    """Return the id of the first event."""
    return str(msgspec.json.decode(next(events())[0])["id"])


def events(names: Collection[str] | None = None) -> Iterator[list[bytes]]:
    """Yield the events of these sources, or of all, in batches: JSON texts as they are appended."""
    chosen = "" if names is None else " WHERE source IN (SELECT unnest($names))"
    values = {} if names is None else {"names": sorted(names)}
    rows = _rows(f"SELECT event FROM read_parquet($file){chosen}", **values)
    while batch := rows.fetchmany(BATCH):
        yield [event for (event,) in batch]
