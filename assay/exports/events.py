"""Events of the log as Arrow tables, as lines, and as Parquet files by month."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.staging import SUFFIX, Staged

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EVENTS_A_TABLE", "event_schema", "event_tables", "write_events", "write_lines"]

Event = Mapping[str, Any]
EVENTS_A_TABLE = 10_000
_OF_THE_LOG = ("position", "recorded_at", "attestation", "whence")
"""What the log adds to an event; another log adds its own."""
_ENVELOPE = frozenset(
    (*_OF_THE_LOG, "id", "type", "source", "subject", "time", "specversion", "datacontenttype", "data")
)


def event_schema() -> pa.Schema:
    """Return the columns of events: the envelope, `data` and extension attributes as JSON text, and the attestation."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    text = ("id", "type", "source", "subject")
    return pa.schema(
        [
            ("position", pa.int64()),
            ("recorded_at", moment),
            *((name, pa.string()) for name in text),
            ("time", moment),
            ("data", pa.string()),
            ("extensions", pa.string()),
            ("attestation", pa.string()),
        ]
    )


def event_tables(events: Iterable[Event]) -> Iterator[pa.Table]:
    """Yield events, as GET /v1/events gives them, as tables; memory holds one."""
    import pyarrow as pa

    schema = event_schema()
    waiting: list[dict[str, Any]] = []
    for event in events:
        waiting.append(_row(event))
        if len(waiting) >= EVENTS_A_TABLE:
            yield pa.Table.from_pylist(waiting, schema=schema)
            waiting = []
    if waiting:
        yield pa.Table.from_pylist(waiting, schema=schema)


def _row(event: Event) -> dict[str, Any]:
    extensions = {name: value for name, value in event.items() if name not in _ENVELOPE}
    return {
        **{name: event.get(name) for name in ("position", "id", "type", "source", "subject", "attestation")},
        "recorded_at": datetime.fromisoformat(event["recorded_at"]),
        "time": datetime.fromisoformat(event["time"]) if event.get("time") else None,
        "data": msgspec.json.encode(event["data"]).decode() if "data" in event else None,
        "extensions": msgspec.json.encode(extensions).decode() if extensions else None,
    }


def write_lines(events: Iterable[Event], path: Path) -> tuple[int, int]:
    """Write events one a line as they were sent, to be posted elsewhere; return how many, and how many had expired.

    Position and time of recording are the other log's to give. A path in `.gz` is compressed.
    """
    written = expired = 0
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.name.removesuffix(SUFFIX).endswith(".gz"):
            stream = stack.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6)
            )
        for event in events:
            if event.get("expired"):
                expired += 1
                continue
            sent = {name: value for name, value in event.items() if name not in _OF_THE_LOG}
            stream.write(msgspec.json.encode(sent) + b"\n")
            written += 1
    return written, expired


def write_events(
    events: Iterable[Event], path: Path, metadata: Mapping[str, str], *, monthly: bool = False, force: bool = False
) -> dict[Path, int]:
    """Write events to Parquet and return the events of each file; memory stays flat.

    With `monthly`, `path` is a folder, and an event belongs to the month in which it was recorded, in whatever order the
    months come: a clock may have gone back. Files appear whole, all at the end, or not at all.
    """
    import pyarrow.parquet as parquet

    schema = event_schema().with_metadata(dict(metadata))
    files: dict[Path, _File] = {}
    with Staged(force=force) as staged, ExitStack() as stack:

        def file(place: Path) -> _File:
            if place not in files:
                writer = parquet.ParquetWriter(staged.file(place), schema, compression="zstd", compression_level=9)
                files[place] = _File(stack.enter_context(writer))
            return files[place]

        if not monthly:
            file(path)
        for event in events:
            recorded_at = datetime.fromisoformat(event["recorded_at"])
            month = path / f"events-{recorded_at.astimezone(UTC):%Y-%m}.parquet"
            file(month if monthly else path).add(event)
        for item in files.values():
            item.flush()
    return {place: value.events for place, value in files.items()}


class _File:
    """One Parquet file on its way: rows are kept until they make a group."""

    def __init__(self, writer: Any) -> None:
        self.events = 0
        self._writer = writer
        self._waiting: list[Event] = []

    def add(self, event: Event) -> None:
        self._waiting.append(event)
        self.events += 1
        if len(self._waiting) >= EVENTS_A_TABLE:
            self.flush()

    def flush(self) -> None:
        for table in event_tables(self._waiting):
            self._writer.write_table(table)
        self._waiting = []
