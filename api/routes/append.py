"""`POST /v1/events`, from the bytes of a request to those of its answer.

It is called with the bare ASGI request: building Litestar's objects around a request of one event would cost more than
checking and appending it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from urllib.parse import parse_qs

import msgspec
from litestar.types import HTTPScope, Receive

from api.container import Container
from api.http.access import address_of
from api.http.admission import Admission, Checked
from api.http.body import BODY_LIMIT_BYTES, Body, announced_bytes, read_body, split
from api.http.logs import CURRENT, Batch, header
from api.http.problems import MEDIA_TYPE, problem, rendered, unforeseen
from domain import spans
from domain.errors import (
    AssayError,
    ConflictingEvent,
    InvalidEvent,
    NotFound,
    ServiceUnavailable,
    UsageError,
)
from domain.events import Decoded, decode_event
from domain.permissions import Token
from ingest.log.append import Appended, Expected

__all__ = ["Answer", "Receipt", "Refusal", "append_events", "take"]

SLICE = 64
SLICE_BYTES = 256 * 1024
"""Events, and bytes of events, that are checked before others get their turn: some two milliseconds."""
JSON = "application/json"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why one event of a body was not taken; `id` and `type` are null where they could not be read."""

    index: int
    id: str | None
    type: str | None
    detail: str
    field: str | None
    remedy: str | None = None
    problem: str


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """A member of an event that its type does not know; it is kept."""

    index: int
    field: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the events of a body. `last_position` is the highest of those accepted or known."""

    accepted: int
    duplicate: int
    rejected: list[Refusal]
    warnings: list[Warned]
    last_position: int | None


class Answer(msgspec.Struct, frozen=True):
    """A response: status, headers as ASGI takes them (the media type among them) and body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    content: bytes


class _Named(msgspec.Struct):
    id: str | None = None
    type: str | None = None


_TAKEN = ((b"content-type", JSON.encode()),)
_encode = msgspec.json.Encoder().encode


async def append_events(
    scope: HTTPScope, headers: Mapping[bytes, bytes], receive: Receive, container: Container
) -> Answer:
    """Append the events of a request and return its answer; never raises but for cancellation."""
    try:
        return await _answered(scope, headers, receive, container)
    except AssayError as error:
        if isinstance(error, ServiceUnavailable):
            container.circuit.trip(error.detail)
        document = problem(error)
    except Exception as error:
        document = unforeseen(error, "POST", scope["path"])
    return _refused(document)


def _refused(document: dict[str, Any]) -> Answer:
    status, headers, content = rendered(document)
    named = {**headers, "Content-Type": MEDIA_TYPE}
    return Answer(status, [(name.lower().encode(), value.encode()) for name, value in named.items()], content)


async def _answered(scope: HTTPScope, headers: Mapping[bytes, bytes], receive: Receive, container: Container) -> Answer:
    token = await container.access.check(headers, "append", writes=True)
    request = CURRENT.get()
    if request is not None:
        request.token = token
    address = address_of(scope.get("client"))
    left = container.access.admit(token, address)
    if request is not None:
        request.extra += left
    if not container.settings.appends:
        raise NotFound("this node takes no events.", field="role", remedy="Post to a node of role all or ingest.")
    container.circuit.require()
    expected = _expected(scope["query_string"]) if scope["query_string"] else None
    with container.room.hold(min(announced_bytes(headers), BODY_LIMIT_BYTES)) as held:
        raw = await read_body(receive, headers, held, container.settings.body_deadline_s)
        body = split(raw, header(headers, b"content-type"))
        container.access.admit_events(token, address, len(body.events))
        return await _taken(container, body, token, expected)


def _expected(query: bytes) -> Expected | None:
    """Read `subject` and `expected_version`, which come together or not at all."""
    request = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
    subject, version = request.get("subject"), request.get("expected_version")
    if subject is None and version is None:
        return None
    if not subject or len(subject) > 500:
        raise UsageError("the subject is missing.", field="subject", remedy="Name it beside expected_version.")
    if version is None or not version.isdecimal() or not version.isascii() or int(version) >= 2**63:
        raise UsageError(
            "a version is a position of the log.",
            field="expected_version",
            remedy="Give the position of the subject's newest event that you know, or 0 for none.",
        )
    return Expected(subject=subject, version=int(version))


async def _taken(container: Container, body: Body, token: Token | None, expected: Expected | None) -> Answer:
    receipt, errors = await take(container, body.events, token, expected)
    if receipt.accepted + receipt.duplicate:
        return Answer(200, _TAKEN, _encode(receipt))
    return _nothing_taken(receipt, errors, single=body.single)


async def take(
    container: Container,
    events: Sequence[bytes],
    token: Token | None,
    expected: Expected | None = None,
) -> tuple[Receipt, list[AssayError]]:
    """Check events and append those that may be; return what became of each, and the errors of the others."""
    admission = Admission(container, token)
    if len(events) == 1:
        decoded = [_decoded(events[0], admission, expected)]
    else:
        async with container.room.turn if len(events) > SLICE else nullcontext():
            decoded = await _checked(events, admission, expected)
    checked = await admission.settle(decoded)
    good = [event for event in checked if isinstance(event, Decoded)]
    if expected is not None and len(good) < len(checked):
        # A decision is appended whole or not at all.
        good, checked = [], [_unless_whole(event) for event in checked]
    appended: Sequence[Appended] = ()
    with spans.span("append", assay_events=len(good)) as span:
        if len(events) == 1 and good and expected is None:
            appended = (await container.coalescer.append(good[0]),)
        elif good:
            appended = await container.append(good, expected)
        span.set(assay_position_last=appended[-1].position if appended else None)
    receipt, errors = _receipt(events, checked, appended)
    _count(container, receipt, appended)
    return receipt, errors


def _unless_whole(event: Checked) -> Checked:
    if isinstance(event, AssayError):
        return event
    return InvalidEvent(
        "another event of the body was refused, and with expected_version all are taken or none.",
        remedy="Mend the other, and send the body again.",
    )


async def _checked(events: Sequence[bytes], admission: Admission, expected: Expected | None) -> list[Checked]:
    checked: list[Checked] = []
    pending = size = 0
    for event in events:
        if pending == SLICE or size > SLICE_BYTES:
            await asyncio.sleep(0)
            pending = size = 0
        checked.append(_decoded(event, admission, expected))
        pending += 1
        size += len(event)
    return checked


def _decoded(raw: bytes, admission: Admission, expected: Expected | None) -> Checked:
    try:
        event = decode_event(raw)
    except AssayError as error:
        return error
    if expected is not None and event.subject != expected.subject:
        return InvalidEvent(
            "not the subject whose version is expected.",
            field="subject",
            remedy="Send the events of one subject, and name it in `subject` too.",
        )
    return admission.check(event)


def _receipt(
    raw: Sequence[bytes], checked: Sequence[Checked], appended: Sequence[Appended]
) -> tuple[Receipt, list[AssayError]]:
    answers = iter(appended)
    refusals: list[Refusal] = []
    errors: list[AssayError] = []
    warnings: list[Warned] = []
    accepted = duplicate = last = 0
    for index, event in enumerate(checked):
        error: AssayError
        if isinstance(event, Decoded):
            answer = next(answers)
            if answer.status != "conflict":
                if answer.status == "accepted":
                    accepted += 1
                else:
                    duplicate += 1
                last = max(last, answer.position)
                if event.warnings:
                    warnings += [Warned(index=index, field=field) for field in event.warnings]
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
    receipt = Receipt(
        accepted=accepted, duplicate=duplicate, rejected=refusals, warnings=warnings, last_position=last or None
    )
    return receipt, errors


def _refusal(index: int, raw: bytes, error: AssayError) -> Refusal:
    try:
        named = msgspec.json.decode(raw, type=_Named) if len(raw) < 2**20 else _Named()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        named = _Named()
    return Refusal(
        index=index,
        id=named.id,
        type=named.type,
        detail=error.detail,
        field=error.field,
        remedy=error.remedy,
        problem=error.type,
    )


def _count(container: Container, receipt: Receipt, appended: Sequence[Appended]) -> None:
    rejected = len(receipt.rejected)
    container.metrics.events(receipt.accepted, receipt.duplicate, rejected)
    request = CURRENT.get()
    if request is not None:
        positions = [item.position for item in appended if item.status != "conflict"]
        request.batch = Batch(
            min(positions) if positions else None,
            receipt.last_position,
            receipt.accepted,
            receipt.duplicate,
            rejected,
        )


def _nothing_taken(receipt: Receipt, errors: Sequence[AssayError], *, single: bool) -> Answer:
    """The answer where no event is new or known: the status that all share, else 422; one event alone has its own."""
    first = errors[0]
    status = first.status
    if not single:
        shared = {error.status for error in errors}
        status = shared.pop() if len(shared) == 1 and first.status in (403, 409) else 422
    document: dict[str, Any] = problem(first, **msgspec.to_builtins(receipt)) | {"status": status}
    if len(errors) > 1:
        document["detail"] = f"none of {len(errors)} events was taken; the first: {first.detail}"
    return _refused(document)
