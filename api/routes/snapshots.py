"""Names for states of the log: snapshots to come back to, and baselines that runs of a branch are compared with.

Nothing is copied: the log never changes, so its state at a position stays what it was. A name is an event; taking it away is
another. (`api.background.table_copies` is something else: copies of the tables' file for child processes.)
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter

from api.background.audit import operation, written
from api.container import Container
from api.http.as_of import named
from api.http.paging import DEPENDENCIES, MinPosition, Page, Row, by_offset
from api.routes.operations import ADMIN, actor
from domain.answers.baselines import Baseline
from domain.configuration import Identifier
from domain.errors import NameTaken, NotFound, PartMissing, ProjectionBehind, UnknownSnapshot, UsageError
from domain.events import BASELINE_NAMED, SNAPSHOT_NAMED, encode_event, new_event
from domain.payloads import BaselineNamed, BranchStart, Revision, SnapshotName, SnapshotNamed
from domain.permissions import SERVICE_SOURCE
from ingest.projection import Tables

__all__ = ["NewBaseline", "NewSnapshot", "Snapshot", "router"]

_APPEND = {"scope": "append"}
Name = Annotated[str, PathParameter(min_length=1, max_length=100)]


Position = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Note = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class NewSnapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name for a position of the log; without one, for the newest."""

    name: SnapshotName
    position: Position | None = None
    note: Note | None = None


class NewBaseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs of a branch are compared with: the state at a position, without one the newest."""

    name: SnapshotName
    branch: Revision
    position: Position | None = None
    start: BranchStart | None = None
    hardware: Identifier | None = None
    note: Note | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A name and the position that it stands for; `event_id` and `event_position` are those of the event that says so."""

    name: str
    position: int
    note: str | None
    time: datetime | None
    event_id: str
    event_position: int


@post("/v1/snapshots", opt=_APPEND, status_code=201, summary="Name a position of the log", tags=["operations"])
async def create(request: Request[Any, Any, Any], data: JSONBody[NewSnapshot]) -> Snapshot:
    """Give a name to a position that the log has reached. A name that stands for another position is not moved (409)."""
    parts = _appending(request)
    async with parts.naming:
        position = await _reached(parts, data.position, "position")
        with contextlib.suppress(UnknownSnapshot):
            snapshot = _snapshot(await asyncio.to_thread(named, parts, data.name))
            if data.position != snapshot.position:
                raise NameTaken(
                    f"{data.name!r} stands for position {snapshot.position}.",
                    field="name",
                    remedy="Choose another name, or take this one away first: `assay snapshot delete`.",
                )
            return snapshot
        return await _tell_snapshot(request, SnapshotNamed(name=data.name, position=position, note=data.note))


@delete("/v1/snapshots/{name:str}", opt=ADMIN, status_code=200, summary="Take a name away", tags=["operations"])
async def withdraw(request: Request[Any, Any, Any], name: Name) -> Snapshot:
    """Take the name from its position, whoever gave it; the log and its events stay as they are."""
    parts = _appending(request)
    async with parts.naming:
        await parts.reach(await parts.log.last_position())
        existing = await _known(parts, name)
        return await _tell_snapshot(
            request, SnapshotNamed(name=name, position=existing.position, note=existing.note, withdrawn=True)
        )


@get("/v1/snapshots", summary="Named positions", tags=["tables"])
async def snapshots(request: Request[Any, Any, Any], page: NamedDependency[Page]) -> Response[bytes]:
    """Return the names and the positions that they stand for, by name."""

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        return [_row(row) for row in tables.snapshots(offset=offset, limit=count).to_pylist()]

    return await by_offset(request, page, fetch)


@get("/v1/snapshots/{name:str}", summary="One named position", tags=["operations"])
async def snapshot(request: Request[Any, Any, Any], name: Name, min_position: MinPosition = None) -> Snapshot:
    """Return the position that a name stands for."""
    container: Container = request.app.state.parts
    await container.reach(min_position)
    return await _known(container, name)


@post("/v1/baselines", opt=_APPEND, status_code=201, summary="Name a baseline of a branch", tags=["operations"])
async def set_baseline(request: Request[Any, Any, Any], data: JSONBody[NewBaseline]) -> Baseline:
    """Name a position that the log has reached as the baseline of a branch; a baseline of that name is moved.

    `hardware` is an id, or another name, of hardware that the tables know.
    """
    parts = _appending(request)
    async with parts.naming:
        position = await _reached(parts, data.position, "position")
        if data.start is not None:
            await _reached(parts, data.start.position, "start.position")
            if data.start.branch == data.branch:
                raise UsageError(
                    f"{data.branch!r} cannot start from itself.",
                    field="start.branch",
                    remedy="Name the branch that it was made from.",
                )
        hardware = None if data.hardware is None else await asyncio.to_thread(_hardware, parts, data.hardware)
        event = BaselineNamed(
            name=data.name,
            branch=data.branch,
            position=position,
            start=data.start,
            hardware=hardware,
            note=data.note,
        )
        return await _tell_baseline(request, event)


@delete("/v1/baselines/{name:str}", opt=ADMIN, status_code=200, summary="Take a baseline away", tags=["operations"])
async def withdraw_baseline(request: Request[Any, Any, Any], name: Name) -> Baseline:
    """Take the name of a baseline away; the log and its events stay as they are."""
    parts = _appending(request)
    async with parts.naming:
        await parts.reach(await parts.log.last_position())
        existing = await asyncio.to_thread(_baseline, parts, name)
        members = {
            field: getattr(existing, field) for field in ("name", "branch", "position", "start", "hardware", "note")
        }
        return await _tell_baseline(request, BaselineNamed(**members, withdrawn=True))


@get("/v1/baselines", summary="Named baselines", tags=["tables"])
async def baselines(request: Request[Any, Any, Any], page: NamedDependency[Page]) -> Response[bytes]:
    """Return the named baselines, by name."""

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        return [_baseline_row(row) for row in tables.baselines(offset=offset, limit=count).to_pylist()]

    return await by_offset(request, page, fetch)


@get("/v1/baselines/{name:str}", summary="One named baseline", tags=["operations"])
async def baseline(request: Request[Any, Any, Any], name: Name, min_position: MinPosition = None) -> Baseline:
    """Return the named baseline."""
    container: Container = request.app.state.parts
    await container.reach(min_position)
    return await asyncio.to_thread(_baseline, container, name)


async def _reached(container: Container, wanted: int | None, field: str) -> int:
    """Return the position that is wanted, the newest by default, once the tables have all; UsageError beyond the log."""
    last = await container.log.last_position()
    await container.reach(last)
    if wanted is not None and wanted > last:
        raise UsageError(f"the log ends at position {last}.", field=field, remedy="Name a position that was reached.")
    return last if wanted is None else wanted


def _hardware(container: Container, name: str) -> str:
    """Return the id of hardware; UsageError where the tables have none of that name."""
    with container.tables(None) as tables:
        if tables.knows("hardware", name):
            return str(tables.resolve_hardware(name))
    raise UsageError(
        f"no hardware is called {name!r} here.", field="hardware", remedy="Name hardware of GET /v1/hardware, or none."
    )


def _baseline(container: Container, name: str) -> Baseline:
    with container.tables(None) as tables:
        rows = tables.baselines(name=name).to_pylist()
    if not rows:
        raise NotFound(f"no baseline is called {name!r}.", field="name", remedy="GET /v1/baselines lists the names.")
    return msgspec.convert(_baseline_row(rows[0]), Baseline)


def _baseline_row(row: Row) -> Row:
    """Return a row of the view under the API's names."""
    start = row["start_branch"] and {"branch": row["start_branch"], "position": row["start_position"]}
    names = ("name", "branch", "note", "time", "recorded_at", "source", "event_id")
    rows = {name: row[name] for name in names}
    places = {"position": row["named_position"], "event_position": row["position"]}
    return {**rows, **places, "start": start, "hardware": row["hardware_id"]}


def _appending(request: Request[Any, Any, Any]) -> Container:
    container: Container = request.app.state.parts
    if not container.settings.appends:
        raise PartMissing("this node appends nothing.", field="role", remedy="Ask a node of role all.")
    container.circuit.require()
    return container


async def _known(container: Container, name: str) -> Snapshot:
    try:
        return _snapshot(await asyncio.to_thread(named, container, name))
    except UnknownSnapshot as error:
        raise _missing(name) from error


def _missing(name: str) -> NotFound:
    return NotFound(f"no position is called {name!r}.", field="name", remedy="GET /v1/snapshots lists the names.")


async def _tell_snapshot(request: Request[Any, Any, Any], data: SnapshotNamed) -> Snapshot:
    event_id, time, position = await _tell(request, SNAPSHOT_NAMED, "snapshot", data)
    return Snapshot(
        name=data.name, position=data.position, note=data.note, time=time, event_id=event_id, event_position=position
    )


async def _tell_baseline(request: Request[Any, Any, Any], data: BaselineNamed) -> Baseline:
    event_id, time, position = await _tell(request, BASELINE_NAMED, "baseline", data)
    return Baseline(
        name=data.name,
        branch=data.branch,
        position=data.position,
        start=data.start,
        hardware=data.hardware,
        note=data.note,
        time=time,
        event_id=event_id,
        event_position=position,
    )


async def _tell(
    request: Request[Any, Any, Any], type_: str, noun: str, data: SnapshotNamed | BaselineNamed
) -> tuple[str, datetime, int]:
    """Append the event, and for the audit that it was done; return its id, time and position once the tables know it."""
    container: Container = request.app.state.parts
    event = new_event(type_, data, source=SERVICE_SOURCE, subject=f"{noun}/{data.name}", time=datetime.now(UTC))
    action = f"{noun}.withdrawn" if data.withdrawn else f"{noun}.named"
    done = operation(action, actor(request), data.name, {"position": data.position})
    appended, last = await container.append([written(encode_event(event)), done])
    with contextlib.suppress(ProjectionBehind):
        # It is in the log: whoever sends it again would get the answer that the name is taken.
        await container.reach(last.position)
    return event["id"], datetime.fromisoformat(event["time"]), appended.position


def _snapshot(row: Row) -> Snapshot:
    return msgspec.convert(_row(row), Snapshot)


def _row(row: Row) -> Row:
    """Return a row of the view under the API's names."""
    rows = {name: row[name] for name in ("name", "note", "time", "recorded_at", "source", "event_id")}
    return {**rows, "position": row["named_position"], "event_position": row["position"]}


router = Router(
    "/",
    route_handlers=[
        snapshots,
        snapshot,
        create,
        withdraw,
        baselines,
        baseline,
        set_baseline,
        withdraw_baseline,
    ],
    dependencies=DEPENDENCIES,
)
