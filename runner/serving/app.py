"""The HTTP face of a model server: Open Inference Protocol (KServe v2), OpenAI's routes, and control of endpoints."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.params import FromPath
from litestar.response import Stream

from domain.errors import (
    AssayError,
    Expired,
    InvalidInput,
    MalformedBody,
    NotFound,
    PayloadTooLarge,
    ServiceUnavailable,
    TooBusy,
    Unauthenticated,
    UnsupportedWorkload,
)
from domain.events import uuid7
from runner.campaign.event_payloads import RUNNER_VERSION
from runner.serving import embeddings, kserve
from runner.serving.contract import EndpointSpec
from runner.serving.exchange import Loaded
from runner.serving.language import LanguageEndpoint
from runner.serving.server import ModelServer

__all__ = ["create_app"]

MAX_BODY_BYTES = 64 * 2**20
MAX_PENDING_BYTES = 256 * 2**20
"""What the bodies of all requests under way may take together."""
DEADLINE_S = 30.0
LONGEST_DEADLINE_S = 3600.0
WATCHED_AFTER_S = 0.05
"""A request that takes longer ends when its client leaves; to listen for that from the start would cost each one 0.1 ms."""
KEPT_RESULTS, KEPT_BYTES, KEPT_S = 256, 256 * 2**20, 300.0
Asked = Request[Any, Any, State]
_OPEN = ("/v2/health/live", "/v2/health/ready")


class _Budget:
    """Bytes of bodies under way: what would go beyond the limit is refused before it is read."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int) -> None:
        if size > MAX_BODY_BYTES:
            raise PayloadTooLarge(
                f"the body has {size:,} bytes.", field="body", remedy=f"Send at most {MAX_BODY_BYTES:,}."
            )
        if self.used + size > self.limit:
            busy = TooBusy("too many bytes of requests are under way.", field="body", remedy="Send it again later.")
            busy.retry_after_s = 1.0
            raise busy
        self.used += size

    def give(self, size: int) -> None:
        self.used -= size


class _Results:
    """Answers of asynchronous requests, kept for a while; a task that is not done counts as an answer."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, tuple[float, str, asyncio.Task[Response[bytes]]]] = OrderedDict()

    def keep(self, name: str, work: Coroutine[Any, Any, Response[bytes]], on_end: Callable[[], None]) -> str:
        self._forget()
        held = sum(len(task.result().content) for *_, task in self._tasks.values() if _good(task))
        if len(self._tasks) >= KEPT_RESULTS or held > KEPT_BYTES:
            work.close()
            busy = TooBusy("too many results wait to be fetched.", field="Prefer", remedy="Fetch results, or wait.")
            busy.retry_after_s = 5.0
            raise busy
        identifier = uuid7()
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: on_end())
        self._tasks[identifier] = time.monotonic(), name, task
        return identifier

    def get(self, name: str, identifier: str) -> asyncio.Task[Response[bytes]]:
        self._forget()
        entry = self._tasks.get(identifier)
        if entry is None or entry[1] != name:
            raise Expired(
                "no result is kept under this id.", field="id", remedy=f"Results are kept for {KEPT_S:g} s; ask again."
            )
        return entry[2]

    def _forget(self) -> None:
        old = time.monotonic() - KEPT_S
        for identifier, (began, _, task) in list(self._tasks.items()):
            if began < old and task.done():
                del self._tasks[identifier]


def _good(task: asyncio.Task[Response[bytes]]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


class _Face:
    """What the routes share."""

    def __init__(self, server: ModelServer, token: str | None) -> None:
        self.server, self.token = server, token
        self.budget, self.results = _Budget(MAX_PENDING_BYTES), _Results()
        self.began = int(time.time())
        # Each waits for an engine, which takes seconds: they are not to take the threads of other work.
        self.passing = ThreadPoolExecutor(256, thread_name_prefix="engine-request")

    async def read(self, request: Asked, use: Callable[[bytes], Awaitable[Any]]) -> Any:
        """Return what comes of the body; its bytes count until then, and it ends early where the client leaves."""
        size = int(request.headers.get("content-length") or MAX_BODY_BYTES)
        self.budget.take(size)
        try:
            return await _unless_gone(request, use, await request.body())
        finally:
            self.budget.used -= size

    async def infer(self, name: str, body: bytes, header: str | None) -> Response[bytes]:
        """Return the answer of one inference request."""
        loaded = _loaded(self.server, name)
        request, binary = kserve.read_request(body, header)
        inputs = kserve.read_tensors(request, binary, loaded.inputs)
        queued = self.server.submit(name, inputs, _deadline(request.parameters.get("timeout")))
        outputs = await asyncio.wrap_future(queued.future)
        answer, length = kserve.write_response(name, request, outputs)
        if length is None:
            return Response(answer, media_type="application/json", status_code=200)
        headers = {kserve.HEADER: str(length)}
        return Response(answer, media_type="application/octet-stream", headers=headers, status_code=200)

    async def infer_later(self, request: Asked, name: str, header: str | None) -> Response[bytes]:
        """Take a request, and answer where its result will be."""
        self.server.endpoint(name)
        size = int(request.headers.get("content-length") or MAX_BODY_BYTES)
        self.budget.take(size)
        try:
            body = await request.body()
            identifier = self.results.keep(name, self.infer(name, body, header), lambda: self.budget.give(size))
        except BaseException:
            self.budget.give(size)
            raise
        place = f"/v2/models/{name}/results/{identifier}"
        answer = msgspec.json.encode({"id": identifier, "location": place})
        headers = {"Location": place, "Preference-Applied": "respond-async"}
        return Response(answer, status_code=202, media_type="application/json", headers=headers)

    async def complete(self, route: str, body: bytes) -> Any:
        """Return the answer of a language model."""
        document = _decoded(body, dict[str, Any])
        endpoint = self.server.endpoint(str(document.get("model")))
        if not isinstance(endpoint, LanguageEndpoint):
            raise NotFound(
                f"{endpoint.spec.name} does not answer /v1{route}: it is no language model.",
                field="model",
                remedy="There is /v1/models, /v1/embeddings and /v2/models/NAME/infer.",
            )
        if endpoint.state not in ("ready", "evicted"):
            raise ServiceUnavailable(
                f"{endpoint.spec.name} is {endpoint.state}.", field="model", remedy=endpoint.reason
            )
        loop, answers = asyncio.get_running_loop(), endpoint.send(route, document)
        # The first item comes when the engine has accepted the request: until then a refusal has its own status.
        first = await loop.run_in_executor(self.passing, next, answers, b"")
        if document.get("stream"):
            return Stream(_events(first, answers, self.passing), media_type="text/event-stream")
        await loop.run_in_executor(self.passing, list, answers)
        return Response(first, media_type="application/json", status_code=200)

    async def embed(self, body: bytes) -> dict[str, Any]:
        """Return the vectors of texts or token ids."""
        request = embeddings.read_embedding_request(body)
        loaded = _loaded(self.server, request.model)
        embeddings.require_embeddings(request.model, loaded)
        # A tokenizer's files are read, which takes a moment the first time.
        items = await asyncio.to_thread(embeddings.tokens_of, request.input, loaded)
        queued = self.server.submit_all(
            request.model, [embeddings.arrays(item, loaded.inputs) for item in items], DEADLINE_S
        )
        try:
            outputs = await asyncio.gather(*(asyncio.wrap_future(each.future) for each in queued))
        except BaseException:
            for each in queued:
                each.future.cancel()
            raise
        count = sum(len(item.ids) for item in items)
        return {
            "object": "list",
            "model": request.model,
            "data": embeddings.vectors(items, outputs, request.encoding_format),
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }


def create_app(server: ModelServer, token: str | None = None) -> Litestar:
    """Return the application of a server; with a token every route but the two of health asks for it."""
    inference = [about, live, ready, metadata, model_ready, infer, result]
    return Litestar(
        [*inference, models, model, embed, complete, endpoints, endpoint, create, scale, remove],
        state=State({"face": _Face(server, token)}),
        before_request=_authorize,
        exception_handlers={AssayError: _problem, HTTPException: _other},
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
    )


def _face(request: Asked) -> _Face:
    return request.app.state["face"]  # type: ignore[no-any-return]


async def _authorize(request: Asked) -> None:
    # Litestar would run a function that is not async in a thread, which costs each request 0.1 ms.
    token = _face(request).token
    if token is None or request.url.path in _OPEN:
        return
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise Unauthenticated(
            "a token is needed.", field="Authorization", remedy="Send Authorization: Bearer TOKEN, that of the server."
        )


@get("/v2", sync_to_thread=False)
def about() -> dict[str, Any]:
    """Return what this server is and which extensions it has."""
    return {"name": "assay", "version": RUNNER_VERSION, "extensions": ["binary_tensor_data"]}


@get("/v2/health/live", sync_to_thread=False)
def live() -> dict[str, bool]:
    """Return that the process answers."""
    return {"live": True}


@get("/v2/health/ready", sync_to_thread=False)
def ready(request: Asked) -> Response[dict[str, bool]]:
    """Return whether every endpoint can be called."""
    good = all(each.state in ("ready", "evicted") for each in list(_face(request).server.endpoints.values()))
    return Response({"ready": good}, status_code=200 if good else 503)


@get(["/v2/models/{name:str}", "/v2/models/{name:str}/versions/1"], sync_to_thread=False)
def metadata(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """Return the inputs and outputs of a model as they are."""
    loaded = _loaded(_face(request).server, name)
    return {
        "name": name,
        "versions": ["1"],
        "platform": f"assay_{loaded.platform}",
        "inputs": msgspec.to_builtins(loaded.inputs),
        "outputs": msgspec.to_builtins(loaded.outputs),
    }


@get(["/v2/models/{name:str}/ready", "/v2/models/{name:str}/versions/1/ready"], sync_to_thread=False)
def model_ready(request: Asked, name: FromPath[str]) -> Response[dict[str, Any]]:
    """Return whether one endpoint can be called."""
    good = _face(request).server.endpoint(name).state in ("ready", "evicted")
    return Response({"name": name, "ready": good}, status_code=200 if good else 503)


@post(["/v2/models/{name:str}/infer", "/v2/models/{name:str}/versions/1/infer"], status_code=200)
async def infer(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """Answer an inference request now, or with `Prefer: respond-async` later."""
    face, header = _face(request), request.headers.get(kserve.HEADER.lower())
    if "respond-async" in request.headers.get("prefer", ""):
        return await face.infer_later(request, name, header)
    return await face.read(request, lambda body: face.infer(name, body, header))  # type: ignore[no-any-return]


@get("/v2/models/{name:str}/results/{identifier:str}")
async def result(request: Asked, name: FromPath[str], identifier: FromPath[str]) -> Response[Any]:
    """Return the result of an asynchronous request; 202 while there is none."""
    task = _face(request).results.get(name, identifier)
    if not task.done():
        return Response({"id": identifier, "state": "waiting"}, status_code=202, headers={"Retry-After": "1"})
    return task.result()


@get("/v1/models", sync_to_thread=False)
def models(request: Asked) -> dict[str, Any]:
    """Return the endpoints as the OpenAI API lists models."""
    face = _face(request)
    return {"object": "list", "data": [_model(name, face.began) for name in sorted(face.server.endpoints)]}


@get("/v1/models/{name:str}", sync_to_thread=False)
def model(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """Return one endpoint as the OpenAI API does."""
    face = _face(request)
    face.server.endpoint(name)
    return _model(name, face.began)


@post("/v1/embeddings", status_code=200)
async def embed(request: Asked) -> dict[str, Any]:
    """Return embeddings."""
    face = _face(request)
    return await face.read(request, face.embed)  # type: ignore[no-any-return]


@post(["/v1/completions", "/v1/chat/completions"], status_code=200)
async def complete(request: Asked) -> Any:
    """Answer with what the engine of a language model answers, as one document or as a stream of events."""
    face, path = _face(request), request.url.path
    return await face.read(request, lambda body: face.complete(path.removeprefix("/v1"), body))


@get("/v1/endpoints")
async def endpoints(request: Asked) -> list[dict[str, Any]]:
    """Return the status of every endpoint."""
    every = list(_face(request).server.endpoints.values())
    # Counting the memory of processes reads files.
    return await asyncio.to_thread(lambda: [msgspec.to_builtins(each.status()) for each in every])


@get("/v1/endpoints/{name:str}")
async def endpoint(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """Return the status of one endpoint."""
    status = await asyncio.to_thread(_face(request).server.endpoint(name).status)
    return msgspec.to_builtins(status)  # type: ignore[no-any-return]


@post("/v1/endpoints", status_code=201)
async def create(request: Asked) -> dict[str, Any]:
    """Load a model and serve it; answers when it is ready."""
    server, spec = _face(request).server, _decoded(await request.body(), EndpointSpec)
    return msgspec.to_builtins(await server.run(lambda: server.create(spec)))  # type: ignore[no-any-return]


@patch("/v1/endpoints/{name:str}")
async def scale(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """Change the number of workers."""
    server, workers = _face(request).server, _decoded(await request.body(), _Scale).workers
    return msgspec.to_builtins(await server.run(lambda: server.scale(name, workers)))  # type: ignore[no-any-return]


@delete("/v1/endpoints/{name:str}", status_code=200)
async def remove(request: Asked, name: FromPath[str]) -> dict[str, Any]:
    """Drain and remove an endpoint."""
    server = _face(request).server
    return msgspec.to_builtins(await server.run(lambda: server.remove(name)))  # type: ignore[no-any-return]


async def _events(first: bytes, answers: Iterator[bytes], threads: ThreadPoolExecutor) -> AsyncIterator[bytes]:
    """Yield the events of a stream; one that breaks off ends with an event that says why."""
    yield first
    loop = asyncio.get_running_loop()
    try:
        while item := await loop.run_in_executor(threads, next, answers, b""):
            yield item
    except AssayError as error:
        message = {"error": {"message": str(error), "type": error.type, "param": error.field, "code": error.type}}
        yield b"data: " + msgspec.json.encode(message) + b"\n\n"


class _Scale(msgspec.Struct, forbid_unknown_fields=True):
    workers: int


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}.", field="body", remedy="docs/serving.md has the members.") from None
    except msgspec.DecodeError as error:
        raise MalformedBody(f"the body is not JSON: {error}.", field="body", remedy="Send a JSON object.") from None


async def _unless_gone(request: Asked, use: Callable[[bytes], Awaitable[Any]], body: bytes) -> Any:
    """Return what comes of the body; it is cancelled where the client leaves before. Quick answers are not watched."""
    answering = asyncio.current_task()
    assert answering is not None
    watching: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    timer = loop.call_later(
        WATCHED_AFTER_S, lambda: watching.append(loop.create_task(_cancel_when_gone(request, answering)))
    )
    try:
        return await use(body)
    finally:
        timer.cancel()
        for each in watching:
            each.cancel()


async def _cancel_when_gone(request: Asked, answering: asyncio.Task[Any]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
    answering.cancel()


def _loaded(server: ModelServer, name: str) -> Loaded:
    endpoint = server.endpoint(name)
    if isinstance(endpoint, LanguageEndpoint):
        raise UnsupportedWorkload(
            f"{name} is a language model, which is not called with tensors.",
            field="model",
            remedy="Use /v1/chat/completions or /v1/completions.",
        )
    loaded = endpoint.loaded
    if loaded is None:
        raise NotFound(f"{name} is not loaded yet.", field="model", remedy=f"Ask /v2/models/{name}/ready first.")
    return loaded


def _deadline(microseconds: Any) -> float:
    """Return the seconds that a request may wait; the protocol's `timeout` parameter is in microseconds."""
    if microseconds is None:
        return DEADLINE_S
    if not isinstance(microseconds, int | float) or not 0 < microseconds <= LONGEST_DEADLINE_S * 1e6:
        raise InvalidInput(
            f"{microseconds!r} is no time.", field="parameters.timeout", remedy="Give microseconds, an hour at most."
        )
    return microseconds / 1e6


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "assay"}


def _problem(request: Asked, error: AssayError) -> Response[Any]:
    """Return an error in the words of the protocol that was spoken."""
    return _error(
        request.url.path, error.status, str(error), error.type, error.field, error.remedy, error.retry_after_s
    )


def _other(request: Asked, error: HTTPException) -> Response[Any]:
    return _error(request.url.path, error.status_code, str(error.detail), "http", None, None, None)


def _error(
    path: str, status: int, text: str, kind: str, field: str | None, remedy: str | None, retry_s: float | None
) -> Response[Any]:
    headers = {"Retry-After": str(max(1, round(retry_s or 1)))} if status in (429, 503) else {}
    if path.startswith("/v2"):
        return Response({"error": text}, status_code=status, headers=headers)
    if path.startswith("/v1/endpoints"):
        problem = {"type": kind, "title": kind, "status": status, "detail": text, "field": field, "remedy": remedy}
        return Response(problem, status_code=status, headers=headers, media_type="application/problem+json")
    member = {"message": text, "type": kind, "param": field, "code": kind}
    return Response({"error": member}, status_code=status, headers=headers)
