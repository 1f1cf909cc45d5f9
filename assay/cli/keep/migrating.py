"""`assay migrate`: a whole tree of results into the log, what was taken of each file, and the migrated files put away."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.confirming import confirm, confirmed
from assay.cli.keep.archive import Age
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.progress import counting
from domain.errors import ConflictingEvent
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from ingest.importers.ledger import Entry, Ledger

__all__ = ["migrate"]

SHOWN = 12
"""Reasons that are shown; --json has all."""


@click.command(
    epilog="""\b
Examples:
  assay migrate old/test --dry-run
  assay migrate old/test --archive /backups/old-results
  assay migrate old/test --clean-older-than 30d --yes"""
)
@click.argument("tree", metavar="TREE", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Read, clean and count; send nothing, write nothing, remove nothing.")
@click.option(
    "--archive",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy the files that were migrated whole into a .tar.gz there, and read it back.",
)
@click.option(
    "--clean-older-than",
    "age",
    type=Age(),
    help="Remove migrated files that are older, once a copy was read back (--archive, else ASSAY_HOME/migrated).",
)
@confirmed
@served
@as_json
def migrate(
    tree: Path,
    dry_run: bool,
    folder: Path | None,
    age: timedelta | None,
    yes: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Take all results below a folder, whatever their formats, and say what was taken of each file.

    Each fact keeps the file that it comes from. A second migration changes nothing. Files of which anything was refused, and files
    that nobody recognises, are never copied or removed.
    """
    from ingest.importers import import_paths
    from ingest.importers.ledger import Ledger

    ledger = Ledger(tree)
    events = ledger.follow(import_paths("auto", [tree], watcher=ledger))
    document: dict[str, Any] = {"tree": str(tree), "dry_run": dry_run, "accepted": 0, "duplicate": 0}
    if dry_run:
        with counting("events") as advance:
            for _ in events:
                advance(1)
        document |= {"copy": None, "cleaned": [], "left": []}
        document["would_copy"] = [entry.name for entry in _chosen(ledger, folder, age)]
        document["would_clean"] = [entry.name for entry in _old(_chosen(ledger, folder, age), age)]
    else:
        from assay.cli.connection import connected

        with connected(server, token) as client:
            document |= _sent(client, events, ledger)
            document |= _put_away(client, tree, ledger, folder, age, yes=yes)
    document["files"] = [_told(entry) for entry in ledger.entries]
    if as_json:
        print_json(document)
    else:
        _tell(document, ledger)
    return 1 if any(entry.refused or entry.rejected for entry in ledger.entries) else 0


def _sent(client: Client, events: Any, ledger: Ledger) -> dict[str, Any]:
    """Send the events; what the log has under the same id is the same row of another file, and counts as already there."""
    with counting("events") as advance:
        answer = client.post_events(events, on_batch=advance)
    if answer["last_position"] is not None:
        client.wait_for(answer["last_position"], timeout_s=600)
    existing = 0
    for item in answer["rejected"]:
        if item.get("problem") == ConflictingEvent.type:
            existing += 1
        else:
            ledger.reject(item["index"])
    rejected = [item for item in answer["rejected"] if item.get("problem") != ConflictingEvent.type]
    return {"accepted": answer["accepted"], "duplicate": answer["duplicate"] + existing, "rejected": rejected}


def _chosen(ledger: Ledger, folder: Path | None, age: timedelta | None) -> list[Entry]:
    """Return the files to copy: migrated whole and lying in the tree; without a folder only those that are old enough."""
    whole = [entry for entry in ledger.entries if entry.migrated and entry.path is not None]
    return whole if folder is not None else _old(whole, age)


def _old(entries: list[Entry], age: timedelta | None) -> list[Entry]:
    if age is None:
        return []
    before = time.time() - age.total_seconds()
    return [entry for entry in entries if entry.modified_s < before]


def _put_away(
    client: Client, tree: Path, ledger: Ledger, folder: Path | None, age: timedelta | None, *, yes: bool
) -> dict[str, Any]:
    """Copy and remove what was asked for, and leave in the log what was done."""
    from assay.cli.keep.originals import clean, write_copy
    from assay.home import find_home

    entries = _chosen(ledger, folder, age)
    nothing: dict[str, Any] = {"copy": None, "cleaned": [], "left": []}
    if not entries:
        return nothing
    place = folder or find_home().path / "migrated"
    old = _old(entries, age)
    size = formatting.memory(sum(entry.size_bytes for entry in entries))
    removing = f", and {formatting.count(len(old))} of them are removed" if age is not None else ""
    confirm(f"{formatting.count(len(entries))} migrated files ({size}) are copied into {place}{removing}.", yes=yes)
    copy = write_copy(entries, place, tree.resolve().name or "results")
    removed, left = clean(old, copy) if old else ([], [])
    details = {"files": len(entries), "removed": len(removed), "copy": copy.name}
    client.record_operation("results.migrated", tree.resolve().name, details)
    return {
        "copy": str(copy),
        "copied": [entry.name for entry in entries],
        "cleaned": [entry.name for entry in removed],
        "left": [entry.name for entry in left],
    }


def _told(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.name,
        "sha256": entry.sha256,
        "bytes": entry.size_bytes,
        "format": entry.format,
        "taken": dict(entry.taken),
        "simulated": entry.simulated,
        "refused": [{"row": item.row, "field": item.field, "reason": item.reason} for item in entry.refused],
        "rejected": entry.rejected,
        "migrated": entry.migrated,
        "why_not": entry.why_not,
    }


def _tell(document: dict[str, Any], ledger: Ledger) -> None:
    by_format: dict[str, list[Entry]] = {}
    for entry in ledger.entries:
        by_format.setdefault(entry.format or formatting.MISSING, []).append(entry)
    rows = [
        [
            name,
            formatting.count(len(entries)),
            formatting.count(sum(entry.migrated for entry in entries)),
            formatting.count(sum(entry.facts for entry in entries)),
            formatting.count(sum(entry.simulated for entry in entries)),
            formatting.count(sum(len(entry.refused) + entry.rejected for entry in entries)),
        ]
        for name, entries in sorted(by_format.items())
    ]
    columns: list[str | tuple[str, str]] = [
        "format",
        ("files", "right"),
        ("whole", "right"),
        ("facts", "right"),
        ("simulated", "right"),
        ("refused", "right"),
    ]
    answers().print(grid("Migrated", columns, rows))
    reasons = Counter(entry.why_not for entry in ledger.entries if entry.why_not)
    if reasons:
        example = {entry.why_not: entry.name for entry in reversed(ledger.entries)}
        shown = [[formatting.count(n), str(why), example[why]] for why, n in reasons.most_common(SHOWN)]
        answers().print()
        answers().print(grid("Not whole", [("files", "right"), "why", "for example"], shown))
    if document["dry_run"]:
        say(
            f"nothing was sent (--dry-run); {formatting.count(len(document['would_copy']))} files would be copied, {formatting.count(len(document['would_clean']))} removed"
        )
        return
    say(f"{formatting.count(document['accepted'])} new, {formatting.count(document['duplicate'])} already there")
    if document["copy"]:
        say(
            f"{formatting.count(len(document['copied']))} files are in {document['copy']}; {formatting.count(len(document['cleaned']))} were removed"
        )
    if document["left"]:
        say(f"{formatting.count(len(document['left']))} were left because they changed meanwhile")
