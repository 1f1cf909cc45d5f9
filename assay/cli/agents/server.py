"""The MCP server: tools and resources over stdio or HTTP, answered by the service that the command line would ask."""

from __future__ import annotations

import functools
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import anyio
import httpx
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.cli.agents.tools import TOOLS, Answer, Tool, require_service
from assay.client import Client
from domain.errors import AssayError, Forbidden, ServiceUnavailable, Unauthenticated, UsageError
from domain.hosts import AllowedHosts, is_same_origin

__all__ = ["Asking", "serve_http", "serve_stdio"]

PATH = "/mcp"
AT_ONCE = 4
"""Questions that are answered at a time."""
INSTRUCTIONS = (
    "Assay answers which hardware runs a model how fast, from measurements and predictions with intervals. Read `abstained` "
    "before anything else, `basis` and `interval_covered` beside every figure, and give the interval with the figure. "
    "recommend chooses, predict asks about one configuration, fit about memory, compare and matrix show what was seen, "
    "query runs SQL."
)
MOST_GAPS = 10
COVERAGE, VIEWS = "assay://coverage", "assay://views"
Result = TypeVar("Result")


class Asking:
    """The connection to the service: one for all, opened at the first question; or with a token of each caller."""

    def __init__(self, server: str | None, token: str | None) -> None:
        self._server, self._token = server, token
        self._stack = ExitStack()
        self._client: Client | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> Client:
        """The connection, opened where it is not."""
        from assay.cli.connection import reading

        with self._lock:
            if self._client is None:
                self._client = self._stack.enter_context(reading(self._server, self._token))
            return self._client

    def close(self) -> None:
        """Close the connection, and a service that was started for it."""
        with self._lock:
            self._client = None
            self._stack.close()

    @contextmanager
    def of(self, token: str | None) -> Iterator[Client]:
        """Give a client that asks with a caller's token; without one the connection of this process."""
        if token is not None:
            with Client(self.client.server, token=token) as client:
                yield client
            return
        try:
            yield self.client
        except ServiceUnavailable:
            # It may be back at another address: the next question looks for it again. Others may still be using this one.
            with self._lock:
                self._client = None
            raise

    def needs_token(self) -> bool:
        """Return whether the service refuses questions without a token; what ships refuses none."""
        from assay.offline import ADDRESS

        with self.of(None) as client:
            address = client.server
        if address == ADDRESS:
            return False
        try:
            return httpx.get(f"{address}/v1/summary", trust_env=False, timeout=30).status_code == 401
        except httpx.TransportError as error:
            raise ServiceUnavailable(
                f"no service answers at {address}.",
                field="server",
                remedy="Start it with `assay up`, or name another with --server or ASSAY_SERVER.",
            ) from error


def protocol(asking: Asking) -> Server[Any]:
    """Return the MCP server with its tools and resources."""
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def asked(context: Any, question: Callable[[Client], Result]) -> Result:
        token = context.request.state.token if isinstance(context.request, Request) else None

        def ask() -> Result:
            with asking.of(token) as client:
                return question(client)

        return await anyio.to_thread.run_sync(ask, limiter=limit)

    async def list_tools(_context: Any, _request: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def call_tool(context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(request.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {request.name!r}; there are {', '.join(TOOLS)}.")
        try:
            answer: Answer = await asked(context, functools.partial(_call, tool, request.arguments))
        except AssayError as error:
            return _problem(error)
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], structured_content=answer.document)

    async def list_resources(_context: Any, _request: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=_resources())

    async def list_templates(_context: Any, _request: Any) -> types.ListResourceTemplatesResult:
        view = types.ResourceTemplate(
            name="view",
            title="Columns of a view",
            uri_template=f"{VIEWS}/{{view}}",
            description="Type, unit and meaning of each column of one view of query.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[view])

    async def read_resource(context: Any, request: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            document = await asked(context, functools.partial(_read, str(request.uri)))
        except AssayError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), _document(error)) from error
        text = msgspec.json.encode(document).decode()
        contents = types.TextResourceContents(uri=request.uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "assay",
        version=_version(),
        title="Assay: which hardware should run this model?",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _version() -> str:
    """Return the version of the installation; nothing where the sources run without one."""
    try:
        return version("assay-bench")
    except PackageNotFoundError:
        return ""


def _call(tool: Tool, arguments: dict[str, Any] | None, client: Client) -> Answer:
    return tool.call(client, arguments)


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _document(error: AssayError) -> dict[str, Any]:
    members = {"type": error.type, "detail": error.detail, "field": error.field, "remedy": error.remedy}
    return {name: value for name, value in members.items() if value}


def _problem(error: AssayError) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=str(error))], structured_content=_document(error), is_error=True
    )


def _resources() -> list[types.Resource]:
    return [
        types.Resource(
            uri=COVERAGE,
            name="coverage",
            title="What was tried",
            description="How many models of each category were tried, measured and verified on each platform, and gaps.",
            mime_type="application/json",
        ),
        types.Resource(
            uri=VIEWS,
            name="views",
            title="Views of query",
            description="The views that query reads: what a row is, and the names of the columns.",
            mime_type="application/json",
        ),
    ]


def _read(uri: str, client: Client) -> dict[str, Any]:
    if uri == COVERAGE:
        return _coverage(client)
    if uri == VIEWS:
        document = require_service(client).schema()
        views = [
            {**view, "columns": ", ".join(column["name"] for column in view["columns"])} for view in document["views"]
        ]
        return {"schema": document["schema"], "views": views}
    if uri.startswith(f"{VIEWS}/"):
        return require_service(client).schema(uri.removeprefix(f"{VIEWS}/"))
    raise UsageError(
        f"there is no resource {uri[:80]!r}.", field="uri", remedy=f"Read {COVERAGE}, {VIEWS} or {VIEWS}/NAME."
    )


def _coverage(client: Client) -> dict[str, Any]:
    """Return how many models of each category were tried on each platform, and the largest gaps."""
    document = client.coverage()
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in document["items"]:
        counts = {name: row[name] for name in ("models", "tried", "measured", "verified", "failed")}
        sums.setdefault((row["category"], row["platform"]), Counter()).update(counts)
    cells = [{"category": category, "platform": platform, **counts} for (category, platform), counts in sums.items()]
    return {"position": document["position"], "cells": cells, "gaps": document["gaps"][:MOST_GAPS]}


def serve_stdio(asking: Asking) -> None:
    """Serve one client on stdin and stdout until it closes them; stdout carries the protocol alone."""

    async def run() -> None:
        server = protocol(asking)
        async with stdio_server() as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    try:
        anyio.run(run)
    finally:
        asking.close()


class _Guard:
    """Refuses a request for a foreign Host, of a foreign page, or without the token that the service wants."""

    def __init__(self, app: ASGIApp, asking: Asking, hosts: AllowedHosts, *, tokens: bool) -> None:
        self._app, self._asking, self._hosts, self._tokens = app, asking, hosts, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            request.state.token = await anyio.to_thread.run_sync(self._admitted, request)
        except AssayError as error:
            await _refuse(send, error)
            return
        await self._app(scope, receive, send)

    def _admitted(self, request: Request) -> str | None:
        """Return the caller's token, None where the service wants none. Raises Forbidden or Unauthenticated."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._hosts.admits(host):
            raise Forbidden(
                f"{host[:80]!r} is not a name of this server.",
                field="Host",
                remedy="Use the address that it said, or list the name in ASSAY_ALLOWED_HOSTS.",
            )
        if origin is not None and not is_same_origin(origin, host, self._hosts):
            raise Forbidden(
                f"a web page of {origin[:80]!r} sent this request.", field="Origin", remedy="Use a program."
            )
        if not self._tokens:
            return None
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated(
                "a token is needed.",
                field="Authorization",
                remedy="Send Authorization: Bearer …; `assay token create` makes one.",
            )
        token = secret.strip()
        with self._asking.of(token) as client:
            client.page("snapshots", limit=1)
        return token


async def _refuse(send: Send, error: AssayError) -> None:
    body = msgspec.json.encode(_document(error))
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def http_app(asking: Asking, hosts: AllowedHosts, *, tokens: bool) -> ASGIApp:
    """Return the ASGI application; with `tokens` each caller asks with its own."""
    # Every request stands alone, so that any number of processes may stand behind one address.
    app = protocol(asking).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return _Guard(app, asking, hosts, tokens=tokens)


def serve_http(
    asking: Asking, host: str, port: int, hosts: AllowedHosts, *, tokens: bool, ready: Callable[[str], None]
) -> None:
    """Serve on an address until the process is asked to end; `ready` gets the address. Raises UsageError."""
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be listened on: {error.strerror}.", field="port", remedy="Name another with --port."
        ) from error
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{listening.getsockname()[1]}{PATH}")
    config = uvicorn.Config(http_app(asking, hosts, tokens=tokens), log_level="warning", access_log=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
        asking.close()
