"""Who may do what: tokens where any was ever made, and an open door for this machine's own programs where none was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.settings import Settings
from api.tokens import Token, TokenStore, sha256
from domain.errors import Forbidden, Unauthenticated, UsageError

__all__ = ["OPEN", "Access", "guard", "require_tokens"]

REFRESH_S = 5.0
"""A revocation is effective within this time, on every worker."""
OPEN = "open"
"""Scope of the routes that need no token."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})

Connection = ASGIConnection[Any, Any, Any, Any]


def require_tokens(settings: Settings, store: TokenStore) -> None:
    """Raise UsageError where the service would be reachable from other machines and no token guards it."""
    if settings.loopback or any(token.valid(datetime.now(UTC)) for token in store.listed()):
        return
    raise UsageError(
        f"{settings.host} can be reached from other machines, and no token is configured.",
        field="host",
        remedy="Make one first (`assay token create NAME --scope admin`), or bind to 127.0.0.1.",
    )


class Access:
    """Recognises tokens; the table is read again every few seconds, so no request waits for Postgres."""

    def __init__(self, settings: Settings, store: TokenStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._store = store
        self._clock = clock
        self._known: dict[bytes, Token] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def check(self, connection: Connection, scope: str) -> Token | None:
        """Return the token that allows the scope, or None where the door is open; else raise an AccessError."""
        if scope == OPEN:
            return None
        known = await self._tokens()
        if not known and self.settings.loopback:
            self._require_local(connection)
            return None
        scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
        token = known.get(sha256(secret.strip())) if scheme.lower() == "bearer" else None
        if token is None or not token.valid(datetime.now(UTC)):
            raise Unauthenticated(
                "a token is needed." if not secret else "the token is unknown, expired or revoked.",
                field="Authorization",
                remedy="Send Authorization: Bearer …, or set ASSAY_TOKEN; `assay token create` makes one.",
            )
        if not token.allows(scope):
            raise Forbidden(
                f"the token {token.prefix}… has not the scope {scope}.",
                field="Authorization",
                remedy=f"Use a token made with --scope {scope}.",
            )
        return token

    async def _tokens(self) -> dict[bytes, Token]:
        if self._read_at is None or self._clock() - self._read_at > REFRESH_S:
            async with self._reading:
                if self._read_at is None or self._clock() - self._read_at > REFRESH_S:
                    self._known = await asyncio.to_thread(self._store.known)
                    self._read_at = self._clock()
        return self._known

    def _require_local(self, connection: Connection) -> None:
        """Refuse what a web page in a browser on this machine could send under another name (DNS rebinding)."""
        allowed = _LOCAL | {self.settings.host}
        for header in ("host", "origin"):
            value = connection.headers.get(header)
            if value is None or (header == "origin" and value == "null"):
                continue
            if _hostname(value if header == "origin" else f"//{value}") not in allowed:
                raise Forbidden(
                    f"{value[:80]!r} is not a name of this machine.",
                    field=header.capitalize(),
                    remedy="Use http://127.0.0.1 or localhost, or make a token and send it.",
                )


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Litestar guard: check the scope in the route's `opt`, `read` where it says none."""
    access: Access = connection.app.state.parts.access
    connection.state.token = await access.check(connection, handler.opt.get("scope", "read"))
