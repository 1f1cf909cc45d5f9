"""Prepare answers while nobody asks: what the corrections by rows of one's own take, the first question does not wait for."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from api.background.background_task import BackgroundTask
from api.container import Container
from domain.errors import AssayError

if TYPE_CHECKING:
    from ingest.projection.history import History

__all__ = ["Preparation"]

LOOK_S = 2.0
QUIET_S = 10.0
"""Seconds without a new event after which answers are prepared: an import or a run that posts row by row is not followed."""
MEASURING_S = 600.0
"""The same while a run is under way: it may be measuring this machine, and what goes on beside it would disturb it."""
_UNDER_WAY = """
SELECT count(*) FROM runs WHERE origin = 'measured' AND finished_position IS NULL AND retracted_because IS NULL
"""
_LOG = logging.getLogger(__name__)


class Preparation(BackgroundTask):
    """Makes what answers at the newest position begin with, once for each state of the tables that stays for a while."""

    def __init__(self, container: Container) -> None:
        self._parts = container
        self._seen: tuple[History, int] | None = None
        self._since = 0.0
        self._not_before: datetime | None = None
        self._done = False
        self._ending = threading.Event()

    async def look(self) -> None:
        """Look once: prepare where the log has been quiet for long enough."""
        projection, now = self._parts.projection, asyncio.get_running_loop().time()
        seen = (projection.history, projection.position)
        if seen != self._seen:
            self._seen, self._since, self._not_before, self._done = seen, now, None, False
        if self._done or now - self._since < QUIET_S:
            return
        if self._not_before is None:
            self._not_before = await asyncio.to_thread(self._end_of_run)
        if datetime.now(UTC) < self._not_before:
            return
        await asyncio.to_thread(self._parts.answerer.prepare, self._ending.is_set)
        self._done = True

    async def close(self) -> None:
        """End the task, and what it has under way after the device that it is at."""
        self._ending.set()
        await super().close()

    def _end_of_run(self) -> datetime:
        """Return until when a run that has not ended counts as under way; the beginning of time where there is none."""
        with self._parts.tables(None) as tables:
            ((runs,),) = tables.cursor.execute(_UNDER_WAY).fetchall()
            heard = tables.recorded_at()
        return (
            heard + timedelta(seconds=MEASURING_S) if runs and heard is not None else datetime.min.replace(tzinfo=UTC)
        )

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except AssayError as error:
                _LOG.warning("answers were not prepared: %s", error)
            except Exception:
                _LOG.exception("preparing answers failed; the first question does it")
                self._done = True
