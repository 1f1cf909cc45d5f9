"""The projector: follows the log in a thread of its own, and serves readers while it does."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import duckdb
import msgspec

from domain.errors import AssayError, ProjectionBehind, ServiceUnavailable
from ingest.postgres import Database
from ingest.projection.fold import Folder
from ingest.projection.source import LogSource
from ingest.projection.store import SCHEMA_VERSION, Store
from ingest.projection.tables import Tables

__all__ = ["Health", "Projection"]

_LOG = logging.getLogger(__name__)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the projection stands to the log. `error` is set while it cannot go on; `running` says whether it follows."""

    position: int
    log_position: int | None
    lag_events: int | None
    lag_seconds: float | None
    dead_letters: int
    error: str | None
    running: bool
    schema: int = SCHEMA_VERSION


class Projection:
    """The projection of one log under `home`/projection. One process owns it; any number of its threads read it.

    `start()` follows the log, at most `poll_s` behind a `kick()`-less append. An unreachable Postgres is asked again; an
    error of another kind that no event causes stops the projector, and stays visible in `health().error`.
    """

    def __init__(self, home: Path | str, database: Database | str, *, poll_s: float = 0.05) -> None:
        self._uri = database if isinstance(database, str) else database.adbc_uri
        self._store = Store(Path(home) / "projection")
        self._poll_s = poll_s
        self._writing = threading.RLock()
        self._moved = threading.Condition()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: str | None = None
        # Keeps the file open and does nothing else: a DuckDB connection that is at work refuses other calls.
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._path = self._store.current
        self._handing = threading.Lock()
        self._folder: Folder | None = None
        self._source = LogSource(self._uri)

    def open(self) -> None:
        """Take and open the file without following the log; `start` does it by itself."""
        with self._writing:
            if self._connection is not None:
                return
            self._stopping.clear()
            self._store.own()
            try:
                self._connection = self._store.open()
                self._path = self._store.current
                self._folder = Folder(self._store.connect(self._path))
                self._start_over_if_foreign()
                self._store.sweep()
            except BaseException:
                self._store.disown()
                raise

    def start(self) -> None:
        """Open and follow the log in a thread."""
        self.open()
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="projector", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop following after the batch under way, and close the file."""
        self._stopping.set()
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        with self._writing:
            self._source.close()
            with self._handing:
                connection, folder = self._connection, self._folder
                self._connection = self._folder = None
            if connection is not None and folder is not None:
                folder.close()
                connection.close()
                self._store.disown()

    def __enter__(self) -> Projection:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def path(self) -> Path:
        """The file in use."""
        return self._path

    @property
    def position(self) -> int:
        """The position up to which the tables tell; 0 before anything."""
        return self._folder.position if self._folder is not None else 0

    def kick(self) -> None:
        """Say that something was appended, so that it is not waited for."""
        self._wake.set()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own to the tables, for one thread; close it after use."""
        with self._handing:
            if self._connection is None:
                raise ServiceUnavailable(
                    "the projection is not open.", remedy="Start the service with --role query or all."
                )
            return self._store.connect(self._path)

    @contextlib.contextmanager
    def tables(self, as_of: int | None = None) -> Iterator[Tables]:
        """Give Tables over one unmoving state: the position and all rows that are read agree."""
        cursor = self.cursor()
        try:
            cursor.begin()
            yield Tables(cursor, as_of=as_of)
        finally:
            cursor.close()

    def catch_up(self, to: int | None = None, *, batch_rows: int | None = None) -> int:
        """Apply what the log holds (up to `to`), and return the position reached. For callers without the thread."""
        with self._writing:
            if self._folder is None:
                raise ServiceUnavailable("the projection is not open.", remedy="Open or start it first.")
            self._catch_up(self._folder, to, batch_rows)
            return self._folder.position

    def wait_for(self, position: int, timeout_s: float = 5.0) -> None:
        """Return once the tables have reached `position`; ProjectionBehind after `timeout_s`."""
        self.kick()
        with self._moved:
            if not self._moved.wait_for(lambda: self.position >= position or self._error is not None, timeout_s):
                raise ProjectionBehind(
                    f"the tables are at position {self.position}, not yet at {position}.",
                    remedy="Retry after a second.",
                )
        if self.position < position:
            raise ProjectionBehind(f"the projector has stopped: {self._error}", remedy="Look at /health/ready.")

    def health(self) -> Health:
        """Return how the projection stands to the log; never raises for a Postgres that is away."""
        log_position = lag_events = lag_seconds = None
        error = self._error
        source = LogSource(self._uri)
        try:
            log_position, lag_events, lag_seconds = source.lag(self.position)
        except AssayError as away:
            error = error or str(away)
        finally:
            source.close()
        return Health(
            position=self.position,
            log_position=log_position,
            lag_events=lag_events,
            lag_seconds=lag_seconds,
            dead_letters=self._dead_letters(),
            error=error,
            running=self._thread is not None and self._thread.is_alive(),
        )

    def rebuild(self) -> int:
        """Make the tables anew from position 0 in a file beside, put it in place, and return the position reached.

        Readers go on with the old file until the new one has caught up; dead letters get another chance.
        """
        self.open()
        path = self._store.next()
        connection = self._store.create(path)
        folder = Folder(self._store.connect(path))
        source = LogSource(self._uri)
        try:
            for batch in source.batches(0):
                folder.apply(batch)
            with self._writing:
                for batch in source.batches(folder.position):
                    folder.apply(batch)
                old_path, old_folder = self._path, self._folder
                self._store.swap(path)
                with self._handing:
                    old, self._connection = self._connection, connection
                    self._path, self._folder, self._error = path, folder, None
        except BaseException:
            folder.close()
            connection.close()
            self._store.remove(path)
            raise
        finally:
            source.close()
        # Readers that still hold a cursor keep the old tables until they close it; its file may go already.
        if old_folder is not None:
            old_folder.close()
        if old is not None:
            old.close()
        self._store.remove(old_path)
        self._announce()
        self._go_on()
        return folder.position

    def _go_on(self) -> None:
        """Follow again where an error had stopped it: the tables are new, and so is the chance."""
        if self._thread is not None and not self._thread.is_alive() and not self._stopping.is_set():
            self._thread = None
            self.start()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._poll_s)
            self._wake.clear()
            try:
                with self._writing:
                    if self._folder is not None:
                        self._catch_up(self._folder, None, None)
                self._error = None
            except ServiceUnavailable as error:
                self._error = str(error)
                self._stopping.wait(0.5)
            except Exception as error:
                self._error = f"{type(error).__name__}: {error}"
                _LOG.exception("the projector has stopped at position %s", self.position)
                self._announce()
                return

    def _catch_up(self, folder: Folder, to: int | None, batch_rows: int | None) -> None:
        more = True
        while more:
            more = False
            for batch in self._source.batches(folder.position, to, batch_rows):
                folder.apply(batch)
                self._announce()
                more = batch_rows is not None
                if self._stopping.is_set():
                    return

    def _announce(self) -> None:
        with self._moved:
            self._moved.notify_all()

    def _start_over_if_foreign(self) -> None:
        """Begin again where the file tells of another log: a restored backup, another database, a lost tail."""
        if self._folder is None or self._connection is None or self._folder.position == 0:
            return
        with contextlib.closing(self.cursor()) as cursor:
            ((event_id,),) = cursor.execute("SELECT event_id FROM projection").fetchall()
        try:
            same = self._source.event_at(self._folder.position) == event_id
        except ServiceUnavailable as error:
            _LOG.warning("cannot compare the projection with the log yet: %s", error)
            return
        if not same:
            _LOG.warning("the log has not the event that the projection ends with: the tables are made again")
            self._folder.close()
            self._connection.close()
            self._store.remove(self._path)
            self._connection = self._store.open()
            self._folder = Folder(self._store.connect(self._path))

    def _dead_letters(self) -> int:
        if self._connection is None:
            return 0
        with contextlib.closing(self.cursor()) as cursor:
            ((letters,),) = cursor.execute("SELECT count(*) FROM dead_letter").fetchall()
        return int(letters)
