"""The parts of one running service, opened and closed with it: database, log, tables, predictor, access."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from api.background.audit import operation, record
from api.background.circuit import Circuit
from api.background.metrics import Metrics
from api.background.positions import Positions
from api.http import logs
from api.http.access import Access, Buckets
from api.http.body_budget import BodyBudget
from api.http.connections import ActivePeers
from api.http.keys import KeyStore, SigningKeys
from api.http.response_cache import ResponseCache
from api.http.tokens import TokenStore
from api.jobs.claims import Waiters
from api.jobs.queue import JobQueue
from api.settings import Settings
from domain import spans
from domain.errors import AssayError, PartMissing, ProjectionBehind, ServiceUnavailable, UsageError
from domain.events import Decoded
from ingest.log.append import Appended, Expected
from ingest.log.artifacts import ArtifactStore
from ingest.log.coalescer import Coalescer
from ingest.log.event_log import Archived, EventLog, Transaction
from ingest.log.postgres import Database
from ingest.sharing.peers import ArrivalReader
from predictor.answering.table_cache import Reading, Readings

if TYPE_CHECKING:
    from api.alerts.outbox import Outbox
    from api.background.lag_history import LagHistory
    from api.background.table_copies import Snapshots
    from api.reads.examinations import Examinations
    from ingest.projection import Tables
    from ingest.projection.divergence import Divergence
    from ingest.projection.projector import Projection
    from ingest.projection.snapshot_reader import Memory
    from predictor.live.answerer import LiveAnswerer
    from predictor.live.drift import Drift

__all__ = ["QUERIES", "Container"]

QUERIES = 4
"""Child processes of free queries at a time; the next gets TooBusy."""
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
COMMIT_S = 15.0
"""A Postgres that has not committed by then counts as away."""
PAGE_REQUESTS_PER_S = 5.0
"""What pages with a link may ask from one address; a page needs two and one more for each model."""
WAIT_S = 2.0
"""How long a read waits for the tables to reach its `min_position`."""


class _Archived:
    """The archive, opened when the first event that has moved there is read; most processes never do."""

    def __init__(self, home: Path, url: str) -> None:
        self._home = home
        self._url = url

    @functools.cached_property
    def _archive(self) -> Archived:
        from ingest.archive.archive import Archive, archive_folder

        return Archive(archive_folder(self._home), self._url)

    def bodies(self, positions: Sequence[int]) -> dict[int, str]:
        """Return the bodies at these positions; what has expired is left out."""
        return self._archive.bodies(positions)


class Container:
    """What the routes work with. `projection`, `answerer` and `outbox` are None in the role `ingest`."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.log = EventLog(database.url, archive=_Archived(settings.home, database.url))
        self.coalescer = Coalescer(self.append)
        self.positions = Positions(self.log)
        self.jobs = JobQueue(settings, database, self.log, self.transaction)
        self.waiters = Waiters()
        self.answered = ResponseCache()
        self._readings = Readings()
        self.circuit = Circuit(database.url, revive=database.server.start if database.server is not None else None)
        self.room = BodyBudget()
        self.metrics = Metrics(settings.role)
        self.access_log = logs.AccessLog(settings.log_level)
        self.tokens = TokenStore(database.url)
        self.access = Access(settings, self.tokens)
        self.signing_keys = KeyStore(database.url)
        self.keys = SigningKeys(self.signing_keys)
        self.artifacts = ArtifactStore(database.url)
        self.arrivals = ArrivalReader(database.url)
        self.active = ActivePeers()
        self.queries = 0
        self.caught_up = False
        self.log_end: int | None = None
        self.training = asyncio.Lock()
        self.asking = asyncio.Lock()
        self.naming = asyncio.Lock()
        self.sharing = asyncio.Lock()
        self.opening = Buckets("requests of pages", PAGE_REQUESTS_PER_S)
        self.began = datetime.now(UTC)
        self.drift: Drift | None = None
        self.minutes: LagHistory | None = None
        self._outbox: Outbox | None = None
        self._snapshots: Snapshots | None = None
        self._appends = spans.Appends()
        self._projection: Projection | None = None
        self._answerer: LiveAnswerer | None = None
        self._examinations: Examinations | None = None
        self._memory: Memory | None = None
        if settings.projects:
            from api.alerts.outbox import Outbox
            from api.alerts.routes_file import RoutesFile, routes_path
            from api.background.lag_history import LagHistory
            from api.background.table_copies import Snapshots
            from api.reads.examinations import Examinations
            from ingest.projection.memory.best_rows import BestRows
            from ingest.projection.projector import Projection
            from ingest.projection.snapshot_reader import Memory
            from predictor.live.answerer import LiveAnswerer

            self._outbox = Outbox(database.url, RoutesFile(routes_path(settings.home)))
            self._snapshots = Snapshots(settings.home / "snapshots")
            self._projection = Projection(settings.home, database, on_divergence=self._diverged, appends=self._appends)
            self._answerer = LiveAnswerer(self._projection.cursor, lambda digest: self.artifacts.get(digest).content)
            self.minutes = LagHistory(self._projection.health)
            self._examinations = Examinations()
            self._memory = Memory(BestRows())

    @property
    def projection(self) -> Projection:
        """The tables; PartMissing in a process that has none."""
        if self._projection is None:
            raise _no_tables()
        return self._projection

    @property
    def answerer(self) -> LiveAnswerer:
        """What answers questions; PartMissing in a process that has no tables."""
        if self._answerer is None:
            raise _no_tables()
        return self._answerer

    @property
    def outbox(self) -> Outbox:
        """Messages about alerts; PartMissing in a process that has no tables."""
        if self._outbox is None:
            raise _no_tables()
        return self._outbox

    @property
    def examinations(self) -> Examinations:
        """Reports of histories, kept; PartMissing in a process that has no tables."""
        if self._examinations is None:
            raise _no_tables()
        return self._examinations

    @property
    def snapshots(self) -> Snapshots:
        """Copies of the tables that child processes read; PartMissing in a process that has none."""
        if self._snapshots is None:
            raise _no_tables()
        return self._snapshots

    @property
    def projects(self) -> bool:
        """Whether this process has tables."""
        return self._projection is not None

    async def append(self, events: Sequence[Decoded], expected: Expected | None = None) -> list[Appended]:
        """Append a batch, count it, and tell those who follow the log; see EventLog.append."""
        begun = time.perf_counter()
        with self._appends.span("commit", db_system_name="postgresql", assay_events=len(events)) as span:
            try:
                async with asyncio.timeout(COMMIT_S):
                    appended = await self.log.append(events, expected=expected)
            except TimeoutError as error:
                raise ServiceUnavailable(
                    f"Postgres has not committed within {COMMIT_S:.0f} s.", remedy="Retry; it may be sent again."
                ) from error
            span.set(assay_position_last=appended[-1].position if appended else None)
        self.metrics.append_duration.observe(time.perf_counter() - begun)
        self.metrics.batch_events.observe(len(events))
        if self._projection is not None:
            self._projection.kick()
        self.positions.kick()
        return appended

    @asynccontextmanager
    async def transaction(self, deadline_s: float = COMMIT_S) -> AsyncIterator[Transaction]:
        """Give a transaction on tables and log together, and tell those who follow the log; see EventLog.transaction."""
        async with self.log.transaction(deadline_s) as transaction:
            yield transaction
        if transaction.appended:
            if self._projection is not None:
                self._projection.kick()
            self.positions.kick()

    async def end_waiting(self) -> None:
        """End the answers that wait for something to happen: streams of positions, and claims of jobs."""
        self.waiters.close()
        await self.positions.close()

    def _diverged(self, divergence: Divergence) -> None:
        """Record in the log that it lost events which the tables held; called by the projector's thread."""
        details = {
            "epoch": divergence.epoch,
            "position": divergence.position,
            "last_common": divergence.last_common,
            "lost": divergence.lost,
        }
        try:
            record(self.database.url, operation("log.diverged", "projector", divergence.log, details))
        except AssayError as error:
            _LOG.warning("that the log diverged could not be recorded: %s", error)

    async def reach(self, position: int | None, field: str = "min_position") -> None:
        """Return once the tables hold `position`; ProjectionBehind where that takes too long or it does not exist."""
        if position is None:
            return
        if position < 0:
            raise UsageError("a position is 0 or more.", field=field, remedy="Leave it out for the newest.")
        projection = self.projection
        projection.hurry()
        if projection.position >= position:
            return
        self.circuit.require()
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

    def snapshot(self, needed: int | None = None) -> Any:
        """Return the path of a copy of the tables that holds at least `needed`, and its position; for a child process."""
        with self.projection.tables() as tables:
            position = tables.position
        return self.snapshots.at(self.projection, position, needed)

    @contextmanager
    def tables(self, as_of: int | None) -> Iterator[Tables]:
        """Give Tables over one unmoving state, with what is kept of the newest in memory."""
        with self.projection.tables(as_of) as tables:
            tables.memory = self._memory
            yield tables

    def read(self, as_of: int | None, answer: Callable[[Tables], T]) -> T:
        """Return what `answer` reads from one unmoving state; it is called again where the tables move on meanwhile.

        Where memory knows the newest state, the file is opened only for what is not in memory: that takes a millisecond.
        """
        from ingest.projection.snapshot_reader import StateChanged

        newest = self.projection.newest
        if self._memory is not None and self._memory.now is not None and self._memory.now[0] == newest:
            with suppress(StateChanged), self.projection.tables(as_of, expected=newest) as tables:
                tables.memory = self._memory
                return answer(tables)
        with self.tables(as_of) as tables:
            return answer(tables)

    def kept(self, tables: Tables) -> Reading:
        """Return what was read of these tables in this state before, for whatever many answers begin with."""
        return self._readings.at((tables.history, tables.position, tables.checkpoint, self.projection.path))


def _no_tables() -> PartMissing:
    return PartMissing(
        "this process takes events only; it has no tables.", field="role", remedy="Ask a node of role query or all."
    )
