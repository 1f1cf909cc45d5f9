"""`assay archive`, `assay samples`: the log's past as Parquet files, and how long raw samples are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.confirming import confirm, confirmed, performed
from assay.cli.keep.database import opened
from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json, say
from assay.cli.progress import counting
from presentation import formatting

if TYPE_CHECKING:
    from ingest.archive.archive import Archive, Segment

__all__ = ["archive", "samples"]


@contextmanager
def _archive() -> Iterator[Archive]:
    from assay.home import find_home
    from ingest.archive.archive import Archive, archive_folder

    with opened() as database:
        yield Archive(archive_folder(find_home().path), database.url)


@click.group()
def archive() -> None:
    """Closed ranges of the log as Parquet files, in ASSAY_ARCHIVE or ASSAY_HOME/archive."""


@archive.command("write", epilog="Example: assay archive write --keep 100000")
@click.option("--keep", type=click.IntRange(min=0), default=0, show_default=True, help="The newest events stay out.")
@click.option(
    "--segment-events",
    type=click.IntRange(1, 1_000_000),
    default=1_000_000,
    show_default=True,
    help="Events a segment.",
)
@as_json
def write(keep: int, segment_events: int, as_json: bool) -> int:
    """Write what is not archived yet. The database keeps everything until `assay archive trim`."""
    with _archive() as store:
        with counting("events") as advance:
            made = store.write(keep=keep, segment_events=segment_events, progress=advance)
        if made:
            place = {"first_position": made[0].first_position, "last_position": made[-1].last_position}
            performed(store.url, "archive.written", made[-1].facts, {**place, "segments": len(made)})
    _tell(made, as_json, "nothing new to archive", "archived")
    return 0


@archive.command("list")
@as_json
def list_all(as_json: bool) -> int:
    """List the segments."""
    with _archive() as store:
        segments = store.segments()
    if as_json:
        print_json([_told(item) for item in segments])
        return 0
    rows = [
        [
            formatting.count(item.first_position),
            formatting.count(item.last_position),
            formatting.count(item.events),
            formatting.memory(item.size_bytes),
            "yes" if item.samples else formatting.MISSING,
            formatting.date(item.created_at),
            formatting.date(item.trimmed_at),
        ]
        for item in segments
    ]
    columns: list[str | tuple[str, str]] = [
        ("from", "right"),
        ("to", "right"),
        ("events", "right"),
        ("size", "right"),
        "samples",
        "written",
        "trimmed",
    ]
    answers().print(grid("Archive", columns, rows))
    return 0


@archive.command("verify", epilog="Example: assay archive verify --deep")
@click.option("--deep", is_flag=True, help="Compare every event with the digest that the log holds.")
@click.option("--alone", is_flag=True, help="Without the database: compute the hash chain from what the files hold.")
@as_json
def verify(deep: bool, alone: bool, as_json: bool) -> int:
    """Check that every file is there and whole; exit 1 where one is not."""
    from ingest.archive.archive import ArchiveDamaged

    if alone:
        return _verify_alone(as_json)

    documents: list[dict[str, Any]] = []
    with _archive() as store, counting("segments") as advance:
        for segment in store.segments():
            wrong = None
            try:
                store.verify(segment, deep=deep)
            except ArchiveDamaged as error:
                wrong = str(error)
            documents.append({**_told(segment), "damaged": wrong})
            advance(1)
    damaged = [item["damaged"] for item in documents if item["damaged"]]
    if as_json:
        print_json(documents)
    else:
        for sentence in damaged:
            answers().print(sentence, markup=False, soft_wrap=True)
        say(f"{len(documents) - len(damaged)} of {len(documents)} segments are whole")
    return 1 if damaged else 0


def _verify_alone(as_json: bool) -> int:
    from assay.home import find_home
    from ingest.archive.archive import ArchiveDamaged, archive_folder
    from ingest.archive.comparing import require_links

    documents: list[dict[str, Any]] = []
    before: str | None = None
    with counting("files") as advance:
        for path in sorted(archive_folder(find_home().path).glob("facts-*.parquet")):
            wrong = None
            try:
                before = require_links(path, before)
            except ArchiveDamaged as error:
                wrong, before = str(error), None
            documents.append({"facts": path.name, "chain": before, "damaged": wrong})
            advance(1)
    if as_json:
        print_json(documents)
    else:
        for item in documents:
            if item["damaged"]:
                answers().print(item["damaged"], markup=False, soft_wrap=True)
        unsaid = sum(entry["chain"] is None and entry["damaged"] is None for entry in documents)
        older = f"; {unsaid} are of an older version and do not say" if unsaid else ""
        say(f"{sum(entry['chain'] is not None for entry in documents)} of {len(documents)} files are one chain{older}")
    return 1 if any(entry["damaged"] for entry in documents) else 0


@archive.command("trim", epilog="Example: assay archive trim --keep 1000000")
@click.option("--keep", type=click.IntRange(min=0), default=0, show_default=True, help="Leave the newest events alone.")
@confirmed
@as_json
def trim(keep: int, yes: bool, as_json: bool) -> int:
    """Take the bodies of archived events out of the database, after comparing the files with it once more.

    The rows stay, so that ids stay unique; from then on the archive is the only place of those bodies: back it up.
    """
    with _archive() as store:
        confirm(f"The archive in {store.folder} becomes the only place of the bodies of archived events.", yes=yes)
        with counting("events") as advance:
            done = store.trim(keep=keep, progress=advance)
        if done:
            place = {"first_position": done[0].first_position, "last_position": done[-1].last_position}
            performed(store.url, "archive.trimmed", done[-1].facts, {**place, "segments": len(done)})
    _tell(done, as_json, "nothing to trim", "trimmed")
    return 0


@archive.command("restore", epilog="Example: assay archive restore")
@as_json
def restore(as_json: bool) -> int:
    """Bring trimmed bodies back into the database, as a downgrade needs it; the files stay."""
    with _archive() as store:
        with counting("events") as advance:
            done = store.restore(progress=advance)
        if done:
            performed(store.url, "archive.restored", None, {"segments": len(done)})
    _tell(done, as_json, "nothing had been trimmed", "brought back")
    return 0


@click.group()
def samples() -> None:
    """Raw samples: expendable, unlike facts."""


class Age(click.ParamType[timedelta]):
    """`90d`, `12h`: days or hours."""

    name = "90d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the time; anything but a whole number and d or h is wrong usage."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6})([dh])", str(value))
        if match is None:
            self.fail(f"{value!r} is not an age; write 90d or 12h", param, ctx)
        number = int(match[1])
        return timedelta(days=number) if match[2] == "d" else timedelta(hours=number)


@samples.command("expire", epilog="Example: assay samples expire --older-than 90d --dry-run")
@click.option("--older-than", type=Age(), required=True, help="By when the log recorded them.")
@click.option("--dry-run", is_flag=True, help="Count, remove nothing.")
@confirmed
@as_json
def expire(older_than: timedelta, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Remove raw samples from the log and the archive. Facts, and every table made of them, stay as they are."""
    from ingest.archive.retention import expire_samples

    with _archive() as store:
        if not dry_run:
            confirm(f"Raw samples older than {older_than} are removed for ever.", yes=yes)
        document = expire_samples(store, older_than, dry_run=dry_run)
        if not dry_run and (document.log_events or document.archived_events):
            numbers_of = {"log_events": document.log_events, "archived_events": document.archived_events}
            performed(store.url, "samples.expired", None, {"cutoff": document.cutoff.isoformat(), **numbers_of})
    if as_json:
        print_json(document)
        return 0
    verb = "would expire" if dry_run else "expired"
    say(
        f"{verb}: {formatting.count(document.log_events)} events ({formatting.memory(document.log_bytes)}) in the database, "
        f"{formatting.count(document.archived_events)} ({formatting.memory(document.archived_bytes)}) in {document.files} files of the archive"
    )
    return 0


def _told(segment: Segment) -> dict[str, Any]:
    return {
        "first_position": segment.first_position,
        "last_position": segment.last_position,
        "events": segment.events,
        "facts": segment.facts,
        "samples": segment.samples,
        "bytes": segment.size_bytes,
        "created_at": segment.created_at,
        "trimmed_at": segment.trimmed_at,
    }


def _tell(done: list[Segment], as_json: bool, nothing: str, verb: str) -> None:
    if as_json:
        print_json([_told(item) for item in done])
    elif not done:
        say(nothing)
    else:
        events = sum(item.events for item in done)
        say(
            f"{verb}: {formatting.count(events)} events, positions {done[0].first_position} to {done[-1].last_position}"
        )
