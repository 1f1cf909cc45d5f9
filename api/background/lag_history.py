"""How far the tables were behind the log, minute by minute, for a day at most: kept in memory, so since this process began."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from api.background.background_task import BackgroundTask
from domain.answers.operations import Minute
from domain.errors import AssayError

if TYPE_CHECKING:
    from ingest.projection.lag import Health

__all__ = ["KEPT", "LagHistory"]

Lag = TypeVar("Lag", int, float)
LOOK_S = 10.0
KEPT = 24 * 60
_LOG = logging.getLogger(__name__)


class LagHistory(BackgroundTask):
    """Looks at the projection's health every LOOK_S and keeps the worst of each minute."""

    def __init__(
        self, health: Callable[[], Health], *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._health = health
        self._clock = clock
        self._kept: deque[Minute] = deque(maxlen=KEPT)

    def kept(self) -> list[Minute]:
        """Return the minutes that were looked at, oldest first."""
        return list(self._kept)

    def look(self) -> None:
        """Look once. A minute in which nobody could look is not there: the process stood still."""
        health = self._health()
        at = self._clock().replace(second=0, microsecond=0)
        before = self._kept.pop() if self._kept and self._kept[-1].at == at else None
        self._kept.append(
            Minute(
                at=at,
                lag_events=_worst(before.lag_events if before else None, health.lag_events),
                lag_seconds=_worst(before.lag_seconds if before else None, health.lag_seconds),
            )
        )

    async def _follow(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.look)
            except AssayError as error:
                _LOG.warning("the lag was not looked at: %s", error)
            except Exception:
                _LOG.exception("looking at the lag failed; it is looked at again")
            await asyncio.sleep(LOOK_S)


def _worst(before: Lag | None, now: Lag | None) -> Lag | None:
    return max((item for item in (before, now) if item is not None), default=None)
