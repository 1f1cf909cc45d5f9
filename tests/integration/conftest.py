"""Fixtures of tests that need a running service: a real server process on a real Postgres."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import preloaded

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


@pytest.fixture(scope="package", autouse=True)
def _preloaded() -> Iterator[None]:
    """Services, commands and children that measure begin with their imports done."""
    with preloaded():
        yield


@pytest.fixture(scope="package", autouse=True)
def _authorities_read_once() -> Iterator[None]:
    """Let clients of httpx share what certifi holds: each would read it anew for 17 ms, also where it asks without TLS."""
    from httpx._transports import default

    create = default.create_ssl_context
    shared = functools.cache(create)

    def create_ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        named = trust_env and (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"))
        return create(verify, cert, trust_env) if verify is not True or cert or named else shared()

    default.create_ssl_context = create_ssl_context
    yield
    default.create_ssl_context = create


class RunningService:
    """One `assay serve` process on a data directory and a database of its own; can be killed and started again."""

    def __init__(self, home: Path, database_url: str, *arguments: str) -> None:
        from assay.service import free_port

        self.home = home
        self.database_url = database_url
        self.arguments = arguments
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "served.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.token: str | None = None
        self.environment: dict[str, str] = {}
        self.before_start: Callable[[], None] | None = None
        home.mkdir(parents=True, exist_ok=True)

    def start(self) -> RunningService:
        """Start the process and return once it is ready."""
        from domain.errors import AssayError

        command = [sys.executable, "-m", "assay.cli", "serve", "--port", str(self.port), *self.arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environment |= {"ASSAY_HOME": str(self.home), "ASSAY_DATABASE_URL": self.database_url}
        environment |= {"ASSAY_SHIPPED_DATA": "no", **self.environment}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=self.before_start,
            )
        until = time.monotonic() + START_S
        with self.client(patience_s=0) as client:
            while True:
                try:
                    client.ready()
                    return self
                except AssayError:
                    if self.process.poll() is not None or time.monotonic() > until:
                        raise AssertionError(self.log.read_text()) from None
                    time.sleep(0.02)

    def start_with(self, token: str) -> RunningService:
        """Start it, with a token for its clients."""
        self.token = token
        return self.start()

    def client(self, **options: Any) -> Any:
        """Return a client of it."""
        from assay.client import Client

        return Client(self.url, token=self.token, **options)

    def logged(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the lines of its log with these members; waits until there is one."""
        until = time.monotonic() + 10
        while True:
            lines = [json.loads(line) for line in self.log.read_bytes().splitlines() if line.startswith(b"{")]
            found = [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]
            if found or time.monotonic() > until:
                return found
            time.sleep(0.05)

    def kill(self) -> None:
        """End the process without a chance to do anything."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask the process to end and return its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the service did not end within 30 s of SIGTERM") from None


@pytest.fixture(scope="session")
def service_database(postgres_server: Any, database_template: str) -> Iterator[Callable[[], Any]]:
    """Makes databases with the log's schema that live as long as the session."""
    names: list[str] = []

    def make() -> Any:
        names.append(f"service_{uuid.uuid4().hex}")
        return postgres_server.create(names[-1], template=database_template)

    yield make
    for name in names:
        postgres_server.drop(name)


@pytest.fixture(scope="session")
def service(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One running service for all tests that do not mind each other's events."""
    running = RunningService(tmp_path_factory.mktemp("service"), service_database().url).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def new_service(
    service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[str]]:
    """Starts a service on an empty log of its own, on the Postgres of the session, and gives its address."""

    @contextmanager
    def started(**environment: str) -> Iterator[str]:
        running = RunningService(tmp_path_factory.mktemp("service"), service_database().url)
        running.environment = environment
        running.start()
        try:
            yield running.url
        finally:
            running.stop()

    return started


@pytest.fixture
def client(service: RunningService) -> Iterator[Any]:
    """A client of the shared service."""
    with service.client() as one:
        yield one


@pytest.fixture
def fresh_service(database: Any, tmp_path: Path) -> Iterator[Callable[..., RunningService]]:
    """Makes a service on an empty log of its own, not started yet; it is stopped after the test."""
    made: list[RunningService] = []

    def make(*arguments: str) -> RunningService:
        made.append(RunningService(tmp_path / f"home-{len(made)}", database.url, *arguments))
        return made[-1]

    yield make
    for running in made:
        if running.process is not None and running.process.poll() is None:
            running.stop()
