"""The watch over the predictor in use: every so often whether it drifts and, where that is wanted, whether it is time to train."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from api.background.background_task import BackgroundTask
from api.background.training import train
from api.container import Container
from domain.errors import AssayError

if TYPE_CHECKING:
    from ingest.projection.history import History
    from predictor.live.drift import Drift

__all__ = ["Training", "Watch", "reason_to_train"]

LOOK_S = 60.0
DRIFTING_S = 3600.0
"""Between a training and the next one because of drift: a predictor that drifts on all the same is not trained without end."""
ACTOR = "schedule"
_LOG = logging.getLogger(__name__)


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """A training in the log: when it was recorded, at which position, and up to which one it saw the log."""

    position: int
    trained_at_position: int
    recorded_at: datetime


class Watch(BackgroundTask):
    """Looks at the predictor in force once a minute; with `every_s` it also trains, on schedule and where it drifts.

    The clock decides when it is trained, never what comes of it: a training is a function of the log up to its position.
    """

    def __init__(self, container: Container, every_s: float | None) -> None:
        self._parts = container
        self._every_s = every_s
        self._seen: tuple[History, int] | None = None

    async def look(self) -> None:
        """Look once: keep what is seen of drift, and train where there is a reason to."""
        parts = self._parts
        seen = (parts.projection.history, parts.projection.position)
        if parts.drift is None or seen != self._seen:
            parts.drift, self._seen = await asyncio.to_thread(parts.answerer.drift), seen
        if self._every_s is None or not parts.settings.appends or parts.circuit.away is not None:
            return
        last, measured = await asyncio.to_thread(_newest, parts)
        why = reason_to_train(parts.drift, last, measured, self._every_s, datetime.now(UTC))
        if why is not None and not parts.training.locked():
            _LOG.info("training %s", why)
            trained = await train(parts, ACTOR, why=f"trained {why}")
            _LOG.info("trained %s: %s", trained["digest"], trained["reason"])

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_S, self._every_s or LOOK_S))
            try:
                await self.look()
            except AssayError as error:
                _LOG.warning("the predictor was not looked at: %s", error)
            except Exception:
                _LOG.exception("the watch over the predictor failed; it looks again")


def _newest(container: Container) -> tuple[Training | None, int]:
    """Return the newest training, and the position of the newest measurement."""
    with container.tables(None) as tables:
        rows = tables.predictors().to_pylist()
        last = {name: rows[-1][name] for name in Training.__struct_fields__} if rows else None
        return Training(**last) if last else None, tables.measured_position()


def reason_to_train(drift: Drift, last: Training | None, measured: int, every_s: float, now: datetime) -> str | None:
    """Return why it is time to train, or None: nothing was measured since the last training, or it was not long ago."""
    if measured <= (last.trained_at_position if last is not None else 0):
        return None
    if last is None:
        return "on schedule, for the first time"
    age = now - last.recorded_at
    if age >= timedelta(seconds=every_s):
        return "on schedule"
    fresh = drift.newest_position is not None and drift.newest_position > last.position
    if drift.flag and fresh and age >= timedelta(seconds=min(DRIFTING_S, every_s)):
        return "because the predictor in force drifts"
    return None
