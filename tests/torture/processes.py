"""What is killed and started again: services and a Postgres, each with the one who keeps it alive."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

import domain
from assay.client import Client
from assay.service import free_port
from domain.errors import AssayError, ServiceUnavailable
from ingest.log.embedded import EmbeddedServer
from ingest.log.migrate import upgrade
from ingest.log.postgres import Database, open_database

__all__ = ["Postgres", "Served", "postgres", "until"]

ROOT = Path(domain.__file__).resolve().parents[1]
"""Where the code lies that this process imports: a service runs the same."""
PATIENCE_S = 60.0


def until(holds: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Return what `holds` gives as soon as it is true; AssertionError, saying `what`, where that takes too long."""
    ends = time.monotonic() + patience_s
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < ends, f"not within {patience_s:.0f} s: {what}"
        time.sleep(0.02)


class Served:
    """An `assay serve` process on a directory; with `kept`, started again whenever it ends, as a supervisor would."""

    def __init__(
        self, home: Path, *arguments: str, url: str | None = None, log: Path | None = None, **environment: str
    ) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log or home.with_name(home.name + ".log")
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-m", "assay.cli", "serve", "--port", str(self.port), *arguments]
        named = (
            {"ASSAY_HOME": str(home), "ASSAY_SHIPPED_DATA": "no"}
            | ({"ASSAY_DATABASE_URL": url} if url else {})
            | environment
        )
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")} | named
        self._keeper: threading.Thread | None = None
        self._released = threading.Event()

    def start(self) -> Served:
        """Start the process, and do not wait."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        self.starts += 1
        return self

    def keep(self) -> Served:
        """Start it, and again whenever it ends."""
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        until(lambda: self.process, "a first process")
        return self

    def _keep(self) -> None:
        while not self._released.is_set():
            self.start().process.wait()  # type: ignore[union-attr]
            # A program that cannot start must not be started a hundred times a second.
            self._released.wait(0.2)

    def client(self, **options: Any) -> Client:
        """Return a client of it."""
        return Client(self.url, **options)

    def ready(self) -> Any:
        """Return what readiness says, or None where it says no."""
        try:
            with self.client(patience_s=0, timeout_s=5) as client:
                return client.ready()
        except AssayError:
            return None

    def health(self) -> tuple[int, Any]:
        """Return status and body of readiness; (0, None) where nobody answers within 10 s."""
        try:
            answer = httpx.get(f"{self.url}/health/ready", timeout=10, trust_env=False)
        except httpx.TransportError:
            return 0, None
        return answer.status_code, answer.json()

    def until_ready(self, patience_s: float = PATIENCE_S) -> Any:
        """Return what readiness says as soon as it says yes."""

        def ready() -> Any:
            ended = self._keeper is None and self.process is not None and self.process.poll() is not None
            assert not ended, f"the service has ended: {self.said()[-3000:]}"
            return self.ready()

        try:
            return until(ready, "ready", patience_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; health: {self.health()}; it said: {self.said()[-3000:]}") from None

    def listens(self) -> bool:
        """Return whether anybody takes connections at its address."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def said(self) -> str:
        """Return all that its processes wrote."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the process without a chance to do anything."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)

    def children(self) -> list[psutil.Process]:
        """Return the processes that it has started."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True) if self.process else []
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> int:
        """Ask it to end, and return its exit status; it is not started again."""
        self._released.set()
        process = self.process
        if process is None:
            return 0
        if process.poll() is None:
            process.terminate()
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("it did not end within 30 s of SIGTERM") from None
        if self._keeper is not None:
            self._keeper.join(5)
            # Between the end of the one process and the release another may have been started.
            if self.process is not process:
                return self.stop()
        return status


class Postgres:
    """A server of our own that can be killed, halted and started again under one URL."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.database: Database = open_database(home)
        upgrade(self.database.url)
        self.url = self.database.url

    @property
    def server(self) -> EmbeddedServer:
        assert self.database.server is not None
        return self.database.server

    def kill(self) -> None:
        """SIGKILL the postmaster and start another, as an init system would; returns when that one answers."""
        pid = self.server.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: _gone(pid), "Postgres is gone")
        self.again()

    def kill_backend(self) -> None:
        """SIGKILL one backend at work, or any; the postmaster then ends all the others and recovers."""
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                rows = connection.execute(_BACKENDS).fetchall()
        except psycopg.OperationalError:
            return
        if rows:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rows[0][0], signal.SIGKILL)

    def again(self) -> None:
        """Start the server after its end; what was cut off in its work may hold on to its memory for some seconds."""
        before = self.database
        self.database = until(self._opened, "Postgres starts again", 30)
        before.close()
        assert self.database.url == self.url

    def _opened(self) -> Database | None:
        try:
            return open_database(self.home)
        except ServiceUnavailable:
            return None

    def shut_down(self) -> None:
        """Stop the server as its operator would: clients are disconnected, transactions rolled back."""
        pid = self.server.pid
        os.kill(pid, signal.SIGINT)
        until(lambda: _gone(pid), "Postgres ends")

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Stop every process of the server with SIGSTOP for as long as the block runs."""
        postmaster = psutil.Process(self.server.pid)
        halted = [postmaster, *postmaster.children(recursive=True)]
        for process in halted:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        try:
            yield
        finally:
            for process in reversed(halted):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def close(self) -> None:
        """Stop it."""
        self.database.close()


def _gone(pid: int) -> bool:
    """Whether the process has ended; as a zombie it has, where nobody reaps."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
ORDER BY state = 'idle', random()
"""


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Give a Postgres of its own; its folder has a short name, because its socket lies in it."""
    home = Path(tempfile.mkdtemp(prefix="assay-"))
    server = Postgres(home)
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(home, ignore_errors=True)
