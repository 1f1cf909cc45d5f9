"""The application: its routes, its parts for as long as it lives, and how it says no."""

from __future__ import annotations

import time
from typing import Any

from litestar import Litestar, Request, Router
from litestar.enums import ScopeType
from litestar.routes import HTTPRoute
from litestar.types import (
    HTTPScope,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Message,
    Receive,
    Scope,
    Send,
)

from api.container import Container
from api.http.access import address_of, guard
from api.http.body import Timely, has_body
from api.http.logs import CURRENT, RequestRecord, request_id
from api.http.openapi import openapi
from api.http.problems import EXCEPTION_HANDLERS
from api.jobs import routes as jobs
from api.lifespan import opened
from api.routes import events, health, operations
from api.routes.append import append_events
from api.settings import Settings
from domain import spans
from domain.canonical import require_shallow

__all__ = ["Service", "create_app", "end_streams"]

QUESTION_LIMIT_BYTES = 256 * 1024
"""Of every body but that of `POST /v1/events`, which has limits of its own."""
APPEND = "/v1/events"
PROBED = ("/health/", "/metrics")
"""Paths that monitoring asks every few seconds; they make no spans."""


class Question(Request[Any, Any, Any]):
    """A request whose JSON body is bounded in depth before it is decoded."""

    async def json(self) -> Any:
        """Return the decoded body; raise MalformedBody where it is nested too deep."""
        require_shallow(await self.body())
        return await super().json()


class Service(Litestar):
    """Litestar, with an id, a line in the log and a place in the metrics for every request."""

    async def __call__(
        self, scope: Scope | LifeSpanScope, receive: Receive | LifeSpanReceive, send: Send | LifeSpanSend
    ) -> None:
        """Answer one request, or live through the application's life."""
        if scope["type"] != ScopeType.HTTP:
            await super().__call__(scope, receive, send)
            return
        if spans.active():
            await self._traced(scope, receive, send)  # type: ignore[arg-type]
        else:
            await self._answered(scope, receive, send)  # type: ignore[arg-type]

    async def _traced(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Answer one request in a span, below the one that the client names."""
        if scope["path"].startswith(PROBED):
            await self._answered(scope, receive, send)
            return
        method, parent = scope["method"], spans.extract(dict(scope["headers"]))
        with spans.span(method, kind="server", parent=parent, http_request_method=method) as span:
            request = await self._answered(scope, receive, send)
            span.set(
                name=f"{method} {request.route}" if request.route else method,
                failed=request.status >= 500,
                http_route=request.route,
                http_response_status__code=request.status,
            )

    async def _answered(self, scope: HTTPScope, receive: Receive, send: Send) -> RequestRecord:
        method, path = scope["method"], scope["path"]
        sent = dict(scope["headers"])
        request = RequestRecord(request_id(sent.get(b"x-request-id")), method, path)
        current = CURRENT.set(request)
        container: Container = self.state.parts
        peer = scope.get("client")
        container.active.enter(peer)
        try:
            if path == APPEND and method == "POST":
                request.route = APPEND
                await _append(scope, sent, receive, send, container, request)
            else:
                timely = Timely(receive, container.settings.body_deadline_s)

                async def marked(message: Message) -> None:
                    if message["type"] == "http.response.start":
                        request.status = message["status"]
                        added = [(b"x-request-id", request.id.encode()), *request.extra]
                        if request.status >= 400 and not timely.whole and has_body(sent):
                            # The server ends a connection whose body nobody read; the client must not use it again.
                            added.append((b"connection", b"close"))
                        if request.status == 405 or method == "OPTIONS":
                            added.append((b"allow", self._allowed(path)))
                        message["headers"] = [
                            *((name, value) for name, value in message["headers"] if name.lower() != b"allow"),
                            *added,
                        ]
                    await send(message)

                await super().__call__(scope, timely, marked)
                request.route = scope.get("path_template")
        finally:
            container.active.leave(peer)
            duration_s = time.perf_counter() - request.begun
            container.metrics.answered(request, duration_s)
            if container.access_log.enabled:
                container.access_log.add(request, address_of(scope.get("client")), duration_s)
            CURRENT.reset(current)
        return request

    def _allowed(self, path: str) -> bytes:
        """Return the methods of a path; Litestar names only those of the handler that it met last."""
        trimmed = path.rstrip("/") or "/"
        methods: dict[int, set[str]] = {0: set()}
        for route in self.routes:
            if isinstance(route, HTTPRoute) and _fits(route.path_format, trimmed):
                fixed = len(route.path_format.partition("{")[0]) + len(route.path_format.rpartition("}")[2])
                methods.setdefault(fixed, set()).update(route.methods)
        # A name may hold slashes: of two forms the one with the longer fixed part is meant.
        return ", ".join(sorted(methods[max(methods)])).encode()


def _fits(template: str, path: str) -> bool:
    """Whether a path has the form of a template, in which one part may be a name, of any depth."""
    head, brace, rest = template.partition("{")
    tail = rest.partition("}")[2]
    if not brace:
        return path == template
    return path.startswith(head) and path.endswith(tail) and len(path) > len(head) + len(tail)


async def _append(
    scope: HTTPScope,
    sent: dict[bytes, bytes],
    receive: Receive,
    send: Send,
    container: Container,
    request: RequestRecord,
) -> None:
    answer = await append_events(scope, sent, receive, container)
    request.status = answer.status
    headers = [
        *answer.headers,
        (b"content-length", b"%d" % len(answer.content)),
        (b"x-request-id", request.id.encode()),
        *request.extra,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})


def create_app(settings: Settings | None = None) -> Service:
    """Return the service set up by `settings`, or by the environment; its parts open when the server starts it."""
    chosen = settings or Settings.from_environment()
    return Service(
        [events.router, health.router, operations.router, jobs.router, *(_of_tables() if chosen.projects else [])],
        lifespan=[lambda app: opened(app, chosen)],
        guards=[guard],
        exception_handlers=EXCEPTION_HANDLERS,
        request_class=Question,
        request_max_body_size=QUESTION_LIMIT_BYTES,
        logging_config=None,
        openapi_config=openapi(),
    )


def _of_tables() -> list[Router]:
    """Return the routes that need tables; a process that only takes events never loads what they rest on."""
    from api.routes import (
        answers,
        comparisons,
        compatibility,
        fleets,
        hardware_coverage,
        imports,
        matrix,
        operators,
        predictors,
        prices,
        projection,
        query,
        registry,
        regressions,
        rooflines,
        rows,
        service_overview,
        snapshots,
        suggestions,
        tables,
        trends,
    )
    from api.routes.histories import alerts, reports
    from api.routes.links import page, routes
    from api.routes.sharing import bundles, peers, signers
    from api.routes.variants import variants

    return [
        rows.router,
        registry.router,
        tables.router,
        comparisons.router,
        projection.router,
        query.router,
        answers.router,
        predictors.router,
        snapshots.router,
        suggestions.router,
        prices.router,
        compatibility.router,
        fleets.router,
        service_overview.router,
        trends.router,
        variants.router,
        regressions.router,
        reports.router,
        alerts.router,
        matrix.router,
        rooflines.router,
        imports.router,
        bundles.router,
        signers.router,
        peers.router,
        operators.router,
        hardware_coverage.router,
        routes.router,
        page.router,
    ]


async def end_streams(app: Litestar) -> None:
    """End the answers that would go on for ever, so that a server which waits for open answers can stop."""
    parts = getattr(app.state, "parts", None)
    if parts is not None:
        await parts.end_waiting()
