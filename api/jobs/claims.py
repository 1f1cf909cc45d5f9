"""Claims that wait for a job, and the task that wakes them: of one process, without a thread or a connection for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from api.background.background_task import BackgroundTask
from api.jobs.queue import CHANNEL, JobQueue, Places
from api.jobs.schedules import fire
from domain.errors import AssayError, TooBusy
from domain.jobs.jobs import Claim, ClaimRequest
from ingest.log.postgres import SETTLE

__all__ = ["JobKeeper", "Waiters", "wait_for_job"]

MOST_WAITING = 4096
TICK_S, SHORT_TICK_S = 1.0, 0.01
"""How often expired leases, due schedules and jobs whose time has come are looked for; the shorter where more are left."""
EXPIRING = 50
"""Leases that one look ends; between two looks claims are woken."""
AGAIN_S = 2.0
_LOG = logging.getLogger(__name__)

_TICK = """
SELECT clock_timestamp(),
    ARRAY(SELECT id::text FROM job_lease WHERE ended_at IS NULL AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT %(most)s),
    ARRAY(SELECT name FROM job_schedule WHERE next_at <= clock_timestamp() ORDER BY next_at),
    ARRAY(SELECT DISTINCT queue_name FROM procrastinate_jobs
        WHERE status = 'todo' AND scheduled_at > %(since)s AND scheduled_at <= clock_timestamp())
"""
_NOW = "SELECT clock_timestamp()"


class _Waiter:
    """A claim that waits: where it could do what, the queues that it was woken for, and those that it tries now."""

    def __init__(self) -> None:
        self.places = Places({}, frozenset())
        self.woken: set[str] = set()
        self.trying: set[str] = set()
        self.event = asyncio.Event()

    def matches(self, queue: str) -> bool:
        """Whether it may claim from a queue; of one that it does not know it has to find out."""
        return queue in self.places.queues or queue not in self.places.existing

    def begin(self) -> None:
        """Begin a try for all that it was woken for; who wakes it from here on asks for another."""
        self.trying |= self.woken
        self.woken = set()
        self.event.clear()


class Waiters:
    """The claims that wait. One is woken for a queue at a time, and wakes the next once it has a job from there.

    So a job that comes makes one claim try, however many wait, and ten jobs make eleven.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Waiter, None] = {}
        self._closed = False

    def wake(self, queue: str) -> None:
        """Wake the claim that has waited longest among those that may take a job from a queue."""
        for waiter in self._waiting:
            if waiter.matches(queue) and queue not in waiter.woken:
                waiter.woken.add(queue)
                waiter.event.set()
                return

    def wake_all(self) -> None:
        """Wake every claim: what was heard may not be all."""
        for waiter in self._waiting:
            waiter.event.set()

    def close(self) -> None:
        """End the waiting of all, for good: the service stops."""
        self._closed = True
        self.wake_all()

    @property
    def closed(self) -> bool:
        """Whether the service stops."""
        return self._closed

    @contextmanager
    def waiting(self) -> Iterator[_Waiter]:
        """Wait among the others; what it was woken for and did not try to the end goes on to the next."""
        if len(self._waiting) >= MOST_WAITING:
            raise TooBusy(f"{MOST_WAITING:,} claims wait.", remedy="Retry after a second, or ask another node.")
        waiter = _Waiter()
        self._waiting[waiter] = None
        try:
            yield waiter
        finally:
            del self._waiting[waiter]
            for queue in waiter.woken | waiter.trying:
                self.wake(queue)


async def wait_for_job(queue: JobQueue, waiters: Waiters, request: ClaimRequest, token: str | None) -> Claim | None:
    """Return a claim as soon as there is a job for a worker; None where none came within its `wait_s`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + request.wait_s
    with waiters.waiting() as waiter:
        while True:
            waiter.begin()
            waiter.places = await queue.places(request.worker, request.busy)
            claimed = await queue.claim(request.worker, waiter.places, token)
            if claimed.claim is not None:
                waiter.trying.add(claimed.queue)  # Where one job was there may be another.
                return claimed.claim
            if not claimed.is_current:
                continue
            waiter.trying = set()
            left = until - loop.time()
            if left <= 0 or waiters.closed:
                return None
            try:
                await asyncio.wait_for(waiter.event.wait(), left)
            except TimeoutError:
                return None


class JobKeeper(BackgroundTask):
    """Ends leases whose time is over, submits what schedules say, and wakes claims. Every node may have one.

    It rests on the clock of Postgres alone, and each row is locked and looked at again before it is changed: it does not
    matter how many nodes do so, whose clock is wrong, or when one of them was away.
    """

    def __init__(self, queue: JobQueue, waiters: Waiters) -> None:
        self._queue = queue
        self._waiters = waiters
        self._since: datetime | None = None

    async def _follow(self) -> None:
        while True:
            try:
                if await self._queue.is_ready():
                    await self._listen()
            except (psycopg.Error, AssayError) as error:
                _LOG.warning("the queue of jobs waits for Postgres: %s", error)
            except Exception:
                _LOG.exception("keeping the queue of jobs failed; it is tried again")
            await asyncio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        url = self._queue.log.url
        async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=5) as connection:
            await connection.execute(SETTLE)
            await connection.execute(f"LISTEN {CHANNEL}")
            self._waiters.wake_all()
            more = False
            while True:
                async for notification in connection.notifies(timeout=SHORT_TICK_S if more else TICK_S):
                    self._waiters.wake(notification.payload)
                more = await self._tick(connection)

    async def _tick(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """Look once, and return whether more is due."""
        if self._since is None:
            ((self._since,),) = await (await connection.execute(_NOW)).fetchall()
        ((self._since, leases, schedules, due),) = await (
            await connection.execute(_TICK, {"since": self._since, "most": EXPIRING})
        ).fetchall()
        for queue in due:
            self._waiters.wake(queue)
        for lease in leases:
            await _kept(f"the lease {lease} was not ended", self._queue.expire(lease))
        for name in schedules:
            await _kept(f"schedule {name!r} submitted nothing", fire(self._queue, name))
        return len(leases) == EXPIRING


async def _kept(failure: str, work: Awaitable[None]) -> None:
    """Do one thing of many, so that one that fails does not hold up the others; it is tried again with the next look."""
    try:
        await work
    except (AssayError, psycopg.Error, msgspec.ValidationError) as error:
        _LOG.warning("%s; it is tried again: %s", failure, error)
