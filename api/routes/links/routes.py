"""Links over HTTP: made and revoked by an operator, opened by a device, and the results that its page sends."""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.background.audit import operation, written
from api.container import Container
from api.http.access import OPEN, address_of
from api.http.paging import DEPENDENCIES, At, rows_response
from api.http.problems import RateLimited
from api.routes.links.devices import ACCEPTED_DEVICE, REJECTED_DEVICE, acceptance_of, accepting, devices_at, rejecting
from api.routes.links.results import (
    Acceptance,
    Pool,
    accepted_copies,
    failure_events,
    page_events,
    require_outputs,
    require_times,
)
from api.routes.links.store import DRAWN, FILE_LIMIT_BYTES, ClaimRecord, LinkFiles, LinkStore, device_of
from api.routes.operations import ADMIN, actor
from api.routes.sharing.bundles import append, appending, row_doubts
from domain.answers.links import (
    Claim,
    FailureAnswer,
    Link,
    LinkAnswer,
    LinkFile,
    Links,
    MadeLink,
    NewLink,
    PageFailure,
    PageResult,
    Task,
)
from domain.answers.sharing import Changed
from domain.catalogues.hardware import require
from domain.errors import InvalidInput, ResultRefused
from domain.events import Decoded, encode_event
from domain.measured import Verdict
from domain.payloads import MeasurementFailed, MeasurementRecorded
from domain.verdicts import combine

__all__ = ["RESULT_LIMIT_BYTES", "files_of", "router"]

RESULT_LIMIT_BYTES = 8 * 1024**2
"""Of what a page sends of one model."""
_OPEN = {"scope": OPEN, "json": True}
_PRIVATE = {"Cache-Control": "no-store"}
_IMPOSSIBLE = frozenset({"impossible-speed", "beyond-roofline"})
"""Rules that refuse a result; what other rules doubt is suspect."""
Digest = Annotated[str, PathParameter(pattern=r"^sha256:[0-9a-f]{64}$")]
Name = Annotated[str, PathParameter(min_length=1, max_length=200)]
Reason = Annotated[str, QueryParameter(min_length=1, max_length=2000, description="Why; it stays in the log.")]
OnHardware = Annotated[
    str | None,
    QueryParameter(max_length=200, description="Which hardware it is; else as the person at the page stated."),
]
Private = Annotated[bool, QueryParameter(description="Inputs with reference outputs: no page gets this file.")]


@put(
    "/v1/links/files/{digest:str}", opt={**ADMIN, "raw": True}, status_code=200, request_max_body_size=FILE_LIMIT_BYTES
)
async def upload(request: Request[Any, Any, Any], digest: Digest, private: Private = False) -> LinkFile:
    """Keep a file under its digest: of the runtime, a model, or with `private` a pool of inputs and reference outputs."""
    container = appending(request)
    files = files_of(container)
    path = files.path(digest, private=private)
    size = path.stat().st_size if path.exists() else await files.write(digest, request.stream(), private=private)
    return LinkFile(name=digest.removeprefix("sha256:")[:12], digest=digest, size=size)


@get("/v1/links/files/{digest:str}", opt=ADMIN)
async def uploaded(request: Request[Any, Any, Any], digest: Digest, private: Private = False) -> dict[str, bool]:
    """Say whether a file is there, so that it need not be sent again."""
    container: Container = request.app.state.parts
    return {"exists": files_of(container).path(digest, private=private).exists()}


@post("/v1/links", opt=ADMIN, status_code=201, summary="Make a link to measure in a browser")
async def create(request: Request[Any, Any, Any], data: JSONBody[NewLink]) -> Response[MadeLink]:
    """Make a link and return its path, this once; every file that it names must have been sent before."""
    container = appending(request)
    files = files_of(container)
    for at, file in enumerate(data.runtime):
        _require_file(files, file.digest, f"runtime[{at}].digest")
    for at, model in enumerate(data.models):
        _require_file(files, model.file.digest, f"models[{at}].file.digest")
        _require_file(files, model.pool, f"models[{at}].pool", private=True)
        await asyncio.to_thread(_require_pool, Pool(files.path(model.pool, private=True)), f"models[{at}].pool")
    secret, link = await asyncio.to_thread(_store(container).create, data, actor(request))
    await append(
        container, [operation("link.created", actor(request), link.id, {"models": link.models, "uses": link.uses})]
    )
    return Response(MadeLink(path=f"/browser/#{secret}", link=link), headers=_PRIVATE)


@get("/v1/links", opt=ADMIN, summary="All links")
async def listed(request: Request[Any, Any, Any]) -> Response[Links]:
    """Return all links, the newest first; never a secret."""
    container: Container = request.app.state.parts
    container.circuit.require()
    return Response(Links(items=await asyncio.to_thread(_store(container).listed)), headers=_PRIVATE)


@delete("/v1/links/{name:str}", opt=ADMIN, status_code=200, summary="Revoke a link")
async def revoke(request: Request[Any, Any, Any], name: Name) -> Response[Link]:
    """Revoke a link: from now on nobody opens it, and no device that opened it sends results."""
    container = appending(request)
    link = await asyncio.to_thread(_store(container).revoke, name)
    await append(container, [operation("link.revoked", actor(request), link.id)])
    return Response(link, headers=_PRIVATE)


class Opening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who opens a link: the secret in its address, and what the page keeps of itself, which nobody else knows."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    device: Annotated[str, msgspec.Meta(min_length=32, max_length=200)]


class Asking(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model a page begins, with the key that it got when it opened the link."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


@post("/v1/links/claims", opt=_OPEN, status_code=200, summary="Open a link")
async def claim(request: Request[Any, Any, Any], data: JSONBody[Opening]) -> Response[Claim]:
    """Open a link on a device: what it is asked to measure, and the key of all that it sends."""
    container = _admitted(request)
    key, record = await asyncio.to_thread(_store(container).claim, data.token, device_of(data.device))
    offer = record.offer
    claimed = Claim(
        key=key,
        device=record.device,
        expires_at=record.expires_at,
        models=[model.file for model in offer.models],
        titles=[model.model.id for model in offer.models],
        workloads=[model.workload for model in offer.models],
        precisions=[model.precision for model in offer.models],
        runtime=offer.runtime,
        runtime_version=offer.runtime_version,
        backends=offer.backends,
        warm_up_ms=offer.warm_up_ms,
        measure_ms=offer.measure_ms,
        origin_trial=offer.origin_trial,
    )
    return Response(claimed, headers=_PRIVATE)


@post("/v1/links/tasks", opt=_OPEN, status_code=200, summary="Get the inputs of a model")
async def task(request: Request[Any, Any, Any], data: JSONBody[Asking]) -> Response[Task]:
    """Return the inputs that this device has to run, drawn from the pool; the same ones when it asks again."""
    container = _admitted(request)
    store = _store(container)

    def read() -> Task:
        record = store.claimed(data.key)
        model = record.model(data.model)
        pool = Pool(files_of(container).path(model.pool, private=True))
        begun = store.begin(record.id, data.model, secrets.SystemRandom().sample(range(pool.size), DRAWN))
        return Task(model=data.model, inputs=[pool.inputs(at) for at in begun.drawn])

    return Response(await asyncio.to_thread(read), headers=_PRIVATE)


@post(
    "/v1/links/results", opt=_OPEN, status_code=200, request_max_body_size=RESULT_LIMIT_BYTES, summary="Send a result"
)
async def result(request: Request[Any, Any, Any], data: JSONBody[PageResult]) -> LinkAnswer:
    """Take what a page measured of one model: one row, or the reason why it is refused.

    Refused are wrong outputs, samples that sum to more than the time since the page was given its inputs, and times
    that the stated hardware could not reach.
    """
    container = _admitted(request)
    events, record = await asyncio.to_thread(_believed, container, data)
    measured = next(event for event in events if isinstance(event.data, MeasurementRecorded))
    async with container.sharing:
        if known := await container.log.get([measured.id]):
            existing = msgspec.convert(known[0].event["data"], MeasurementRecorded, strict=False)
            return _answer(measured.id, existing, duplicate=True, counts=False)
        await container.reach(await container.log.last_position())
        events, counts = await asyncio.to_thread(_doubted, container, record, events)
        await append(container, events)
    row = next(event.data for event in events if event.id == measured.id)
    assert isinstance(row, MeasurementRecorded)
    return _answer(measured.id, row, duplicate=False, counts=counts)


@post("/v1/links/failures", opt=_OPEN, status_code=200, summary="Send that a model did not run")
async def failure(request: Request[Any, Any, Any], data: JSONBody[PageFailure]) -> FailureAnswer:
    """Take that a model did not run on a backend of a page: one row a device, model and backend."""
    container = _admitted(request)

    def read() -> tuple[list[Decoded], ClaimRecord]:
        store = _store(container)
        record = store.claimed(data.key)
        model = record.model(data.model)
        store.task(record.id, data.model)
        return failure_events(record, model, data), record

    events, record = await asyncio.to_thread(read)
    failed = next(event for event in events if isinstance(event.data, MeasurementFailed))
    async with container.sharing:
        if known := await container.log.get([failed.id]):
            existing = msgspec.convert(known[0].event["data"], MeasurementFailed, strict=False)
            return _failure_answer(failed.id, existing, duplicate=True, counts=False)
        await container.reach(await container.log.last_position())
        with container.tables(None) as tables:
            accepted = acceptance_of(tables, record.device)
        copies = accepted_copies(events, record.device, accepted) if accepted else []
        await append(container, [*events, *copies])
    counts = any(isinstance(event.data, MeasurementFailed) for event in copies)
    assert isinstance(failed.data, MeasurementFailed)
    return _failure_answer(failed.id, failed.data, duplicate=False, counts=counts)


@get("/v1/browser-devices", summary="Devices whose pages sent results", tags=["tables"])
async def devices(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return the devices whose pages sent results, and which of them an operator has accepted."""
    return await rows_response(request, at, lambda tables: (devices_at(tables), {}))


@post("/v1/browser-devices/{device:str}", opt=ADMIN, status_code=200, summary="Accept a device")
async def accept(request: Request[Any, Any, Any], device: Name, reason: Reason, hardware: OnHardware = None) -> Changed:
    """Let what a device sent, and will send, answer and train as imported rows; who did it and why are in the log."""
    container = appending(request)
    async with container.sharing:
        await container.reach(await container.log.last_position())
        named = None if hardware is None else require(hardware).id
        events = await accepting(container, device, Acceptance(by=actor(request), hardware=named))
        done = operation(ACCEPTED_DEVICE, actor(request), device, {"reason": reason, "hardware": named})
        last = await append(container, [*events, done])
    return Changed(changed=sum(isinstance(event.data, MeasurementRecorded) for event in events), last_position=last)


@delete("/v1/browser-devices/{device:str}", opt=ADMIN, status_code=200, summary="Accept a device no more")
async def reject(request: Request[Any, Any, Any], device: Name, reason: Reason) -> Changed:
    """Take the rows of a device out of answers and training again; they are shown as those of a page."""
    container = appending(request)
    async with container.sharing:
        await container.reach(await container.log.last_position())
        events, changed = await asyncio.to_thread(rejecting, container, device)
        done = operation(REJECTED_DEVICE, actor(request), device, {"reason": reason})
        last = await append(container, [*events, done])
    return Changed(changed=changed, last_position=last)


def _believed(container: Container, data: PageResult) -> tuple[list[Decoded], ClaimRecord]:
    """Return the events of a result whose times and outputs are possible."""
    store = _store(container)
    record = store.claimed(data.key)
    model = record.model(data.model)
    begun = store.task(record.id, data.model)
    require_times(data, begun, record.now)
    pool = Pool(files_of(container).path(model.pool, private=True))
    compared = require_outputs(data, begun, model, pool)
    return page_events(record, model, data, compared), record


def _doubted(container: Container, record: ClaimRecord, events: list[Decoded]) -> tuple[list[Decoded], bool]:
    """Return the events as they are appended, made suspect and with the copies of an accepted device, and whether they count."""
    with container.tables(None) as tables:
        held = row_doubts(container, tables, events)
        accepted = acceptance_of(tables, record.device)
    for doubt in held.values():
        if doubt.rule in _IMPOSSIBLE:
            raise ResultRefused(
                f"{doubt.reason} ({doubt.rule}).",
                field="samples",
                remedy="Check which hardware was picked, and measure again.",
            )
        events = [_suspected(event, doubt.rule, doubt.reason) for event in events]
    copies = accepted_copies(events, record.device, accepted) if accepted else []
    return [*events, *copies], any(isinstance(event.data, MeasurementRecorded) for event in copies)


def _suspected(event: Decoded, rule: str, reason: str) -> Decoded:
    data = event.data
    if not isinstance(data, MeasurementRecorded) or data.validity is None:
        return event
    both = combine(data.validity, Verdict(verdict="suspect", reasons=[f"{rule}: {reason}"]))
    validity = msgspec.structs.replace(data.validity, verdict=both.verdict, reasons=both.reasons)
    envelope = {**event.event, "data": msgspec.to_builtins(msgspec.structs.replace(data, validity=validity))}
    return written(encode_event(envelope))


def _answer(name: str, row: MeasurementRecorded, *, duplicate: bool, counts: bool) -> LinkAnswer:
    latency = row.metrics.latency_ms
    return LinkAnswer(
        event_id=name,
        duplicate=duplicate,
        verdict=row.validity.verdict if row.validity else "valid",
        reasons=row.validity.reasons if row.validity else [],
        latency_ms=latency.p50 if latency else None,
        counts=counts,
        detail=_detail(duplicate=duplicate, counts=counts),
    )


def _failure_answer(name: str, row: MeasurementFailed, *, duplicate: bool, counts: bool) -> FailureAnswer:
    detail = _detail(duplicate=duplicate, counts=counts)
    return FailureAnswer(event_id=name, duplicate=duplicate, outcome=row.outcome, counts=counts, detail=detail)


def _detail(*, duplicate: bool, counts: bool) -> str:
    if duplicate:
        return "This device has sent this before; there is one row."
    if counts:
        return "It counts: an operator has accepted this device."
    return "It is shown, and counts in answers and training once an operator has accepted this device."


def _admitted(request: Request[Any, Any, Any]) -> Container:
    """Return the parts of the service where the address has not asked for too much; a page has no token to be known by."""
    container = appending(request)
    try:
        container.opening.take(address_of(request.scope.get("client")))
    except RateLimited as error:
        error.field, error.remedy = "link", "Wait as long as Retry-After says, and send it again."
        raise
    return container


def files_of(container: Container) -> LinkFiles:
    """Return the files of links in the home of a service."""
    return LinkFiles(container.settings.home / "links")


def _store(container: Container) -> LinkStore:
    container.circuit.require()
    return LinkStore(container.database.url)


def _require_file(files: LinkFiles, digest: str, field: str, *, private: bool = False) -> None:
    if not files.path(digest, private=private).exists():
        raise InvalidInput(f"no file {digest} was sent.", field=field, remedy="PUT /v1/links/files/… it first.")


def _require_pool(pool: Pool, field: str) -> None:
    """Refuse a pool that is too small to draw from, and outputs that no page could send within the limit."""
    if pool.size < DRAWN * 2:
        raise InvalidInput(f"{pool.size} inputs.", field=field, remedy=f"Send {DRAWN * 2} or more; the CLI makes 64.")
    sent = DRAWN * sum(4 * value.size for value in pool.outputs(0).values()) * 4 // 3
    if sent > RESULT_LIMIT_BYTES * 0.9:
        raise InvalidInput(
            f"{DRAWN} outputs are {sent / 1e6:.1f} MB, and a page sends {RESULT_LIMIT_BYTES / 1e6:.1f} MB at the most.",
            field=field,
            remedy="Choose a smaller workload, or a model with smaller outputs.",
        )


router = Router(
    "/",
    route_handlers=[
        upload,
        uploaded,
        create,
        listed,
        revoke,
        claim,
        task,
        result,
        failure,
        devices,
        accept,
        reject,
    ],
    dependencies=DEPENDENCIES,
    tags=["links"],
)
