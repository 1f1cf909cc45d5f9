"""What the service says: one JSON object a line on stderr, with the ids of the request that it is about.

`time`, `level`, `message` and `logger` are always there; within a request `request_id` and `token` (its prefix and
name, never more); in the line that ends a request also `method`, `path`, `status`, `duration_ms`, `client` and, where
it was refused `problem`, where events were sent `batch`. Where spans are recorded, `trace_id` as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from domain import spans
from domain.permissions import PREFIX, Token

__all__ = ["CURRENT", "AccessLog", "Batch", "RequestRecord", "configure", "dictconfig", "header", "request_id"]

ID_LENGTH = 64
_ID_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_SECRET = re.compile(PREFIX.encode() + rb"[A-Za-z0-9_-]{6,}")
_PROCESS = secrets.token_hex(6)
_NUMBERS = count(1)
FLUSH_S = 0.2
FLUSH_LINES = 2000


def request_id(sent: bytes | None) -> str:
    """Return the id that the request came with, where it is one to 64 letters, digits, `.`, `_`, `-`; else a new one."""
    if sent is not None and 0 < len(sent) <= ID_LENGTH and _ID_BYTES.issuperset(sent) and not _SECRET.search(sent):
        return sent.decode()
    return f"{_PROCESS}-{next(_NUMBERS):x}"


class Batch(msgspec.Struct, frozen=True):
    """What became of the events of a request, and the positions of the first and the last of those in the log."""

    first: int | None
    last: int | None
    accepted: int
    duplicate: int
    rejected: int


class RequestRecord:
    """One request, as logs and metrics tell of it; filled while it is answered."""

    __slots__ = ("batch", "begun", "extra", "id", "method", "path", "problem", "route", "status", "token")

    def __init__(self, identifier: str, method: str, path: str) -> None:
        self.id = identifier
        self.method = method
        # Whoever puts a secret where it does not belong must not find it in the log.
        self.path = _SECRET.sub(b"...", path.encode()).decode() if PREFIX in path else path
        self.begun = time.perf_counter()
        self.status = 0
        self.route: str | None = None
        self.token: Token | None = None
        self.problem: str | None = None
        self.batch: Batch | None = None
        self.extra: list[tuple[bytes, bytes]] = []

    @property
    def asker(self) -> str | None:
        """The token's prefix and name."""
        return None if self.token is None else f"{self.token.prefix}… {self.token.name}"


CURRENT: ContextVar[RequestRecord | None] = ContextVar("asked", default=None)
"""The request that is being answered."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        request = CURRENT.get()
        if request is not None:
            document["request_id"] = request.id
            if request.token is not None:
                document["token"] = request.asker
        if (trace := spans.trace_id()) is not None:
            document["trace_id"] = trace
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(document).decode()


def dictconfig(level: str) -> dict[str, Any]:
    """Return the configuration of `logging` for a process of the service."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": f"{__name__}.JsonLines"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
        "root": {"level": level.upper(), "handlers": ["stderr"]},
        "loggers": {
            name: {"level": "WARNING"} for name in ("litestar", "psycopg.pool", "httpx", "granian.access", "asyncio")
        },
    }


def configure(level: str) -> None:
    """Make every logger of this process write JSON lines to stderr."""
    import logging.config

    logging.config.dictConfig(dictconfig(level))


class _Line(msgspec.Struct, omit_defaults=True):
    """The line of a request; it is made and encoded in half the time that a dictionary takes."""

    time: str
    level: str
    message: str
    logger: str
    request_id: str
    method: str
    path: str
    status: int
    duration_ms: float
    client: str
    token: str | None = None
    problem: str | None = None
    batch: Batch | None = None
    trace_id: str | None = None


class AccessLog:
    """Writes one line a request, a few at a time: a system call each would cost more than the line."""

    def __init__(self, level: str) -> None:
        self.enabled = logging.getLevelName(level.upper()) <= logging.INFO
        self._lines: list[bytes] = []
        self._second, self._begin = -1, ""
        self._due: asyncio.TimerHandle | None = None

    def add(self, request: RequestRecord, client: str, duration_s: float) -> None:
        """Write the line of a request that was answered."""
        line = _Line(
            self._now(),
            "info",
            "answered",
            "access",
            request.id,
            request.method,
            request.path,
            request.status,
            round(duration_s * 1000, 3),
            client,
            request.asker,
            request.problem,
            request.batch,
            spans.trace_id(),
        )
        self._lines.append(msgspec.json.encode(line))
        if len(self._lines) >= FLUSH_LINES:
            self.flush()
        elif self._due is None:
            self._due = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def _now(self) -> str:
        """Return the time in ISO 8601, whose date and second are formatted once a second."""
        second, millisecond = divmod(time.time_ns() // 1_000_000, 1000)
        if second != self._second:
            self._second, self._begin = second, datetime.fromtimestamp(second, UTC).isoformat()[:-6]
        return f"{self._begin}.{millisecond:03d}+00:00"

    def flush(self) -> None:
        """Write what waits."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        lines, self._lines = self._lines, []
        if lines:
            lines.append(b"")
            rest = memoryview(b"\n".join(lines))
            while rest:
                rest = rest[os.write(sys.stderr.fileno(), rest) :]


def header(headers: Mapping[bytes, bytes], name: bytes) -> str:
    """Return a header as text; empty where it was not sent."""
    return headers.get(name, b"").decode("latin-1")
