"""The dashboard as it is served: the pages of `app.py`, and before them what asks the service ahead and checks who asks."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qs

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import dashboard
from dashboard.menu import MENU
from domain.errors import AssayError
from domain.hosts import ENVIRONMENT as ALLOWED_HOSTS
from domain.hosts import AllowedHosts, allowed_hosts, is_same_origin

AT_ONCE = 4
"""Addresses that are asked ahead at a time; the pages of others ask by themselves."""
_PAGES = frozenset(entry.name for entries in MENU.values() for entry in entries)


def middleware(environment: Mapping[str, str]) -> list[Middleware]:
    """Return what stands before the pages: nothing where people sign in, for an address alone must not make the service work."""
    return [] if environment.get("ASSAY_SIGN_IN") else [Middleware(Ahead)]


class Ahead:
    """ASGI middleware that lets every request through as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ahead")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; where it is for a page with parameters, ask the service meanwhile."""
        if scope["type"] == "http" and scope["method"] == "GET" and scope["query_string"]:
            page = str(scope["path"]).strip("/")
            if page in _PAGES and self._free.acquire(blocking=False):
                self._pool.submit(self._ask, page, parse_qs(scope["query_string"].decode("latin-1")))
        await self._app(scope, receive, send)

    def _ask(self, page: str, params: Mapping[str, Sequence[str]]) -> None:
        try:
            ahead = getattr(import_module(f".screens.{page}.view", dashboard.__name__), "ahead", None)
            if ahead is not None:
                with suppress(AssayError):
                    ahead(params)
        except Exception:
            logging.getLogger("assay.dashboard").exception("What %s asks could not be asked ahead", page)
        finally:
            self._free.release()


POLICY = "; ".join(
    (
        "default-src 'self'",
        # Streamlit and Vega run inline scripts and make functions of text.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "frame-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        # No other page may put this one in a frame and have its buttons clicked.
        "frame-ancestors 'self'",
    )
)


class ContentPolicy:
    """ASGI middleware that adds a Content-Security-Policy to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add the header to what comes back."""

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self._app(scope, receive, send_with_policy if scope["type"] == "http" else send)


HEALTH = "/_stcore/health"
"""Says ok and nothing else; load balancers ask for it under any name."""
REFUSAL = f"This is not a name of the dashboard. List the names under which it is reached in {ALLOWED_HOSTS}.\n"


class KnownHosts:
    """ASGI middleware that refuses requests and WebSockets under unknown host names, and WebSockets of foreign pages.

    Streamlit's own `server.allowedHosts` covers WebSockets only.
    """

    def __init__(self, app: ASGIApp, hosts: AllowedHosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what was sent to a known name."""
        if scope["type"] in ("http", "websocket") and not self._passes(scope):
            if scope["type"] == "http":
                await PlainTextResponse(REFUSAL, status_code=403)(scope, receive, send)
            else:
                # Closing before accepting refuses the handshake with 403.
                await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        await self._app(scope, receive, send)

    def _passes(self, scope: Scope) -> bool:
        if scope["path"] == HEALTH:
            return True
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._hosts.admits(host):
            return False
        return scope["type"] == "http" or origin is None or is_same_origin(origin, host, self._hosts)


hosts = allowed_hosts(os.environ.get(ALLOWED_HOSTS, ""), st.get_option("server.address"), socket.gethostname())
app = st.App(
    Path(__file__).with_name("app.py"),
    middleware=[Middleware(KnownHosts, hosts=hosts), Middleware(ContentPolicy), *middleware(os.environ)],
)
