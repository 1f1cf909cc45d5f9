"""Whether Postgres answers, asked all the time beside the requests, so that none of them has to wait to find out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import psycopg

from api.background.background_task import BackgroundTask
from domain.errors import AssayError, ServiceUnavailable

__all__ = ["Circuit"]

_LOG = logging.getLogger(__name__)
PROBE_S = 1.0
ANSWER_S = 2
"""A Postgres that takes longer for `SELECT 1` counts as away."""


class Circuit(BackgroundTask):
    """Closed while Postgres answers. While it is open, requests that need Postgres are refused at once."""

    def __init__(self, url: str, *, revive: Callable[[], object] | None = None) -> None:
        """`revive` starts the server again, where it is our own."""
        self._url = url
        self._revive = revive
        self._why: str | None = None
        self._since = 0.0

    @property
    def away(self) -> str | None:
        """Why Postgres counts as away; None while it answers."""
        return self._why

    def require(self) -> None:
        """Raise ServiceUnavailable while Postgres is away."""
        if self._why is not None:
            raise ServiceUnavailable(
                f"Postgres has been away for {time.monotonic() - self._since:.0f} s: {self._why}.",
                remedy="Retry after Retry-After; what was not acknowledged may be sent again.",
            )

    def trip(self, why: str) -> None:
        """Say that a request found Postgres away; the next probe decides."""
        if self._why is None:
            self._why, self._since = why.rstrip("."), time.monotonic()
            _LOG.warning("Postgres is away: %s", why)

    async def _start_again(self, revive: Callable[[], object]) -> None:
        try:
            await asyncio.to_thread(revive)
        except AssayError as error:
            _LOG.warning("restart the service: the embedded Postgres cannot be started again: %s", error)

    async def _follow(self) -> None:
        connection: psycopg.AsyncConnection | None = None
        try:
            while True:
                try:
                    async with asyncio.timeout(ANSWER_S):
                        if connection is None or connection.closed:
                            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
                        await connection.execute("SELECT 1")
                except (TimeoutError, psycopg.Error) as error:
                    await _close(connection)
                    connection = None
                    self.trip(str(error).strip().replace("\n", " ")[:200] or f"no answer within {ANSWER_S} s")
                    if self._revive is not None and isinstance(error, psycopg.OperationalError):
                        await self._start_again(self._revive)
                else:
                    if self._why is not None:
                        _LOG.warning("Postgres is back after %.1f s", time.monotonic() - self._since)
                        self._why = None
                await asyncio.sleep(PROBE_S)
        finally:
            await _close(connection)


async def _close(connection: psycopg.AsyncConnection | None) -> None:
    if connection is not None:
        await connection.close()
