"""The projector: follows the log in a thread of its own, and serves readers while it does."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import duckdb

from domain.errors import AssayError, LogAltered, ProjectionBehind, ServiceUnavailable
from domain.spans import Appends
from domain.upcasting import UPCASTERS, Upcasters
from ingest.archive.archive import archive_folder
from ingest.log.postgres import Database
from ingest.projection.advance import advance
from ingest.projection.definitions import definitions_digest
from ingest.projection.divergence import Divergence, divergence
from ingest.projection.file_copy import publish
from ingest.projection.fold import Folder
from ingest.projection.history import History
from ingest.projection.lag import Health, LagAsker
from ingest.projection.memory.best_rows import Snapshot
from ingest.projection.snapshot_reader import TablesCursor
from ingest.projection.source import Diverged, LogSource
from ingest.projection.store import Store, out_of_order
from ingest.projection.tables import Tables

__all__ = ["Pace", "Projection"]


class Pace:
    """Work for a `share` of the time in the long run, at once after a pause, never resting longer than `most_s`."""

    def __init__(self, *, share: float = 0.5, saved_s: float = 0.2, most_s: float = 0.06) -> None:
        self._share = share
        self._saved_s = saved_s
        self._most_s = most_s
        self._credit_s = saved_s
        self._until: float | None = None

    def rest_s(self, begun: float, ended: float) -> float:
        """Return how long to rest, in s, after work from `begun` to `ended` on one monotonic clock."""
        since = ended - (self._until if self._until is not None else begun)
        self._until = ended
        self._credit_s = min(self._saved_s, self._credit_s + since * self._share) - (ended - begun)
        self._credit_s = max(self._credit_s, -self._most_s * self._share)
        return max(0.0, -self._credit_s / self._share)


_LOG = logging.getLogger(__name__)
_BATCH_BYTES = 48 * 2**20
_AGAIN_S, _SELDOM_S = 0.5, 5.0
_IDLE_S = 0.5
"""An idle service that looked twenty times a second took 4 % of a processor, from whatever is measured beside it."""
_PIECES = (1000, 50, 1)
_AROUND = 50_000
"""Events a batch where DuckDB fails by itself, fewer each time, and for how many positions."""


class Projection:
    """The projection of one log under `home`/projection. One process owns it; any number of its threads read it.

    `start()` follows the log: at once after a `kick()`, else at most `poll_s` behind, or half a second where nothing came
    for a while. Under a steady trickle it rests after each batch: up to 60 ms, and up to 250 ms while nobody reads. Taking
    a `cursor()` or waiting for a position ends the longer rest. An unreachable Postgres, a full disk and a row of the log
    that was altered are tried again, a damaged file is made again; an error of another kind that no event causes stops the
    projector. All of them are in `health().error` as long as they last. Each time that it reads, it compares the event that
    the tables end with: where the log lost events that the tables hold, the tables are rebuilt and `on_divergence` is called.
    """

    def __init__(
        self,
        home: Path | str,
        database: Database | str,
        *,
        poll_s: float = 0.05,
        upcasters: Upcasters = UPCASTERS,
        on_divergence: Callable[[Divergence], None] | None = None,
        appends: Appends | None = None,
    ) -> None:
        self._uri = database if isinstance(database, str) else database.adbc_uri
        self._archive = archive_folder(home)
        self._upcasters = upcasters
        self._store = Store(Path(home) / "projection", definitions_digest(upcasters))
        self._poll_s = poll_s
        self._writing = threading.RLock()
        self._moved = threading.Condition()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: str | None = None
        self._building: str | None = None
        # Keeps the file open and does nothing else: a DuckDB connection that is at work refuses other calls.
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._path = self._store.current
        self._handing = threading.Lock()
        self._publishing = threading.Lock()
        self._folder: Folder | None = None
        self._source = self._new_source()
        self._lag = LagAsker(self._new_source())
        self._letters = 0
        self._demand = threading.Event()
        self._pace = Pace()
        self._unread_pace = Pace(share=0.1, saved_s=0.1, most_s=0.25)
        self._piece: int | None = None
        self._diverged: Divergence | None = None
        self._on_divergence = on_divergence
        self._appends = appends or Appends()

    def open(self) -> None:
        """Take and open the file without following the log; `start` does it by itself."""
        with self._writing:
            if self._connection is not None:
                return
            self._stopping.clear()
            self._store.own()
            try:
                self._open_file()
                self._require_same_log()
                self._store.sweep()
            except BaseException:
                self._close_file()
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
        self.hurry()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self._lag.close()
        with self._writing:
            self._source.close()
            self._close_file()
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
    def history(self) -> History:
        """The log and the epoch that the tables tell of; answers at one position may differ between two."""
        folder = self._folder
        return folder.history if folder is not None else History()

    @property
    def position(self) -> int:
        """The position up to which the tables tell; 0 before anything."""
        folder = self._folder
        return folder.position if folder is not None else 0

    def kick(self) -> None:
        """Say that something was appended, so that it is not waited for."""
        self._wake.set()

    def hurry(self) -> None:
        """Say that somebody waits for what was appended."""
        self._demand.set()
        self._wake.set()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own to the tables, for one thread; close it after use."""
        return self._connect()[1]

    @contextlib.contextmanager
    def tables(self, as_of: int | None = None, expected: Snapshot | None = None) -> Iterator[Tables]:
        """Give Tables over one unmoving state: the position and all rows that are read agree.

        With `expected`, a state that was read before, the file is opened by the first statement; that one raises StateChanged where
        the tables are in another state by then.
        """
        with contextlib.closing(TablesCursor(self._connect, expected)) as cursor:
            yield Tables(cursor, as_of=as_of)

    @property
    def newest(self) -> Snapshot:
        """The state that was committed last, known without asking the file. Reading it ends a longer rest, as `cursor` does."""
        self._demand.set()
        with self._handing:
            return Snapshot(str(self._path), str(self.history), self.position)

    def _connect(self) -> tuple[str, duckdb.DuckDBPyConnection]:
        """Return the file in use and a connection to it."""
        self._demand.set()
        with self._handing:
            if self._connection is None:
                raise ServiceUnavailable(
                    f"the tables are not open{f': {self._error}' if self._error else ''}.",
                    remedy="Look at /health/ready; a process of role ingest has none.",
                )
            return str(self._path), self._store.connect(self._path)

    def describe(self) -> None:
        """Write what the views mean into the file, once, for those who read a copy of it."""
        with self._publishing, self._writing:
            self._require_folder().commit()
            self._store.describe(self._path)

    def publish(self, path: Path) -> int:
        """Write a copy of the tables to `path`, for a process that reads them by itself; return its position."""
        with self._publishing:
            return publish(self._require_folder, self._writing, lambda: self._path, path)

    def catch_up(self, to: int | None = None, *, batch_rows: int | None = None) -> int:
        """Apply what the log holds (up to `to`), and return the position reached. For callers without the thread."""
        self._catch_up(to, batch_rows)
        return self.position

    def wait_for(self, position: int, timeout_s: float = 5.0) -> None:
        """Return once the tables have reached `position`; ProjectionBehind after `timeout_s`."""
        self.hurry()
        with self._moved:
            if not self._moved.wait_for(lambda: self.position >= position or self._error is not None, timeout_s):
                raise ProjectionBehind(
                    f"the tables are at position {self.position}, not yet at {position}.",
                    remedy="Retry after a second.",
                )
        if self.position < position:
            raise ProjectionBehind(f"the projector has stopped: {self._error}", remedy="Look at /health/ready.")

    def health(self) -> Health:
        """Return how the projection stands to the log, within 2 s; never raises for a Postgres that is away."""
        log_position = lag_events = lag_seconds = None
        error = self._error
        try:
            log_position, lag_events, lag_seconds = self._lag.ask(self.position)
        except AssayError as away:
            error = error or str(away)
        return Health(
            position=self.position,
            log_position=log_position,
            lag_events=lag_events,
            lag_seconds=lag_seconds,
            dead_letters=self._dead_letters(),
            error=error,
            running=self._thread is not None and self._thread.is_alive(),
            building=self._building,
            diverged=self._diverged,
        )

    def rebuild(self, fill: Callable[[Path], object] | None = None) -> int:
        """Make the tables anew from position 0 in a file beside, put it in place, and return the position reached.

        Readers go on with the old file until the new one has caught up; dead letters get another chance. `fill` makes the
        file first, as `ingest.parallel` does; what was appended meanwhile is folded here.
        """
        self.open()
        path, connection = self._store.begin(fill)
        folder = Folder(self._store.connect(path), self._upcasters)
        source = self._new_source()

        def moved() -> None:
            if folder.position == folder.reached:
                self._store.forget_blocks(connection)

        try:
            if fill is None:
                folder.postpone_standings()
            advance(folder, source, moved=moved)
            folder.count_standings()
            with self._publishing, self._writing:
                advance(folder, source)
                old_path, old_folder = self._path, self._folder
                if old_folder is not None:
                    # Who applies a batch commits what is held of it, which must not meet a connection that is being closed.
                    old_folder.commit()
                self._store.swap(path)
                with self._handing:
                    old, self._connection = self._connection, connection
                    self._path, self._folder, self._error, self._building = path, folder, None, None
        except BaseException:
            folder.close()
            connection.close()
            self._store.remove(path)
            raise
        finally:
            source.close()
            self._store.end()
        # Readers that still hold a cursor keep the old tables until they close it; its file may go already.
        if old_folder is not None:
            old_folder.close()
        if old is not None:
            old.close()
        self._store.remove(old_path)
        self._announce()
        self._go_on()
        return folder.position

    def _new_source(self) -> LogSource:
        return LogSource(self._uri, _BATCH_BYTES, archive=self._archive)

    def _require_folder(self) -> Folder:
        if self._folder is None:
            raise ServiceUnavailable("the projection is not open.", remedy="Open or start it first.")
        return self._folder

    def _open_file(self) -> None:
        connection, reason = self._store.open()
        with self._handing:
            self._connection, self._path = connection, self._store.current
            self._building = reason or self._building
        self._folder = Folder(self._store.connect(self._path), self._upcasters)

    def _close_file(self) -> None:
        with self._handing:
            connection, folder = self._connection, self._folder
            self._connection = self._folder = None
        if folder is not None:
            folder.close()
        if connection is not None:
            connection.close()

    def _go_on(self) -> None:
        """Follow again where an error had stopped it: the tables are new, and so is the chance."""
        if self._thread is not None and not self._thread.is_alive() and not self._stopping.is_set():
            self._thread = None
            self.start()

    def _follow(self) -> None:
        pause_s = self._poll_s
        while not self._stopping.is_set():
            kicked = self._wake.wait(pause_s)
            self._wake.clear()
            begun = time.monotonic()
            try:
                with self._writing:
                    if self._folder is None:
                        self._open_file()
                before = self.position
                if self._piece is not None:
                    self._catch_up(before + _AROUND, self._piece)
                    self._piece = None
                self._catch_up(None, None)
                self._error = self._building = None
                moved = self.position != before
                pause_s = self._poll_s if moved or kicked else min(2 * pause_s, _IDLE_S)
                if moved:
                    self._rest(begun, time.monotonic())
            except ServiceUnavailable as error:
                self._error = str(error)
                self._stopping.wait(_AGAIN_S)
            except LogAltered as error:
                # Put back from a backup, it is read again; until then nothing above it is projected.
                self._error = str(error)
                self._announce()
                self._stopping.wait(_SELDOM_S)
            except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException, OSError) as error:
                self._start_again(error)
            except (duckdb.FatalException, duckdb.InternalException) as error:
                # A mistake of DuckDB's own, which smaller batches, planned differently, may not meet.
                smaller = [rows for rows in _PIECES if self._piece is None or rows < self._piece]
                self._piece = smaller[0] if smaller else _PIECES[-1]
                self._start_again(error)
                if not smaller:
                    self._stopping.wait(_SELDOM_S)
            except Exception as error:
                if out_of_order(error):
                    self._start_again(error)
                    continue
                self._error = f"{type(error).__name__}: {error}"
                _LOG.exception("the projector has stopped at position %s", self.position)
                self._announce()
                return

    def _rest(self, begun: float, ended: float) -> None:
        """Rest after work: as the pace says, and longer where nobody has read since the work began."""
        least_s, most_s = self._pace.rest_s(begun, ended), self._unread_pace.rest_s(begun, ended)
        self._stopping.wait(least_s)
        self._demand.wait(max(0.0, most_s - least_s))
        self._demand.clear()

    def _start_again(self, error: BaseException) -> None:
        """Close the file and let the next turn open it: after a failed write DuckDB refuses everything else.

        A damaged file is thrown away: the log makes it again.
        """
        said = str(error).splitlines()[0][:300]
        damaged = out_of_order(error)
        self._error = (
            f"the tables cannot be written after position {self.position}: {said}. It is tried again by itself."
        )
        _LOG.warning("%s%s", self._error, " The file is damaged and made again." if damaged else "")
        with self._writing:
            self._close_file()
            if damaged:
                self._building = f"the file was damaged: {said}"
                self._store.start_over()
        self._stopping.wait(_AGAIN_S)

    def _catch_up(self, to: int | None, batch_rows: int | None) -> None:
        """Apply what the log holds, to new tables where it is not the log that the present ones tell of."""
        folder = self._require_folder()

        def go_on() -> bool:
            return self._folder is folder and not self._stopping.is_set()

        moved = self._appends.follower("project", lambda: folder.position, self._announce)
        try:
            advance(folder, self._source, to, batch_rows, writing=self._writing, go_on=go_on, moved=moved)
        except Diverged:
            self._start_over(folder)
            self._catch_up(to, batch_rows)

    def _announce(self) -> None:
        with self._moved:
            self._moved.notify_all()

    def _require_same_log(self) -> None:
        """Compare once before anybody reads; what follows the log compares each time that it reads."""
        folder = self._require_folder()
        if folder.position:
            try:
                if self._source.chain_at(folder.position) != folder.chain:
                    self._start_over(folder)
            except ServiceUnavailable as error:
                _LOG.warning("cannot compare the projection with the log yet: %s", error)

    def _start_over(self, folder: Folder) -> None:
        """Make the tables anew where the log has lost events that they tell of; whoever reads on gets none of these."""
        with contextlib.closing(self.cursor()) as cursor:
            result = divergence(cursor, self._source, folder.position, folder.history)
        _LOG.error("%s", result.said)
        with self._writing:
            if self._folder is not folder:
                return
            self._close_file()
            self._building, self._diverged = result.said, result
            self._store.start_over()
            self._open_file()
        self._announce()
        if self._on_divergence is not None:
            self._on_divergence(result)

    def _dead_letters(self) -> int:
        """Return how many there are, or were when the file could last be read."""
        with contextlib.suppress(duckdb.Error, ServiceUnavailable), contextlib.closing(self.cursor()) as cursor:
            ((self._letters,),) = cursor.execute("SELECT count(*) FROM dead_letter").fetchall()
        return self._letters
