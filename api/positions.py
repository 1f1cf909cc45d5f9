"""The last position of the log, followed once for all who listen to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from api.following import Following
from domain.errors import AssayError
from ingest.log import EventLog

__all__ = ["Positions"]

_LOG = logging.getLogger(__name__)


class Positions(Following):
    """Tells listeners the last position whenever it has grown. Postgres is asked only while somebody listens."""

    def __init__(self, log: EventLog, *, poll_s: float = 0.1, beat_s: float = 10.0) -> None:
        self._log = log
        self._poll_s = poll_s
        self._beat_s = beat_s
        self._last = 0
        self._listeners = 0
        self._closed = False
        self._grown = asyncio.Condition()
        self._wake = asyncio.Event()

    async def close(self) -> None:
        """End every listener."""
        self._closed = True
        await super().close()
        async with self._grown:
            self._grown.notify_all()

    def kick(self) -> None:
        """Say that something was appended here, so that it is told at once."""
        self._wake.set()

    async def after(self, position: int) -> AsyncIterator[int | None]:
        """Yield each last position higher than the one before, from `position` on; None as a sign of life."""
        self._listeners += 1
        self._wake.set()
        try:
            while not self._closed:
                try:
                    async with asyncio.timeout(self._beat_s), self._grown:
                        await self._grown.wait_for(lambda seen=position: self._last > seen or self._closed)  # type: ignore[misc]
                except TimeoutError:
                    yield None
                    continue
                if self._last > position:
                    position = self._last
                    yield position
        finally:
            self._listeners -= 1

    async def _follow(self) -> None:
        while True:
            if self._listeners:
                await self._look()
            self._wake.clear()
            try:
                async with asyncio.timeout(self._poll_s if self._listeners else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        try:
            last = await self._log.last_position()
        except AssayError as error:
            _LOG.warning("cannot follow the log: %s", error)
            await asyncio.sleep(1.0)
            return
        if last > self._last:
            async with self._grown:
                self._last = last
                self._grown.notify_all()
