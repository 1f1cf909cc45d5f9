"""The log over HTTP: read and follow. Appending is in api.routes.append."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from litestar import MediaType, Request, Response, Router, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from api.container import Container
from api.http.access import OPEN
from api.http.media import NDJSON
from api.reads.samples import samples
from api.routes.append import append_events
from domain.errors import Expired, NotFound, UsageError
from domain.sharing.peers import ExactEvent, Whence
from ingest.log.event_log import Stored

__all__ = ["router"]

PAGE_BYTES = 16 * 2**20
"""A page ends before its `limit` where its bodies reach this size."""
EXACT_PAGE_BYTES = 4 * 2**20
"""The same of a page for a peer, who holds few bytes at a time."""
FIRST_ROWS = 64
_PLAIN = r"^[^\x00-\x1f]+$(?!\n)"

After = Annotated[int, QueryParameter(ge=0, le=2**63 - 1, description="Only events after this position.")]
Upto = Annotated[
    int | None, QueryParameter(ge=0, le=2**63 - 1, description="Only events up to and with this position.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at the most.")]
Types = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=_PLAIN)]] | None,
    QueryParameter(name="type", description="Only events of these types."),
]
Word = Annotated[str | None, QueryParameter(min_length=1, max_length=500, pattern=_PLAIN)]
Sources = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=_PLAIN)]] | None,
    QueryParameter(description="Only events of these sources; one that ends with * is a beginning."),
]
Relayed = Annotated[bool | None, QueryParameter(description="false leaves out what came from peers of this service.")]
Exact = Annotated[bool | None, QueryParameter(description="Lines of position, digest and text, as peers read them.")]
Moment = Annotated[
    str | None,
    QueryParameter(
        pattern=r"^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+ -]\d\d:\d\d)$(?!\n)",
        max_length=40,
        description="RFC 3339, on when the event was recorded: from `since`, before `until`.",
    ),
]


@post("/v1/events", opt={"scope": OPEN}, status_code=200, summary="Append events", request_max_body_size=None)
async def append(
    request: Request[Any, Any, Any],
    subject: Word = None,  # noqa: ARG001 - for the document; api.routes.append reads both
    expected_version: Annotated[int | None, QueryParameter(ge=0, le=2**63 - 1)] = None,  # noqa: ARG001
) -> Response[bytes]:
    """Append one event, a list or lines of them. Each is judged by itself; what is good is kept.

    200 where at least one is new or known; 409 or 422 with the same members where none is. With `subject` and
    `expected_version` the events are one decision: all are appended, or none where the subject has moved on (409).
    """
    # api.app answers this route before Litestar sees it; here come only other spellings of its path.
    sent = dict(request.scope["headers"])
    answer = await append_events(request.scope, sent, request.receive, request.app.state.parts)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.content, status_code=answer.status, headers=headers)


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the log; None does not filter."""

    types: list[str] | None = None
    subject: str | None = None
    source: str | None = None
    sources: list[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    upto: int | None = None
    relayed: bool | None = None
    exact: bool | None = None

    def query(self, after: int, limit: int) -> str:
        """Return the query of the page after a position."""
        named = {**msgspec.to_builtins(self), "type": self.types, "after": after, "limit": limit}
        del named["types"]
        written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in named.items()}
        return urlencode({name: value for name, value in written.items() if value is not None}, doseq=True)


@get("/v1/events", summary="Read the log by position")
async def read(
    request: Request[Any, Any, Any],
    after: After = 0,
    limit: Limit = 100,
    types: Types = None,
    subject: Word = None,
    source: Word = None,
    since: Moment = None,
    until: Moment = None,
    upto: Upto = None,
    sources: Sources = None,
    relayed: Relayed = None,
    exact: Exact = None,
) -> Response[bytes]:
    """Return events as they were sent, each with its position, when it was recorded and how its sender was known.

    `last_position` is the log's own; below a position that was seen nothing will ever appear. `next` is where the next
    page is, null after the last. `exact` is for peers: lines of position, digest and text, and headers that name the log.
    """
    container: Container = request.app.state.parts
    container.circuit.require()
    begin, end = _moment("since", since), _moment("until", until)
    wanted = Filters(
        types=types,
        subject=subject,
        source=source,
        sources=sources,
        since=begin,
        until=end,
        upto=upto,
        relayed=relayed,
        exact=exact,
    )
    last, epoch, log = await container.log.identity() if exact else (await container.log.last_position(), 0, "")
    result, more = await _page(container, after, limit, wanted)
    following = f"/v1/events?{wanted.query(result[-1].position, limit)}" if more else None
    headers = {"Vary": "Accept", "Assay-Last-Position": str(last)}
    if following is not None:
        headers["Link"] = f'<{following}>; rel="next"'
    if exact:
        headers |= {"Assay-Log": log, "Assay-Epoch": str(epoch)}
        content = b"".join(_exact(event) for event in result)
        return Response(content, media_type=NDJSON, headers=headers)
    whence = await container.log.whence([event.position for event in result])
    lines = [_stored(event, whence.get(event.position)) for event in result]
    if NDJSON in request.headers.get("accept", ""):
        return Response(b"".join(line + b"\n" for line in lines), media_type=NDJSON, headers=headers)
    beside = msgspec.json.encode({"last_position": last, "next": following})
    content = b'{"events":[' + b",".join(lines) + b"]," + beside[1:]
    return Response(content, media_type=MediaType.JSON, headers=headers)


def _moment(name: str, text: str | None) -> datetime | None:
    try:
        # A plus sign that was not escaped arrives as a space.
        return datetime.fromisoformat(text.upper().replace(" ", "+")) if text else None
    except ValueError as error:
        raise UsageError(f"not a time: {error}.", field=name, remedy="Write 2026-01-31T00:00:00Z.") from error


async def _page(container: Container, after: int, limit: int, wanted: Filters) -> tuple[list[Stored], bool]:
    """Return one page and whether there is more; a few rows first, to know how large they are."""
    page: list[Stored] = []
    most = EXACT_PAGE_BYTES if wanted.exact else PAGE_BYTES
    size, count = 0, min(FIRST_ROWS, limit)
    while True:
        request = min(count, limit - len(page))
        rows = await container.log.read(
            after,
            request,
            wanted.types,
            wanted.upto,
            subject=wanted.subject,
            source=wanted.source,
            sources=wanted.sources,
            relayed=wanted.relayed is not False,
            since=wanted.since,
            until=wanted.until,
        )
        page += rows
        size += sum(len(row.body or "") for row in rows)
        if len(rows) < request:
            return page, False
        if len(page) >= limit or size >= most:
            return page, True
        after = page[-1].position
        count = max(1, (most - size) // max(1, size // len(page)))


@get("/v1/events/{event_id:uuid}", summary="Read one event")
async def read_one(request: Request[Any, Any, Any], event_id: FromPath[UUID]) -> Response[bytes]:
    """Return one event of the log, retracted or not; 410 where it held raw samples that have expired."""
    container: Container = request.app.state.parts
    container.circuit.require()
    result = await container.log.get([str(event_id)])
    if not result:
        raise NotFound(f"the log has no event {event_id}.", field="id", remedy="GET /v1/events lists them.")
    if result[0].body is None:
        raise Expired(
            f"the raw samples of event {event_id} at position {result[0].position} have expired.",
            field="id",
            remedy="The measurement that they belong to keeps its figures; measure again for new samples.",
        )
    whence = await container.log.whence([result[0].position])
    return Response(_stored(result[0], whence.get(result[0].position)), media_type=MediaType.JSON)


def _exact(event: Stored) -> bytes:
    """Return the line of an event for a peer: its position, digest and text."""
    line = ExactEvent(position=event.position, digest=event.digest.hex(), body=event.body)
    return msgspec.json.encode(line) + b"\n"


def _stored(event: Stored, whence: Whence | None) -> bytes:
    """Return the envelope with position, time of recording and attestation; of expired samples what is known of them."""
    tail: dict[str, Any] = {} if whence is None else {"whence": whence}
    head = {"position": event.position, "recorded_at": event.recorded_at}
    if event.body is None:
        existing = {
            "specversion": "1.0",
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "subject": event.subject,
            "time": event.time,
        }
        envelope = {name: value for name, value in existing.items() if value is not None}
        return msgspec.json.encode({**head, **envelope, "expired": True, **tail, "attestation": event.attestation})
    # The attestation comes last: of two members of a name most parsers take the second, and a sender may have used it.
    body = event.body.strip().encode().removeprefix(b"{").removesuffix(b"}").strip()
    own = msgspec.json.encode({**tail, "attestation": event.attestation})[1:]
    return b"%s,%s,%s" % (msgspec.json.encode(head)[:-1], body, own)


@get("/v1/events/stream", summary="Follow the log's last position", media_type="text/event-stream")
async def stream(request: Request[Any, Any, Any], after: After = 0) -> ServerSentEvent:
    """Send the last position now and whenever it grows (server-sent events; `id` is the position).

    A client that reconnects with Last-Event-ID hears of what it missed; several new positions may come as the last. The
    event `diverged` says that the log lost events that were sent before (a failover, a restored backup): read again.
    """
    container: Container = request.app.state.parts
    seen = request.headers.get("last-event-id", "")
    start = int(seen) if seen.isdecimal() and seen.isascii() and len(seen) < 19 else after

    async def stream() -> AsyncIterator[ServerSentEventMessage]:
        async for head in container.positions.after(start):
            if head is None:
                yield ServerSentEventMessage(comment="still here")
            elif head.diverged:
                data = f'{{"position":{head.position},"epoch":{head.epoch}}}'
                yield ServerSentEventMessage(data=data, event="diverged", id=head.position)
            else:
                yield ServerSentEventMessage(data=f'{{"position":{head.position}}}', event="position", id=head.position)

    return ServerSentEvent(stream(), headers={"Cache-Control": "no-store"})


router = Router("/", route_handlers=[append, read, read_one, stream, samples], tags=["events"])
