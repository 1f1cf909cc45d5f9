"""Who may do what: tokens where any was ever made, and an open door for this machine's own programs where none was."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.following import Following
from api.logs import CURRENT
from api.rates import limits
from api.settings import DEFAULT_RATE, Settings
from api.tokens import Token, TokenStore, sha256
from domain.errors import Forbidden, ServiceUnavailable, Unauthenticated, UsageError

__all__ = ["OPEN", "Access", "address_of", "guard", "require_tokens"]

_LOG = logging.getLogger(__name__)
REFRESH_S = 5.0
"""A revocation is effective within this time, on every worker that reaches Postgres."""
STALE_S = 30.0
"""And within this time on every other."""
UNKNOWN_REFRESH_S = 0.5
"""Unknown secrets make a worker read the table at most so often."""
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


class Access(Following):
    """Recognises tokens by what was last read of the table; no request waits for Postgres to be let in.

    An async context manager, which reads the table every REFRESH_S. A secret that is not known yet makes it read at
    once, so that a new token works at once. What is older than STALE_S lets nobody in: a revocation may be in it.
    """

    def __init__(self, settings: Settings, store: TokenStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._loopback = settings.loopback
        self._store = store
        self._clock = clock
        self._known: dict[bytes, Token] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.used: dict[str, datetime] = {}
        """When each token, by its id, was last let in by this process."""
        self._buckets = limits(settings.rate) if settings.rate is not None else None
        self._buckets_with_tokens = self._buckets if settings.rate is not None else limits(DEFAULT_RATE)

    async def __aenter__(self) -> Self:
        await self.refresh()
        return await super().__aenter__()

    @property
    def guarded(self) -> bool:
        """Whether any token was ever made, so that one is needed."""
        return bool(self._known)

    async def check(self, headers: Mapping[bytes, bytes], scope: str) -> Token | None:
        """Return the token that allows the scope, or None where the door is open; else raise an AccessError."""
        if scope == OPEN:
            return None
        if self._read_at is None:
            await self.refresh()
        if not self._known and self._loopback:
            self._require_local(headers)
            return None
        if self._age_s() > STALE_S:
            raise ServiceUnavailable(
                f"the tokens were last read {self._age_s():.0f} s ago: a revocation may have been missed.",
                field="Authorization",
                remedy="Retry when Postgres answers again; /health/ready says so.",
            )
        token = await self._token(headers.get(b"authorization", b""))
        if not token.allows(scope):
            raise Forbidden(
                f"the token {token.prefix}… has not the scope {scope}.",
                field="Authorization",
                remedy=f"Use a token made with --scope {scope}.",
            )
        self.used[token.id] = datetime.now(UTC)
        return token

    def admit(self, token: Token | None, address: str) -> list[tuple[bytes, bytes]]:
        """Count a request against its asker's rate and return the headers that say what is left; or RateLimited."""
        buckets = self._buckets_with_tokens if self._known else self._buckets
        if buckets is None:
            return []
        requests = buckets[0]
        return requests.headers(requests.take(token.id if token is not None else address))

    def admit_events(self, token: Token | None, address: str, events: int) -> None:
        """Count the events of a body against its sender's rate; RateLimited where that is used up."""
        buckets = self._buckets_with_tokens if self._known else self._buckets
        if buckets is not None:
            buckets[1].take(token.id if token is not None else address, events)

    async def refresh(self) -> None:
        """Read the table now."""
        async with self._reading:
            self._known = await asyncio.to_thread(self._store.known)
            self._read_at = self._clock()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except ServiceUnavailable as error:
                _LOG.warning("the tokens cannot be read: %s", error.detail)

    def _age_s(self) -> float:
        return math.inf if self._read_at is None else self._clock() - self._read_at

    async def _token(self, authorization: bytes) -> Token:
        scheme, _, secret = authorization.partition(b" ")
        secret = secret.strip()
        token = None
        if scheme.lower() == b"bearer" and secret:
            digest = sha256(secret)
            token = self._known.get(digest)
            if token is None and self._age_s() > UNKNOWN_REFRESH_S:
                await self.refresh()
                token = self._known.get(digest)
        if token is None or not token.valid(datetime.now(UTC)):
            raise Unauthenticated(
                "a token is needed." if not secret else "the token is unknown, expired or revoked.",
                field="Authorization",
                remedy="Send Authorization: Bearer …, or set ASSAY_TOKEN; `assay token create` makes one.",
            )
        return token

    def _require_local(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what a web page in a browser on this machine could send under another name (DNS rebinding)."""
        for name in (b"host", b"origin"):
            value = headers.get(name)
            if value is None or (name == b"origin" and value == b"null"):
                continue
            text = value.decode("latin-1")
            host = _hostname(text if name == b"origin" else f"//{text}")
            if host not in _LOCAL and host != self.settings.host:
                raise Forbidden(
                    f"{text[:80]!r} is not a name of this machine.",
                    field=name.decode().capitalize(),
                    remedy="Use http://127.0.0.1 or localhost, or make a token and send it.",
                )


@functools.lru_cache(1024)
def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def address_of(client: Any) -> str:
    """Return the address that a connection comes from."""
    return str(client[0]) if client else "?"


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Litestar guard: check the scope in the route's `opt`, `read` where it says none, and the asker's rate."""
    access: Access = connection.app.state.parts.access
    scope = handler.opt.get("scope", "read")
    token = await access.check(dict(connection.scope["headers"]), scope)
    connection.state.token = token
    asked = CURRENT.get()
    if asked is not None:
        asked.token = token
    if scope != OPEN:
        left = access.admit(token, address_of(connection.scope.get("client")))
        if asked is not None:
            asked.extra += left
