"""Files of other tools through the service: what they hold and what of it cannot be taken, and on wish into the log.

The readers are those of `assay import`. Large files are for that command: it reads them where they lie, row by row.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Request, Router, post
from litestar.params import JSONBody, QueryParameter

from api.container import Container
from api.http.access import address_of
from api.http.body import BODY_LIMIT_BYTES, EVENTS_LIMIT
from api.routes.append import Receipt, take
from domain.errors import ConflictingEvent, NotFound, PayloadTooLarge
from domain.permissions import Token
from ingest import evidence
from ingest.importers import Refused, Summary, import_paths
from ingest.importers.files import Limits

__all__ = ["router"]

MOST_EVENTS = 50_000
MOST_REASONS = 50
"""Reasons for refusals that an answer lists, those of most rows."""
_UNPACKED = Limits(member_bytes=1 << 28, archive_bytes=1 << 30, members=1000)
_APPEND = {"scope": "append"}
_FOR_LARGE = "`assay import auto PATH` reads files of any size."
DryRun = Annotated[bool, QueryParameter(description="Say what would be added, and add nothing.")]


class SentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: its name without a folder, and its bytes as base64."""

    name: Annotated[
        str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^/\\\x00-\x1f]*[^/\\\x00-\x1f.][^/\\\x00-\x1f]*$")
    ]
    content: bytes


class Import(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files that are read together, by an importer's name or by the one that recognises each (`auto`)."""

    files: Annotated[list[SentFile], msgspec.Meta(min_length=1, max_length=100)]
    format: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "auto"


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sources of the published measurements are meant, by name; all without."""

    sources: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)] | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why rows were refused, how many, and the first of them: its file and its row there."""

    reason: str
    rows: int
    path: str
    row: int | None = None
    field: str | None = None


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What files hold, by type of event, and what of it is refused; `accepted` and `duplicate` are None for a dry run.

    `models` and `hardware` are the names that rows are of, those of most rows first; `verdicts` count rows.
    """

    dry_run: bool
    events: dict[str, int]
    models: list[str]
    hardware: list[str]
    verdicts: dict[str, int]
    refused: list[Refusal]
    rows_refused: int
    accepted: int | None = None
    duplicate: int | None = None
    last_position: int | None = None


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the published measurements are new to the log, and how many it had."""

    accepted: int
    duplicate: int
    last_position: int | None


class _Read(NamedTuple):
    events: list[bytes]
    summary: Summary


@post("/v1/imports", opt=_APPEND, status_code=200, summary="Import files", request_max_body_size=BODY_LIMIT_BYTES)
async def import_files(request: Request[Any, Any, Any], data: JSONBody[Import], dry_run: DryRun = True) -> Imported:
    """Read files of other tools, say what they hold and what is refused with reasons; without `dry_run` add the rest to the log.

    Rows that the log has already change nothing. 16 MB of body and 50,000 events at most.
    """
    read = await asyncio.to_thread(_read, data)
    if dry_run:
        return _imported(read.summary)
    total = await _appended(request, _batches(read.events))
    for item in total.rejected:
        if item.problem != ConflictingEvent.type:
            read.summary.refuse(
                Refused(path=item.type or "event", reason=f"the service: {item.detail}", field=item.field)
            )
    conflicts = sum(item.problem == ConflictingEvent.type for item in total.rejected)
    return msgspec.structs.replace(
        _imported(read.summary),
        dry_run=False,
        accepted=total.accepted,
        # An imported id is what the row says: the log has this row, out of another file.
        duplicate=total.duplicate + conflicts,
        last_position=total.last_position,
    )


@post("/v1/shipped-data", opt=_APPEND, status_code=200, summary="Add the published measurements that ship")
async def add_shipped_data(request: Request[Any, Any, Any], data: JSONBody[Published]) -> Added:
    """Add published measurements that ship with Assay to the log; what is there already is left alone."""
    known = [source.name for source in evidence.sources()]
    for name in data.sources or ():
        if name not in known:
            raise NotFound(
                f"no source is called {name[:80]!r}.", field="sources", remedy=f"They are {', '.join(known)}."
            )
    total = await _appended(request, evidence.events(data.sources))
    return Added(accepted=total.accepted, duplicate=total.duplicate, last_position=total.last_position)


def _read(wanted: Import) -> _Read:
    summary, events = Summary(), []
    with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
        paths = []
        for number, file in enumerate(wanted.files):
            path = Path(folder, file.name)
            if path.exists():
                path = Path(folder, f"{number} {file.name}")
            path.write_bytes(file.content)
            paths.append(path)
        for item in summary.watch(import_paths(wanted.format, paths, limits=_UNPACKED)):
            if isinstance(item, dict):
                events.append(msgspec.json.encode(item))
            if len(events) > MOST_EVENTS:
                raise PayloadTooLarge(f"over {MOST_EVENTS:,} events in these files.", field="files", remedy=_FOR_LARGE)
    return _Read(events, summary)


def _batches(events: Sequence[bytes]) -> Iterator[list[bytes]]:
    return (list(events[at : at + EVENTS_LIMIT]) for at in range(0, len(events), EVENTS_LIMIT))


async def _appended(request: Request[Any, Any, Any], batches: Iterator[list[bytes]]) -> Receipt:
    """Append events as `POST /v1/events` does, batch by batch, and return what became of them all."""
    container: Container = request.app.state.parts
    token: Token | None = request.state.token
    if not container.settings.appends:
        raise NotFound("this node takes no events.", field="role", remedy="Post to a node of role all or ingest.")
    container.circuit.require()
    total = Receipt(accepted=0, duplicate=0, rejected=[], warnings=[], last_position=None)
    for batch in batches:
        container.access.admit_events(token, address_of(request.scope.get("client")), len(batch))
        receipt, _ = await take(container, batch, token)
        total = Receipt(
            accepted=total.accepted + receipt.accepted,
            duplicate=total.duplicate + receipt.duplicate,
            rejected=[*total.rejected, *receipt.rejected],
            warnings=[],
            last_position=max(total.last_position or 0, receipt.last_position or 0) or None,
        )
    return total


def _imported(summary: Summary) -> Imported:
    return Imported(
        dry_run=True,
        events=dict(summary.taken),
        models=[name for name, _ in summary.names["model"].most_common(MOST_REASONS)],
        hardware=[name for name, _ in summary.names["hardware"].most_common(MOST_REASONS)],
        verdicts=dict(summary.verdicts),
        refused=[_refusal(summary, reason, rows) for reason, rows in summary.refused.most_common(MOST_REASONS)],
        rows_refused=sum(summary.refused.values()),
    )


def _refusal(summary: Summary, reason: str, rows: int) -> Refusal:
    first = summary.examples[reason]
    # The first of a reason has its figures; the reason itself stands for rows that differ in them.
    return Refusal(reason=first.reason, rows=rows, path=first.path, row=first.row, field=first.field)


router = Router("/", route_handlers=[import_files, add_shipped_data], tags=["events"])
