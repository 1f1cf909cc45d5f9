"""Evidence that ships with Assay: published whole-model measurements, ready to be appended to a log as `imported`.

`shipped.parquet` holds each event as it is appended, with its source, run, reference, licence, commit and date. It is
made by `python -m research.pack_evidence`; `assay data` lists, adds and removes sources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from domain.events import MEASUREMENT_RECORDED

__all__ = ["BATCH", "COLUMNS", "Source", "count", "events", "first_id", "runs", "sources"]

COLUMNS = pa.schema(
    {
        "source": pa.string(),
        "run": pa.string(),
        "type": pa.string(),
        "reference": pa.string(),
        "licence": pa.string(),
        "commit": pa.string(),
        "date": pa.string(),
        "event": pa.binary(),
    }
)
BATCH = 4096
"""Events that are appended at a time; the file's row groups are as large."""
_FILE = Path(__file__).with_name("shipped.parquet")


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


@cache
def _table() -> Any:
    return pq.read_table(_FILE, columns=COLUMNS.names[:-1])


@cache
def sources() -> tuple[Source, ...]:
    """Return what ships, by name."""
    table = _table()
    return tuple(_summed(name, table.filter(pc.field("source") == name)) for name in sorted(_distinct(table, "source")))


def _summed(name: str, table: Any) -> Source:
    measured = table.filter(pc.field("type") == MEASUREMENT_RECORDED)
    dates = sorted(_distinct(measured, "date"))
    references = _distinct(measured, "reference")
    return Source(
        name=name,
        measurements=measured.num_rows,
        undated=measured.column("date").null_count,
        first=dates[0] if dates else None,
        last=dates[-1] if dates else None,
        # A file or row within a repository is not another source.
        references=sorted({"/".join(reference.split("/")[:2]).split(" ")[0] for reference in references}),
        licences=sorted(_distinct(measured, "licence")),
        runs=sorted(_distinct(table, "run")),
    )


def _distinct(table: Any, column: str) -> list[str]:
    return [value for value in pc.unique(table.column(column)).to_pylist() if value is not None]


@cache
def runs() -> frozenset[str]:
    """Return the runs of all that ships."""
    return frozenset(_distinct(_table(), "run"))


def count() -> int:
    """Return how many events ship."""
    return int(_table().num_rows)


@cache
def first_id() -> str:
    """Return the id of the first event."""
    return str(msgspec.json.decode(next(events())[0])["id"])


def events(names: Collection[str] | None = None) -> Iterator[list[bytes]]:
    """Yield the events of these sources, or of all, in batches: JSON texts as they are appended."""
    file = pq.ParquetFile(_FILE)
    for batch in file.iter_batches(BATCH, columns=["source", "event"]):
        chosen = batch if names is None else batch.filter(pc.is_in(batch.column("source"), pa.array(sorted(names))))
        if chosen.num_rows:
            yield chosen.column("event").to_pylist()
