"""`assay export`: events as Parquet files, for other tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import print_json, say
from assay.cli.progress import counting
from domain.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["export", "write_events"]

FORMAT = "1"
GROUP_EVENTS = 10_000
_ENVELOPE = frozenset(
    ("position", "recorded_at", "id", "type", "source", "subject", "time", "specversion", "datacontenttype", "data")
)


class Moment(click.ParamType[datetime]):
    """`2026-11-01` or `2026-11-01T12:00:00Z`; UTC where no offset is given."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment; anything but ISO 8601 is wrong usage."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a date; write 2026-11-01 or 2026-11-01T12:00:00Z", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.command(
    epilog="""\b
Examples:
  assay export log.parquet --type assay.measurement.recorded.v1
  assay export months/ --monthly --since 2026-01-01"""
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events above this position.")
@click.option("--upto", type=click.IntRange(min=0), help="Only events up to this position.")
@click.option("--since", type=Moment(), help="Only events recorded at this moment or later.")
@click.option("--until", type=Moment(), help="Only events recorded before this moment.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; may be repeated.")
@click.option("--monthly", is_flag=True, help="PATH is a folder; one file a month of recording (UTC).")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@served
@as_json
def export(
    path: Path,
    after: int,
    upto: int | None,
    since: datetime | None,
    until: datetime | None,
    types: tuple[str, ...],
    monthly: bool,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Write events to Parquet: position, recorded_at, the envelope, and `data` as JSON text.

    Raw samples that have expired have no data. The file's metadata names the filters, the version of this layout and the
    last position of the log.
    """
    from assay.cli.connection import connected

    if path.exists() and not force and (not monthly or not path.is_dir()):
        raise UsageError(f"{path} exists.", field="path", remedy="Name another, or add --force.")
    filters: dict[str, Any] = {"upto": upto, "since": since, "until": until}
    with connected(server, token) as client, counting("events") as advance:
        last = client.ready()["log_position"]
        # What is appended meanwhile is for the next export.
        filters["upto"] = last if upto is None else min(upto, last)
        told = {"after": after, **filters, "types": list(types) or None, "log_position": last}
        events = client.events(after=after, types=types, **filters)
        written = write_events(_counted(events, advance), path, told, monthly=monthly, force=force)
    if as_json:
        print_json([{"path": str(file), "events": count} for file, count in written.items()])
    else:
        say(f"{numbers.count(sum(written.values()))} events in {len(written)} files: {', '.join(map(str, written))}")
    return 0


def _counted(events: Iterable[dict[str, Any]], advance: Any) -> Iterator[dict[str, Any]]:
    for event in events:
        yield event
        advance(1)


def write_events(
    events: Iterable[dict[str, Any]], path: Path, told: dict[str, Any], *, monthly: bool = False, force: bool = False
) -> dict[Path, int]:
    """Write events, as GET /v1/events gives them, and return the events of each file; memory stays flat.

    With `monthly`, `path` is a folder, and an event belongs to the month in which it was recorded, in whatever order the
    months come: a clock may have gone back. Files appear whole, all at the end, or not at all.
    """
    files: dict[Path, _File] = {}
    with ExitStack() as stack:
        for event in events:
            recorded_at = datetime.fromisoformat(event["recorded_at"])
            place = path / f"events-{recorded_at.astimezone(UTC):%Y-%m}.parquet" if monthly else path
            if place not in files:
                if monthly and place.exists() and not force:
                    raise UsageError(f"{place} exists.", field="path", remedy="Name another folder, or add --force.")
                files[place] = stack.enter_context(_File(place, told))
            files[place].add(event, recorded_at)
        if not monthly and path not in files:
            files[path] = stack.enter_context(_File(path, told))
        for file in files.values():
            file.finish()
    return {place: file.events for place, file in files.items()}


class _File:
    """One Parquet file on its way: rows are kept until they make a group; without `finish` nothing stays."""

    def __init__(self, path: Path, told: dict[str, Any]) -> None:
        self.path = path
        self.events = 0
        self._beside = path.with_name(path.name + ".writing")
        self._schema = _schema(told)
        self._waiting: list[dict[str, Any]] = []
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _File:
        import pyarrow.parquet as pq

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._beside, self._schema, compression="zstd", compression_level=9)
        return self

    def add(self, event: dict[str, Any], recorded_at: datetime) -> None:
        self._waiting.append(_row(event, recorded_at))
        self.events += 1
        if len(self._waiting) >= GROUP_EVENTS:
            self._flush()

    def finish(self) -> None:
        self._flush()
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        with self._beside.open("rb") as written:
            os.fsync(written.fileno())
        self._beside.replace(self.path)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._beside.unlink()

    def _flush(self) -> None:
        import pyarrow as pa

        assert self._writer is not None
        if self._waiting:
            self._writer.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []


def _schema(told: dict[str, Any]) -> pa.Schema:
    import msgspec
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
        ],
        metadata={"assay.export": FORMAT, "assay.filters": msgspec.json.encode(told)},
    )


def _row(event: dict[str, Any], recorded_at: datetime) -> dict[str, Any]:
    import msgspec

    extensions = {name: value for name, value in event.items() if name not in _ENVELOPE}
    return {
        **{name: event.get(name) for name in ("position", "id", "type", "source", "subject")},
        "recorded_at": recorded_at,
        "time": datetime.fromisoformat(event["time"]) if event.get("time") else None,
        "data": msgspec.json.encode(event["data"]).decode() if "data" in event else None,
        "extensions": msgspec.json.encode(extensions).decode() if extensions else None,
    }
