"""Named snapshots: a name for the state at a position of the log, to come back to it and to compare with it.

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
from domain.errors import NameTaken, NotFound, PartMissing, ProjectionBehind, UnknownSnapshot, UsageError
from domain.events import SNAPSHOT_NAMED, encode_event, new_event
from domain.payloads import SnapshotName, SnapshotNamed
from domain.permissions import SERVICE_SOURCE
from ingest.projection import Tables

__all__ = ["NewSnapshot", "Snapshot", "router"]

_APPEND = {"scope": "append"}
Name = Annotated[str, PathParameter(min_length=1, max_length=100)]


class NewSnapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name for a position of the log; without one, for the newest."""

    name: SnapshotName
    position: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | None = None
    note: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)] | None = None


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
        last = await parts.log.last_position()
        await parts.reach(last)
        position = last if data.position is None else data.position
        if position > last:
            raise UsageError(
                f"the log ends at position {last}.", field="position", remedy="Name a position that was reached."
            )
        with contextlib.suppress(UnknownSnapshot):
            snapshot = _snapshot(await asyncio.to_thread(named, parts, data.name))
            if data.position != snapshot.position:
                raise NameTaken(
                    f"{data.name!r} stands for position {snapshot.position}.",
                    field="name",
                    remedy="Choose another name, or take this one away first: `assay snapshot delete`.",
                )
            return snapshot
        return await _tell(request, SnapshotNamed(name=data.name, position=position, note=data.note))


@delete("/v1/snapshots/{name:str}", opt=ADMIN, status_code=200, summary="Take a name away", tags=["operations"])
async def withdraw(request: Request[Any, Any, Any], name: Name) -> Snapshot:
    """Take the name from its position, whoever gave it; the log and its events stay as they are."""
    parts = _appending(request)
    async with parts.naming:
        await parts.reach(await parts.log.last_position())
        existing = await _known(parts, name)
        return await _tell(
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


async def _tell(request: Request[Any, Any, Any], data: SnapshotNamed) -> Snapshot:
    """Append the event, and for the audit that it was done; return what it says once the tables know it."""
    container: Container = request.app.state.parts
    event = new_event(
        SNAPSHOT_NAMED, data, source=SERVICE_SOURCE, subject=f"snapshot/{data.name}", time=datetime.now(UTC)
    )
    action = "snapshot.withdrawn" if data.withdrawn else "snapshot.named"
    done = operation(action, actor(request), data.name, {"position": data.position})
    appended, last = await container.append([written(encode_event(event)), done])
    with contextlib.suppress(ProjectionBehind):
        # It is in the log: whoever sends it again would get the answer that the name is taken.
        await container.reach(last.position)
    return Snapshot(
        name=data.name,
        position=data.position,
        note=data.note,
        time=datetime.fromisoformat(event["time"]),
        event_id=event["id"],
        event_position=appended.position,
    )


def _snapshot(row: Row) -> Snapshot:
    return msgspec.convert(_row(row), Snapshot)


def _row(row: Row) -> Row:
    """Return a row of the view under the API's names."""
    rows = {name: row[name] for name in ("name", "note", "time", "recorded_at", "source", "event_id")}
    return {**rows, "position": row["named_position"], "event_position": row["position"]}


router = Router("/", route_handlers=[snapshots, snapshot, create, withdraw], dependencies=DEPENDENCIES)
