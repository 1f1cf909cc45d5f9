"""The life of a service: what is checked before it starts, what is opened with it, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from litestar import Litestar

from api.background.shipped_data import load_into_empty
from api.background.span_export import exported
from api.container import Container
from api.http import logs
from api.http.access import require_tokens
from api.http.connections import CONNECTIONS, AddressLimit, connection_limit
from api.http.tokens import TokenStore
from api.jobs.claims import JobKeeper
from api.settings import Settings
from domain.errors import AssayError, ProjectionBehind, ServiceUnavailable, unusable_file
from ingest.log import migrate
from ingest.log.postgres import Database, open_database

__all__ = ["checked_database", "opened"]

SUPERVISION_S = 0.3
DRAIN_S = 5.0
FIRST_S = 20.0
_LOG = logging.getLogger(__name__)


def checked_database(settings: Settings) -> Database:
    """Return the database, its schema up to date; raise what forbids to serve with these settings.

    An embedded server gets its schema here; one of the user's own must have it (`assay db upgrade`).
    """
    database = open_database(settings.home, settings.database_url)
    try:
        if database.embedded:
            migrate.upgrade(database.url)
        else:
            migrate.require_current(database.url)
        require_tokens(settings, TokenStore(database.url))
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def _remembered(app: Litestar) -> Iterator[None]:
    """Leave what forbids to start at `app.state.failure`: the server tells only that there was something."""
    try:
        yield
    except AssayError as error:
        app.state.failure = error
        raise
    except OSError as error:
        app.state.failure = unusable_file(error)
        raise


@asynccontextmanager
async def opened(app: Litestar, settings: Settings) -> AsyncIterator[None]:
    """Open all parts for as long as the application lives; they are at `app.state.parts`."""
    logs.configure(settings.log_level)
    async with AsyncExitStack() as stack:
        stack.enter_context(_remembered(app))
        stack.enter_context(exported("assay"))
        if settings.supervisor is not None:
            threading.Thread(target=_end_with, args=(settings.supervisor,), name="supervisor", daemon=True).start()
        database = await asyncio.to_thread(_patiently, settings)
        stack.push_async_callback(asyncio.to_thread, database.close)
        parts = Container(settings, database)
        stack.callback(parts.access_log.flush)
        await stack.enter_async_context(parts.log)
        await stack.enter_async_context(parts.circuit)
        await stack.enter_async_context(parts.access)
        await stack.enter_async_context(parts.coalescer)
        await stack.enter_async_context(parts.positions)
        if settings.appends:
            await stack.enter_async_context(JobKeeper(parts.jobs, parts.waiters))
        loaded = 0
        if settings.shipped_data and settings.role == "all":
            loaded = await load_into_empty(parts.log)
        if parts.projects:
            await asyncio.to_thread(parts.projection.start)
            stack.push_async_callback(asyncio.to_thread, parts.projection.stop)
            with suppress(ProjectionBehind):
                # The first answer shows what ships; tables that take longer say that they are behind.
                await asyncio.to_thread(parts.projection.wait_for, loaded, FIRST_S)
            from api.alerts.dispatcher import Dispatcher
            from api.alerts.watch import AlertWatch
            from api.background.preparation import Preparation
            from api.background.watch import Watch

            await stack.enter_async_context(Watch(parts, settings.retrain_every_s))
            await stack.enter_async_context(Preparation(parts))
            await stack.enter_async_context(AlertWatch(parts, parts.outbox.enqueue))
            await stack.enter_async_context(Dispatcher(parts.outbox, count=parts.metrics.alert_message))
        if parts.minutes is not None:
            await stack.enter_async_context(parts.minutes)
        most = max(1, min(settings.connections_per_address, connection_limit(CONNECTIONS) // 2))
        stack.enter_context(AddressLimit(most, parts.active))
        app.state.parts = parts
        # What is loaded now stays; a body of a thousand events makes no garbage that needs a search for cycles.
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        if settings.supervisor is not None:
            _end_streams_at_the_end(parts)
            _announce(settings.ready_folder)
        yield
    if settings.supervisor is not None:
        # Everything is closed; taking the modules apart would hold up a restart by seconds.
        os._exit(0)


def _end_streams_at_the_end(container: Container) -> None:
    """Make SIGTERM end the answers that would go on for ever too: the server, which hears it as well, waits for them."""
    loop = asyncio.get_running_loop()

    def ending(*_: object) -> None:
        asyncio.run_coroutine_threadsafe(container.end_waiting(), loop)

    # The loop's own handlers are woken through a file descriptor, whatever Python's handler is.
    signal.signal(signal.SIGTERM, ending)


def _announce(folder: Path | None) -> None:
    """Tell the process that started this worker that it can answer: the worker before it may end."""
    if folder is not None:
        (folder / str(os.getpid())).touch()


def _end_with(supervisor: int) -> None:
    """End this worker when the process that started it is gone: nobody else would, and the port would stay taken."""
    while os.getppid() == supervisor:
        time.sleep(SUPERVISION_S)
    _LOG.error("the process that started this worker is gone; it ends too")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(DRAIN_S)
    os._exit(1)


def _patiently(settings: Settings) -> Database:
    """Return the checked database; a worker waits for a Postgres that is away, as its siblings that are up do."""
    while True:
        try:
            return checked_database(settings)
        except ServiceUnavailable as error:
            if settings.supervisor is None:
                raise
            _LOG.warning("waiting for Postgres: %s", error)
            time.sleep(1.0)
