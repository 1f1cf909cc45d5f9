"""The parts of one running service, opened and closed with it: database, log, tables, predictor, access."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from litestar import Litestar

from api.access import Access, require_tokens
from api.positions import Positions
from api.settings import Settings
from api.snapshot import Snapshots
from api.tokens import TokenStore
from domain.errors import AssayError, PartMissing, ProjectionBehind, ServiceUnavailable, UsageError
from ingest import migrate
from ingest.artifacts import ArtifactStore
from ingest.coalescer import Coalescer
from ingest.log import EventLog
from ingest.postgres import Database, open_database
from ingest.projection import Projection, Tables
from predictor.service import Answerer

__all__ = ["BODIES", "QUERIES", "Parts", "checked_database", "opened", "predictor_in_force"]

BODIES = 16
"""Large bodies that are read and appended at a time; the next gets TooBusy before it takes memory."""
QUERIES = 4
"""Child processes of free queries at a time; the next gets TooBusy."""
WAIT_S = 2.0
"""How long a read waits for the tables to reach its `min_position`."""


class Parts:
    """What the routes work with. `projection` and `answerer` are None in the role `ingest`."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.log = EventLog(database.url)
        self.coalescer = Coalescer(self._append)
        self.positions = Positions(self.log)
        self.tokens = TokenStore(database.url)
        self.access = Access(settings, self.tokens)
        self.artifacts = ArtifactStore(database.url)
        self.counted: Counter[str] = Counter()
        self.bodies = 0
        self.queries = 0
        self.training = asyncio.Lock()
        self._projection = Projection(settings.home, database) if settings.projects else None
        self._snapshots = Snapshots(settings.home / "snapshots")
        self._answerer = (
            Answerer(self._projection.cursor, lambda digest: self.artifacts.get(digest).content)
            if self._projection
            else None
        )

    @property
    def projection(self) -> Projection:
        """The tables; PartMissing in a process that has none."""
        if self._projection is None:
            raise _no_tables()
        return self._projection

    @property
    def answerer(self) -> Answerer:
        """What answers questions; PartMissing in a process that has no tables."""
        if self._answerer is None:
            raise _no_tables()
        return self._answerer

    @property
    def snapshots(self) -> Snapshots:
        """Copies of the tables that child processes read."""
        return self._snapshots

    @property
    def projects(self) -> bool:
        """Whether this process has tables."""
        return self._projection is not None

    async def _append(self, events: Any) -> Any:
        return await self.log.append(events)

    def appended(self) -> None:
        """Say that the log has grown."""
        if self._projection is not None:
            self._projection.kick()
        self.positions.kick()

    async def reach(self, position: int | None, field: str = "min_position") -> None:
        """Return once the tables hold `position`; ProjectionBehind where that takes too long or it does not exist."""
        if position is None:
            return
        if position < 0:
            raise UsageError("a position is 0 or more.", field=field, remedy="Leave it out for the newest.")
        projection = self.projection
        projection.kick()
        if projection.position >= position:
            return
        last = await self.log.last_position()
        if position > last:
            raise UsageError(
                f"the log ends at position {last}.", field=field, remedy="Name a position that was reached."
            )
        until = asyncio.get_running_loop().time() + WAIT_S
        while projection.position < position:
            if asyncio.get_running_loop().time() > until:
                raise ProjectionBehind(
                    f"the tables are at position {projection.position}, not yet at {position}.",
                    field=field,
                    remedy="Retry after a second; /health/ready shows the lag.",
                )
            await asyncio.sleep(0.005)

    def snapshot(self) -> Any:
        """Return the path of a copy of the tables at their position, and the position; for a child process."""
        with self.projection.tables() as tables:
            position = tables.position
        return self.snapshots.at(self.projection, position)

    def tables(self, as_of: int | None) -> Any:
        """Return the context manager of Tables over one unmoving state."""
        return self.projection.tables(as_of)


def predictor_in_force(tables: Tables) -> str:
    """Return the digest of the predictor at the position that the tables tell of; `shipped` before any was trained."""
    rows = tables.predictors().column("digest")
    return str(rows[-1]) if len(rows) else "shipped"


def _no_tables() -> PartMissing:
    return PartMissing(
        "this process takes events only; it has no tables.", field="role", remedy="Ask a node of role query or all."
    )


def checked_database(settings: Settings) -> Database:
    """Return the database, its schema up to date; raise what forbids to serve with these settings.

    An embedded server gets its schema here; one of the user's own must have it (`assay db upgrade`).
    """
    database = open_database(settings.home, settings.database_url)
    try:
        if database.embedded:
            migrate.upgrade(database.url)
        elif migrate.revision(database.url) != migrate.head():
            raise ServiceUnavailable(
                "the schema of the database is not the one of this version.",
                field="ASSAY_DATABASE_URL",
                remedy="Run `assay db upgrade` once.",
            )
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


@asynccontextmanager
async def opened(app: Litestar, settings: Settings) -> AsyncIterator[None]:
    """Open all parts for as long as the application lives; they are at `app.state.parts`."""
    async with AsyncExitStack() as stack:
        stack.enter_context(_remembered(app))
        database = await asyncio.to_thread(checked_database, settings)
        stack.push_async_callback(asyncio.to_thread, database.close)
        parts = Parts(settings, database)
        await stack.enter_async_context(parts.log)
        await stack.enter_async_context(parts.coalescer)
        await stack.enter_async_context(parts.positions)
        if parts.projects:
            await asyncio.to_thread(parts.projection.start)
            stack.push_async_callback(asyncio.to_thread, parts.projection.stop)
        app.state.parts = parts
        yield
