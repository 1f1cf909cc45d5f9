"""The last position of the log, followed once for all who listen to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from api.background.background_task import BackgroundTask
from domain.errors import AssayError
from ingest.log.event_log import EventLog

__all__ = ["Head", "Positions"]

_LOG = logging.getLogger(__name__)


class Head(NamedTuple):
    """The end of the log; `diverged` where it lost events since the head before, so that positions begin anew."""

    position: int
    epoch: int
    diverged: bool


class Positions(BackgroundTask):
    """Tells listeners the last position whenever it has grown. Postgres is asked only while somebody listens."""

    def __init__(self, log: EventLog, *, poll_s: float = 0.1, beat_s: float = 10.0) -> None:
        self._log = log
        self._poll_s = poll_s
        self._beat_s = beat_s
        self._last = 0
        self._epoch: int | None = None
        self._breaks = 0
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
        """Say that something was appended here, so that followers hear of it at once."""
        self._wake.set()

    async def after(self, position: int) -> AsyncIterator[Head | None]:
        """Yield each head higher than the one before, from `position` on; None as a sign of life.

        Where the log lost events, a head that says so comes, whatever its position.
        """
        self._listeners += 1
        self._wake.set()
        breaks = self._breaks

        def changed() -> bool:
            return self._last > position or self._breaks > breaks or self._closed

        try:
            while not self._closed:
                try:
                    async with asyncio.timeout(self._beat_s), self._grown:
                        await self._grown.wait_for(changed)
                except TimeoutError:
                    yield None
                    continue
                diverged = self._breaks > breaks
                if diverged or self._last > position:
                    position, breaks = self._last, self._breaks
                    yield Head(position, self._epoch or 0, diverged)
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
            last, epoch = await self._log.head()
        except AssayError as error:
            _LOG.warning("cannot follow the log: %s", error)
            await asyncio.sleep(1.0)
            return
        diverged = last < self._last or self._epoch not in (None, epoch)
        if diverged or last > self._last:
            async with self._grown:
                self._breaks += diverged
                self._last, self._epoch = last, epoch
                self._grown.notify_all()
        self._epoch = epoch
