"""The log over HTTP: append, read, follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import MediaType, Request, Response, Router, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from api.body import Body, read_body, split
from api.parts import BODIES, Parts
from api.problems import MEDIA_TYPE, problem
from api.tokens import Token
from domain.errors import AssayError, ConflictingEvent, Forbidden, NotFound, TooBusy, UsageError
from domain.events import Decoded, decode_event
from ingest.append import Appended
from ingest.log import Stored

__all__ = ["Receipt", "Refusal", "router"]

INLINE = 16
"""Up to so many events are checked in the event loop; more in a thread, so that others are answered meanwhile."""
SMALL_BYTES = 64 * 1024
NDJSON = "application/x-ndjson"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why one event of a body was not taken; `id` and `type` are null where they could not be read."""

    index: int
    id: str | None
    type: str | None
    detail: str
    field: str | None
    remedy: str | None = None
    problem: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the events of a body. `last_position` is the highest of those accepted or known."""

    accepted: int
    duplicate: int
    rejected: list[Refusal]
    warnings: list[dict[str, Any]]
    last_position: int | None


class _Named(msgspec.Struct):
    id: str | None = None
    type: str | None = None


Checked = Decoded | AssayError


@post("/v1/events", opt={"scope": "append"}, status_code=200, summary="Append events", request_max_body_size=None)
async def append(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Append one event, a list or lines of them. Each is judged by itself; what is good is kept.

    200 where at least one is new or known; 409 or 422 with the same members where none is.
    """
    parts: Parts = request.app.state.parts
    if not parts.settings.appends:
        raise NotFound("this node takes no events.", field="role", remedy="Post to a node of role all or ingest.")
    with _counted(parts, request.headers.get("content-length", "")):
        body = split(await read_body(request), request.headers.get("content-type", ""))
        return await _taken(parts, body, request.state.token)


@contextmanager
def _counted(parts: Parts, announced: str) -> Iterator[None]:
    """Let in only so many large bodies at a time: each may grow to 16 MB. Small ones wait in the coalescer's queue."""
    if announced.isdecimal() and int(announced) <= SMALL_BYTES:
        yield
        return
    if parts.bodies >= BODIES:
        raise TooBusy("too many bodies are being taken.", remedy="Retry after a second.")
    parts.bodies += 1
    try:
        yield
    finally:
        parts.bodies -= 1


async def _taken(parts: Parts, body: Body, token: Token | None) -> Response[bytes]:
    source = token.source if token is not None else None
    if len(body.events) > INLINE:
        checked = await asyncio.to_thread(_check, body.events, source)
    else:
        checked = _check(body.events, source)
    good = [event for event in checked if isinstance(event, Decoded)]
    if body.single and good:
        appended = [await parts.coalescer.append(good[0])]
    else:
        appended = await parts.log.append(good)
    if good:
        parts.appended()
    receipt, errors = _receipt(body.events, checked, appended)
    parts.counted.update(accepted=receipt.accepted, duplicate=receipt.duplicate, rejected=len(receipt.rejected))
    if receipt.accepted + receipt.duplicate:
        return Response(msgspec.json.encode(receipt), media_type=MediaType.JSON)
    return _nothing_taken(receipt, errors, single=body.single)


def _check(events: Sequence[bytes], source: str | None) -> list[Checked]:
    return [_decoded(event, source) for event in events]


def _decoded(raw: bytes, source: str | None) -> Checked:
    try:
        event = decode_event(raw)
    except AssayError as error:
        return error
    if source is not None and event.source != source:
        return Forbidden(
            f"the token appends as {source!r} only.", field="source", remedy="Use the token of this source's runner."
        )
    return event


def _receipt(
    raw: Sequence[bytes], checked: Sequence[Checked], appended: Sequence[Appended]
) -> tuple[Receipt, list[AssayError]]:
    answers = iter(appended)
    refusals: list[Refusal] = []
    errors: list[AssayError] = []
    warnings: list[dict[str, Any]] = []
    counts = {"accepted": 0, "duplicate": 0}
    last: int | None = None
    for index, event in enumerate(checked):
        error: AssayError
        if isinstance(event, Decoded):
            answer = next(answers)
            if answer.status != "conflict":
                counts[answer.status] += 1
                last = max(last or 0, answer.position)
                warnings += [{"index": index, "field": field} for field in event.warnings]
                continue
            error = ConflictingEvent(
                answer.detail or "the log holds another event of this id.",
                field=answer.difference,
                remedy="Give a new fact a new id; to correct an old one, retract it.",
            )
        else:
            error = event
        errors.append(error)
        refusals.append(_refusal(index, raw[index], error))
    return Receipt(**counts, rejected=refusals, warnings=warnings, last_position=last), errors


def _refusal(index: int, raw: bytes, error: AssayError) -> Refusal:
    try:
        named = msgspec.json.decode(raw, type=_Named) if len(raw) < 2**20 else _Named()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        named = _Named()
    return Refusal(
        index=index, id=named.id, type=named.type, detail=error.detail, field=error.field, remedy=error.remedy,
        problem=error.type,
    )  # fmt: skip


def _nothing_taken(receipt: Receipt, errors: Sequence[AssayError], *, single: bool) -> Response[bytes]:
    """The answer where no event is new or known: the status that all share, else 422; one event alone has its own."""
    first = errors[0]
    status = first.status
    if not single:
        shared = {error.status for error in errors}
        status = shared.pop() if len(shared) == 1 and first.status in (403, 409) else 422
    document = problem(first, **msgspec.to_builtins(receipt)) | {"status": status}
    if len(errors) > 1:
        document["detail"] = f"none of {len(errors)} events was taken; the first: {first.detail}"
    return Response(msgspec.json.encode(document), status_code=status, media_type=MEDIA_TYPE)


After = Annotated[int, QueryParameter(ge=0, description="Only events after this position.")]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at the most.")]
Types = Annotated[list[str] | None, QueryParameter(name="type", description="Only events of these types.")]


@get("/v1/events", summary="Read the log by position")
async def read(
    request: Request[Any, Any, Any], after: After = 0, limit: Limit = 100, types: Types = None
) -> Response[bytes]:
    """Return events as they were sent, each with its position and when it was recorded.

    `last_position` is the log's own. Below a position that was seen nothing will ever appear.
    """
    parts: Parts = request.app.state.parts
    if after >= 2**63:
        raise UsageError("not a position.", field="after", remedy="Give one that an answer named.")
    last = await parts.log.last_position()
    found = await parts.log.read(after=after, limit=limit, types=types)
    parts_of = [_stored(event) for event in found]
    if NDJSON in request.headers.get("accept", ""):
        return Response(b"".join(line + b"\n" for line in parts_of), media_type=NDJSON, headers={"Vary": "Accept"})
    content = b'{"events":[' + b",".join(parts_of) + b'],"last_position":' + str(last).encode() + b"}"
    return Response(content, media_type=MediaType.JSON, headers={"Vary": "Accept"})


@get("/v1/events/{event_id:uuid}", summary="Read one event")
async def read_one(request: Request[Any, Any, Any], event_id: FromPath[UUID]) -> Response[bytes]:
    """Return one event of the log, retracted or not."""
    parts: Parts = request.app.state.parts
    found = await parts.log.get([str(event_id)])
    if not found:
        raise NotFound(f"the log has no event {event_id}.", field="id", remedy="GET /v1/events lists them.")
    return Response(_stored(found[0]), media_type=MediaType.JSON)


def _stored(event: Stored) -> bytes:
    head = f'{{"position":{event.position},"recorded_at":"{event.recorded_at.isoformat()}",'.encode()
    return head + event.body.strip().encode().removeprefix(b"{").lstrip()


@get("/v1/events/stream", summary="Follow the log's last position", media_type="text/event-stream")
async def stream(request: Request[Any, Any, Any], after: After = 0) -> ServerSentEvent:
    """Send the last position now and whenever it grows (server-sent events; `id` is the position).

    A client that reconnects with Last-Event-ID hears of what it missed; several new positions may come as the last.
    """
    parts: Parts = request.app.state.parts
    seen = request.headers.get("last-event-id", "")
    start = int(seen) if seen.isdecimal() and len(seen) < 19 else after

    async def told() -> AsyncIterator[ServerSentEventMessage]:
        async for position in parts.positions.after(start):
            if position is None:
                yield ServerSentEventMessage(comment="still here")
            else:
                yield ServerSentEventMessage(data=f'{{"position":{position}}}', event="position", id=position)

    return ServerSentEvent(told(), headers={"Cache-Control": "no-store"})


router = Router("/", route_handlers=[append, read, read_one, stream], tags=["events"])
