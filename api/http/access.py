"""Who may do what: tokens where any was ever made, and an open door for this machine's own programs where none was."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Self

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.background.background_task import BackgroundTask
from api.http.body import has_body
from api.http.logs import CURRENT
from api.http.media import JSON, NDJSON
from api.http.problems import RateLimited, UnsupportedMedia
from api.http.tokens import TokenStore, sha256
from api.settings import DEFAULT_RATE, Rate, Settings
from domain.errors import Forbidden, ServiceUnavailable, Unauthenticated, UsageError
from domain.hosts import ENVIRONMENT as ALLOWED_HOSTS
from domain.hosts import is_same_origin
from domain.permissions import Token

__all__ = ["OPEN", "Access", "Buckets", "address_of", "guard", "limits", "require_tokens"]

BURST_S = 2.0
"""A bucket holds what its rate gives in this time."""
KEPT = 10_000
"""So many buckets; beyond that the full ones, which say nothing, are forgotten."""


class _Bucket:
    __slots__ = ("at", "balance")

    def __init__(self, balance: float, at: float) -> None:
        self.balance = balance
        self.at = at


class Buckets:
    """What each asker has left of one kind of thing. What is asked at once may exceed the bucket: it is then owed.

    So a body of 5,000 events passes under any limit, and the next one waits until it is paid.
    """

    def __init__(self, noun: str, per_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.noun = noun
        self.per_s = per_s
        self.capacity = per_s * BURST_S
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, asker: str, amount: float = 1.0) -> float:
        """Take from the asker's bucket and return what is left; RateLimited, and nothing taken, where it is empty."""
        now = self._clock()
        bucket = self._buckets.get(asker)
        if bucket is None:
            bucket = self._new(asker, now)
        else:
            bucket.balance = min(self.capacity, bucket.balance + (now - bucket.at) * self.per_s)
            bucket.at = now
        least = min(1.0, amount)
        if bucket.balance < least:
            wait_s = math.ceil((least - bucket.balance) / self.per_s)
            error = RateLimited(
                f"more than {self.per_s:g} {self.noun} a second.",
                field="Authorization",
                remedy=f"Come back in {wait_s} s, or send more events a request; ASSAY_RATE_LIMIT sets the limit.",
            )
            error.retry_after_s = float(wait_s)
            raise error
        bucket.balance -= amount
        return bucket.balance

    def headers(self, left: float) -> list[tuple[bytes, bytes]]:
        """Return the RateLimit fields of the IETF draft: the policy, what is left, and when the bucket is full."""
        full_s = max(0, math.ceil((self.capacity - left) / self.per_s))
        policy = f'"{self.noun}";q={int(self.capacity)};w={int(BURST_S)}'
        return [
            (b"ratelimit-policy", policy.encode()),
            (b"ratelimit", f'"{self.noun}";r={max(0, int(left))};t={full_s}'.encode()),
        ]

    def _new(self, asker: str, now: float) -> _Bucket:
        if len(self._buckets) >= KEPT:
            self._buckets = {
                name: kept
                for name, kept in self._buckets.items()
                if kept.balance + (now - kept.at) * self.per_s < self.capacity
            }
        if len(self._buckets) >= KEPT:
            self._buckets.clear()
        bucket = self._buckets[asker] = _Bucket(self.capacity, now)
        return bucket


def limits(rate: Rate) -> tuple[Buckets, Buckets] | None:
    """Return the buckets of requests and of events, None where the rate has no end."""
    if math.isinf(rate.requests_per_s) and math.isinf(rate.events_per_s):
        return None
    return Buckets("requests", rate.requests_per_s), Buckets("events", rate.events_per_s)


_LOG = logging.getLogger(__name__)
REFRESH_S = 5.0
"""A revocation is effective within this time, on every worker that reaches Postgres."""
STALE_S = 30.0
"""And within this time on every other."""
UNKNOWN_REFRESH_S = 0.5
"""Unknown secrets make a worker read the table at most so often."""
OPEN = "open"
"""Scope of the routes that need no token."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SAME_SITE = frozenset({b"none", b"same-origin"})

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


class Access(BackgroundTask):
    """Recognises tokens by what was last read of the table; no request waits for Postgres to be let in.

    An async context manager, which reads the table every REFRESH_S. A secret that is not known yet makes it read at
    once, so that a new token works at once. What is older than STALE_S lets nobody in: a revocation may be in it.
    """

    def __init__(self, settings: Settings, store: TokenStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._loopback = settings.loopback
        self._hosts = settings.hosts()
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

    async def check(self, headers: Mapping[bytes, bytes], scope: str, *, writes: bool = False) -> Token | None:
        """Return the token that allows the scope, or None where no token exists; else raise an AccessError.

        `writes` says that the request may change something. Requests that a foreign web page made are refused: those
        that write always, those that read where no token protects the answer. An open route reads for anybody.
        """
        if scope == OPEN and not writes:
            return None
        if self._read_at is None:
            await self.refresh()
        is_open = not self._known and self._loopback
        if is_open or self._hosts.configured:
            self._require_host(headers)
        if is_open or writes:
            self._require_same_origin(headers)
        if is_open or scope == OPEN:
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

    def _require_host(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a Host that is no name of this service: a page may have been resolved to it (DNS rebinding)."""
        host = headers.get(b"host")
        if host is not None and not self._hosts.admits(host.decode("latin-1")):
            raise Forbidden(
                f"{host.decode('latin-1')[:80]!r} is not a name of this service.",
                field="Host",
                remedy=f"Use http://127.0.0.1 or localhost, or list the name in {ALLOWED_HOSTS}.",
            )

    def _require_same_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what a browser sends for a page of another origin; programs send neither of these headers."""
        site = headers.get(b"sec-fetch-site")
        if site is not None and site not in _SAME_SITE:
            raise _foreign("Sec-Fetch-Site", site)
        origin = headers.get(b"origin")
        if origin is None:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        if not is_same_origin(origin.decode("latin-1"), host, self._hosts):
            raise _foreign("Origin", origin)


def _foreign(header: str, value: bytes) -> Forbidden:
    return Forbidden(
        f"{header} {value.decode('latin-1')[:80]!r}: a web page of another origin sent this request.",
        field=header,
        remedy="Use a program, or a page that this service's own address serves.",
    )


def require_json(headers: Mapping[bytes, bytes], *, lines: bool = False) -> None:
    """Raise UnsupportedMedia where a request has a body that is not declared as JSON, or as `lines` of it.

    A web page can send other types to any server without asking it first.
    """
    if not has_body(headers):
        return
    sent = headers.get(b"content-type", b"").decode("latin-1")
    media = sent.partition(";")[0].strip().lower()
    is_json = media == "application/json" or (media.startswith("application/") and media.endswith("+json"))
    if media != NDJSON if lines else not is_json:
        raise UnsupportedMedia(
            f"{media[:80]!r} is not taken." if media else "the body has no media type.",
            field="Content-Type",
            remedy=f"Send Content-Type: {NDJSON if lines else JSON}.",
        )


def address_of(client: Any) -> str:
    """Return the address that a connection comes from."""
    return str(client[0]) if client else "?"


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Litestar guard: check the scope in the route's `opt`, `read` where it says none, and the asker's rate.

    A route with `raw` in its `opt` takes bytes of any media type; a web page cannot send its method unasked. One with `lines`
    takes lines of JSON. An open route
    with `json` in its `opt` takes a body that is declared as JSON.
    """
    access: Access = connection.app.state.parts.access
    scope = handler.opt.get("scope", "read")
    headers = dict(connection.scope["headers"])
    token = await access.check(headers, scope, writes=connection.scope.get("method") not in _SAFE)
    connection.state.token = token
    request = CURRENT.get()
    if request is not None:
        request.token = token
    if handler.opt.get("json"):
        require_json(headers)
    if scope != OPEN:
        if not handler.opt.get("raw"):
            require_json(headers, lines=handler.opt.get("lines", False))
        left = access.admit(token, address_of(connection.scope.get("client")))
        if request is not None:
            request.extra += left
