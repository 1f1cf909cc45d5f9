"""What the benchmarks of one run share: its plan, one Postgres, databases, and the large log."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

import msgspec
import psycopg
from rich.console import Console

from benchmarks.documents import models_for
from benchmarks.loading import grow
from benchmarks.processor import Meter
from ingest.log.migrate import upgrade
from ingest.log.postgres import Database, open_database

__all__ = ["Bench", "Plan"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure. `events` is the size of the large log; a quick run tells less and is for trying out."""

    quick: bool = False
    repeats: int = 5
    events: int = 10_000_000

    def count(self, full: int, quick: int) -> int:
        """Return the number that fits the run."""
        return quick if self.quick else full

    def seconds(self, full: float, quick: float) -> float:
        """Return the time that fits the run."""
        return quick if self.quick else full


class Bench:
    """One run. Everything that it makes lies in one temporary folder in `root`, and goes with it."""

    def __init__(self, plan: Plan, folder: Path | None = None) -> None:
        self.plan = plan
        self.console = Console(stderr=True)
        self._stack = ExitStack()
        self.root = folder or Path(tempfile.gettempdir())
        self._folder = Path(tempfile.mkdtemp(prefix="assay-bench-", dir=self.root))
        self._server: Database | None = None
        self._large: Database | None = None
        self._seed = 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def say(self, text: str) -> None:
        """Tell how far it is, on stderr."""
        self.console.print(f"[dim]{text}[/dim]")

    def seed(self) -> int:
        """Return a number that no other call of this run has returned, so that no event is made twice."""
        self._seed += 100
        return self._seed

    @property
    def server(self) -> Database:
        """The Postgres of this run: an embedded one, with its own settings and fsync on."""
        if self._server is None:
            self._server = self._stack.enter_context(open_database(self.folder("server")))
        return self._server

    def postgres_version(self) -> str:
        """Return the version of the server of this run."""
        with psycopg.connect(self.server.url) as connection:
            ((version,),) = connection.execute("SHOW server_version").fetchall()
        return str(version)

    def meter(self, **groups: Sequence[int]) -> Meter:
        """Return a meter of processor time, with Postgres among its groups."""
        server = self.server.server
        return Meter({**groups, "postgres": [server.pid] if server is not None else []})

    def folder(self, name: str = "") -> Path:
        """Return a new folder."""
        path = self._folder / (name or uuid.uuid4().hex[:8])
        path.mkdir(parents=True)
        return path

    @contextmanager
    def database(self, *, log: bool = True) -> Iterator[Database]:
        """Give a database of its own, with the log's schema unless it is for a peer."""
        name = f"bench_{uuid.uuid4().hex}"
        made = self.server.create(name)
        try:
            if log:
                upgrade(made.url)
            yield made
        finally:
            self.server.drop(name)

    @property
    def large(self) -> Database:
        """The large log: `plan.events` measurements, made once a run."""
        if self._large is None:
            count = self.plan.events
            self.say(f"filling a log with {count:,} measurements")
            made = self._stack.enter_context(self.database())
            grow(made.url, count, models=models_for(count), seed=self.seed())
            self._large = made
        return self._large
