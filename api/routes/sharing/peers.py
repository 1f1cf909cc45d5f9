"""Peers over HTTP: added and removed by an operator, and the pages that `assay peer pull` brings of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, delete, get, post
from litestar.params import JSONBody, PathParameter

from api.background.audit import Detail, operation
from api.container import Container
from api.http.access import address_of
from api.http.admission import Admission
from api.http.body import BODY_LIMIT_BYTES
from api.routes.operations import ADMIN, actor
from api.routes.sharing.bundles import appending
from domain.errors import AssayError, Forbidden
from domain.events import Decoded
from domain.permissions import Token
from domain.sharing.peers import NewPeer, PageReceipt, Peer, PeerList, PeerProblem, RefusedEvent, RemovedPeer
from ingest.sharing.peers import PageEvents, PeerStore, check_page, keep_arrivals, read_page, stored_peer

__all__ = ["router"]

_APPEND = {"scope": "append"}
Name = Annotated[str, PathParameter(min_length=1, max_length=100)]


@post("/v1/peers", opt=ADMIN, status_code=201, summary="Add a peer")
async def add(request: Request[Any, Any, Any], data: JSONBody[NewPeer]) -> Peer:
    """Add a peer, to be read from its first position on. Nothing is read before the first pull."""
    container = appending(request)
    peer = await asyncio.to_thread(_store(container).add, data)
    details: dict[str, Detail] = {
        "url": peer.url,
        "sources": peer.sources,
        "types": peer.types,
        "relayed": peer.relayed,
    }
    await container.append([operation("peer.added", actor(request), peer.name, details)])
    return peer


@get("/v1/peers", summary="All peers")
async def listed(request: Request[Any, Any, Any]) -> Response[PeerList]:
    """Return the peers, how far each is read, what was refused, and why the last pull ended early."""
    container: Container = request.app.state.parts
    container.circuit.require()
    peers = await asyncio.to_thread(_store(container).listed)
    return Response(PeerList(items=peers), headers={"Cache-Control": "no-store"})


@get("/v1/peers/{name:str}", summary="One peer")
async def one(request: Request[Any, Any, Any], name: Name) -> Response[Peer]:
    """Return one peer."""
    container: Container = request.app.state.parts
    container.circuit.require()
    return Response(await asyncio.to_thread(_store(container).get, name), headers={"Cache-Control": "no-store"})


@delete("/v1/peers/{name:str}", opt=ADMIN, status_code=200, summary="Remove a peer")
async def remove(request: Request[Any, Any, Any], name: Name) -> RemovedPeer:
    """Remove a peer; what it brought stays in the log, with the peer's name."""
    container = appending(request)
    removed = await asyncio.to_thread(_store(container).remove, name)
    await container.append([operation("peer.removed", actor(request), name, {"events": removed.events})])
    return removed


@post(
    "/v1/peers/{name:str}/pages",
    opt={**_APPEND, "lines": True},
    status_code=200,
    summary="Take a page of a peer's log",
    request_max_body_size=BODY_LIMIT_BYTES,
)
async def take_page(request: Request[Any, Any, Any], name: Name) -> PageReceipt:
    """Append a page of a peer's log and move the position up to which it is read, in one transaction.

    The body is lines: what the page covers, then the events as `GET /v1/events?exact=true` gives them. A page that cannot
    come from an honest peer is refused whole (`peer-refused`). An event that its source may not append, by the rules for
    tokens, is left out alone and counted.
    """
    container = appending(request)
    token: Token | None = request.state.token
    if token is not None and token.source is not None:
        raise Forbidden(
            f"the token appends as {token.source!r} only, and a peer's events have sources of their own.",
            field="Authorization",
            remedy="Use a token that is bound to no source.",
        )
    with container.room.hold(0) as held:
        content = await request.body()
        held.reach(len(content))
        peer, own_log = await stored_peer(container.log, name)
        page, lines = await asyncio.to_thread(read_page, content)
        container.access.admit_events(token, address_of(request.scope.get("client")), len(lines))
        checked = await asyncio.to_thread(check_page, peer, page, own_log, lines)
        admitted = await _admitted(container, checked)
        events = [event for _, event in admitted.events]
        positions = [position for position, _ in admitted.events]
        async with container.transaction() as transaction:
            appended = await transaction.append(events)
            await keep_arrivals(transaction, peer, page, list(zip(positions, appended, strict=True)), admitted.refused)
    accepted = sum(answer.status == "accepted" for answer in appended)
    if accepted:
        container.arrivals.noticed()
    container.metrics.events(accepted, len(appended) - accepted, len(admitted.refused))
    return PageReceipt(
        accepted=accepted,
        duplicate=len(appended) - accepted,
        expired=checked.expired,
        refused=admitted.refused,
        position=page.upto,
        last_position=max((answer.position for answer in appended), default=None),
    )


@post("/v1/peers/{name:str}/problems", opt=_APPEND, status_code=200, summary="Say why a pull ended early")
async def report(request: Request[Any, Any, Any], name: Name, data: JSONBody[PeerProblem]) -> Peer:
    """Keep why a pull ended early: `assay peer list`, `assay doctor` and the dashboard show it until one succeeds."""
    return await asyncio.to_thread(_store(appending(request)).report, name, data.detail)


async def _admitted(container: Container, page: PageEvents) -> PageEvents:
    """Return the page with the events that their source may not append among the refused."""
    admission = Admission(container, _PEER)
    checked = await admission.settle([admission.check(event) for _, event in page.events])
    events: list[tuple[int, Decoded]] = []
    refused = list(page.refused)
    for (position, _), result in zip(page.events, checked, strict=True):
        if isinstance(result, AssayError):
            refused.append(RefusedEvent(position=position, field=result.field, detail=result.detail))
        else:
            events.append((position, result))
    return PageEvents(events, refused, page.expired)


def _store(container: Container) -> PeerStore:
    return PeerStore(container.database.url)


_PEER = Token(
    id="",
    prefix="",
    name="peer",
    source=None,
    scopes=["append", "jobs"],
    expires_at=None,
    revoked_at=None,
    created_at=datetime.fromtimestamp(0, UTC),
)
"""What a peer may do here: as much as a token of any source that is not an admin's."""

router = Router("/", route_handlers=[add, listed, one, remove, take_page, report], tags=["operations"])
