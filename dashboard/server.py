"""The dashboard as it is served: the pages of `app.py`, and before them what asks the service ahead and checks who asks."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.content_policy import ContentPolicy
from dashboard.prefetch import middleware
from domain.hosts import ENVIRONMENT as ALLOWED_HOSTS
from domain.hosts import AllowedHosts, allowed_hosts, is_same_origin

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
