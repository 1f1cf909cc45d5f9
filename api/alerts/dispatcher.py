"""The dispatcher: sends what is due in the outbox, beside everything else that the service does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from api.alerts.outbox import Outbox, is_quiet
from api.alerts.receivers import Outcome, send
from api.background.background_task import BackgroundTask
from domain.errors import AssayError
from domain.history.notices import Message
from domain.history.routes import Route

__all__ = ["Dispatcher"]

LOOK_S = 2.0
PRUNE = timedelta(hours=1)
Send = Callable[[Route, str, Message], Awaitable[Outcome]]
_LOG = logging.getLogger(__name__)


class Dispatcher(BackgroundTask):
    """Looks into the outbox every LOOK_S; each route has a task of its own, so that a slow receiver delays no other.

    Any number of processes may do so on one database: a delivery is claimed before it is sent. Appending an event neither
    waits for this task nor calls it.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        count: Callable[[str, str], None] | None = None,
        send: Send = send,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._outbox = outbox
        self._count = count
        self._send = send
        self._clock = clock
        self._active: dict[str, asyncio.Task[None]] = {}
        self._pruned: datetime | None = None

    async def look(self) -> None:
        """Look once: gather what waits, and begin to send what is due."""
        routes = await asyncio.to_thread(self._outbox.routes.current)
        now = self._clock()
        if not routes.routes:
            return
        if self._pruned is None or now - self._pruned > PRUNE:
            self._pruned = now
            await asyncio.to_thread(self._outbox.prune, now)
        names = await asyncio.to_thread(self._outbox.active, now)
        for route in routes.routes:
            if route.name not in names or is_quiet(route, now):
                continue
            await asyncio.to_thread(self._outbox.gather, route, now)
            active = self._active.get(route.name)
            if active is None or active.done():
                self._active[route.name] = asyncio.create_task(self._drain(route), name=f"alerts to {route.name}")

    async def settle(self) -> None:
        """Wait for the messages that are being sent."""
        await asyncio.gather(*self._active.values())

    async def close(self) -> None:
        """End the task and what it is sending; that is sent again, with the same id, after the lease."""
        await super().close()
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drain(self, route: Route) -> None:
        """Send what is due on a route, one message after the other."""
        try:
            while not is_quiet(route, self._clock()):
                delivery = await asyncio.to_thread(self._outbox.claim, route, self._clock())
                if delivery is None:
                    return
                outcome = await self._send(route, delivery.id, delivery.message)
                state = await asyncio.to_thread(self._outbox.record, route, delivery, outcome, self._clock())
                if self._count is not None:
                    self._count(route.name, "retried" if state == "pending" else state)
                if not outcome.delivered:
                    _LOG.warning(
                        "message %s of route %r is %s after attempt %d: %s",
                        *(delivery.id, route.name, state, delivery.attempts, outcome.detail),
                    )
        except AssayError as error:
            _LOG.warning("messages of route %r wait: %s", route.name, error)
        except Exception:
            _LOG.exception("sending messages of route %r failed; it is tried again", route.name)

    async def _follow(self) -> None:
        while True:
            try:
                await self.look()
            except AssayError as error:
                _LOG.warning("the outbox of alerts was not looked into: %s", error)
            except Exception:
                _LOG.exception("looking into the outbox of alerts failed; it is looked into again")
            await asyncio.sleep(LOOK_S)
