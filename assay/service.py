"""The life of a service: served in this process, started for as long as a verb runs, or brought up with the dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
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
from typing import Any, cast

import msgspec

from assay.client import Client
from assay.home import Home, own, running
from domain.errors import AssayError, ProjectionBehind, ServiceUnavailable, UsageError, error_document, error_of
from domain.operating_system import require_service_support

__all__ = [
    "Settings",
    "ephemeral",
    "free_port",
    "last_words",
    "loop_factory",
    "report_failure",
    "serve",
    "started",
    "up",
]

_LOG = logging.getLogger(__name__)
START_SECONDS = 60.0
STOP_SECONDS = 20.0
RELEASE_SECONDS = 2.0
WORKER_START_S = 120.0
"""A new worker that does not answer within this time is ended, and the one before it stays."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve: `role` all, ingest or query; `workers` counts processes of the ingest role.

    `retrain_every` (`24h`, `off`) goes before ASSAY_RETRAIN_EVERY, `shipped_data` before ASSAY_SHIPPED_DATA; without
    either an empty log begins with the data that ships.
    """

    home: Home
    role: str = "all"
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    retrain_every: str | None = None
    shipped_data: bool | None = None

    @property
    def url(self) -> str:
        """Where a program on this machine reaches the service."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def serve(settings: Settings, *, until_stdin_closes: bool = False) -> None:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; the query and all roles are one process, which owns its DuckDB file."""
    require_free(settings.host, settings.port)
    os.environ.update(ASSAY_HOME=str(settings.home.path), ASSAY_ROLE=settings.role, ASSAY_HOST=settings.host)
    if settings.retrain_every is not None:
        os.environ["ASSAY_RETRAIN_EVERY"] = settings.retrain_every
    if settings.shipped_data is not None:
        os.environ["ASSAY_SHIPPED_DATA"] = "yes" if settings.shipped_data else "no"
    os.environ.setdefault("ASSAY_SHIPPED_DATA", "yes")
    if settings.role == "ingest":
        if settings.workers < 1:
            raise UsageError("at least one worker is needed.", field="workers", remedy="Give 1 or more.")
        _serve_workers(settings)
        return
    with own(settings.home, settings.url, settings.role), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve_here(settings, until_stdin_closes=until_stdin_closes))


def require_free(host: str, port: int, option: str = "--port") -> None:
    """Raise ServiceUnavailable where something listens on the port already, and goes on to."""
    # Workers of a service that was killed end by themselves, and hold the port for that moment.
    until = time.monotonic() + RELEASE_SECONDS
    while (problem := _taken(host, port)) is not None:
        if time.monotonic() > until:
            raise ServiceUnavailable(
                f"{host}:{port} cannot be listened on: {problem.strerror}.",
                field="port",
                remedy=f"Stop what listens there, or give {option}.",
            ) from problem
        time.sleep(0.1)


def _taken(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loops where it is installed: the same service, a few per cent faster."""
    try:
        import uvloop
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)


async def _serve_here(settings: Settings, *, until_stdin_closes: bool) -> None:
    from granian.errors import FatalError
    from granian.server.embed import Server

    from api.app import create_app, end_streams
    from api.settings import Settings as ServiceSettings

    chosen = ServiceSettings.from_environment()
    app = create_app(chosen)
    server = Server(
        app,
        address=settings.host,
        port=settings.port,
        log_enabled=False,
        **_limits(chosen.idle_timeout_s),
    )
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    if until_stdin_closes:
        threading.Thread(target=_wait_for_end_of_input, args=(loop, stopping), daemon=True).start()
    serving = asyncio.create_task(server.serve())
    waiting = asyncio.create_task(stopping.wait())
    done, _ = await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    if serving not in done:
        # The server waits for open answers, and a stream of positions would never end by itself.
        await end_streams(app)
        server.stop()  # type: ignore[no-untyped-call]
    waiting.cancel()
    try:
        await serving
    except FatalError as error:
        raise app.state.get("failure", error) from error


def _wait_for_end_of_input(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    # Not sys.stdin: a thread inside of a buffered read is fatal to an interpreter that ends.
    while os.read(0, 4096):
        continue
    loop.call_soon_threadsafe(stopping.set)


def _serve_workers(settings: Settings) -> None:
    """Serve the ingest role in worker processes; SIGHUP replaces them one after the other (docs/api.md, restarts)."""
    import multiprocessing

    from granian.constants import Loops

    import api
    from api.http.logs import dictconfig
    from api.lifespan import checked_database
    from api.settings import Settings as ServiceSettings

    # Each worker imports the code anew, so that a restart one by one brings a new version in; never from the working folder.
    multiprocessing.set_start_method("spawn", force=True)
    os.environ["PYTHONSAFEPATH"] = "1"
    root = Path(__file__).resolve().parents[1]
    chosen = ServiceSettings.from_environment()
    # Held for as long as the workers live: what forbids to serve is said once, not by each of them.
    with checked_database(chosen), contextlib.ExitStack() as stack:
        os.environ["ASSAY_SUPERVISOR"] = str(os.getpid())
        ready = stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-"))
        os.environ["ASSAY_READY_FOLDER"] = ready
        _supervisor(Path(ready))(
            # A path, not a module's name: granian puts the folder of what it imports, else the working folder, in sys.path.
            f"{Path(api.__file__).with_name('app.py')}:create_app",
            factory=True,
            working_dir=root,
            address=settings.host,
            port=settings.port,
            loop=Loops.auto,
            workers=settings.workers,
            respawn_failed_workers=True,
            # An open stream of positions would hold a worker for ever.
            workers_kill_timeout=10,
            log_access=False,
            log_dictconfig=dictconfig(chosen.log_level),
            **_limits(chosen.idle_timeout_s),
        ).serve()


def _limits(idle_timeout_s: float) -> dict[str, Any]:
    """Return granian's options that bound connections. HTTP/1 alone: looking for HTTP/2 waits for a silent client for ever."""
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    from api.http.connections import CONNECTIONS, connection_limit

    return {
        "interface": Interfaces.ASGI,
        "http": HTTPModes.http1,
        "http1_settings": HTTP1Settings(header_read_timeout=max(1, int(idle_timeout_s * 1000))),
        "backlog": CONNECTIONS,
        "backpressure": connection_limit(CONNECTIONS),
        "websockets": False,
    }


def _supervisor(ready: Path) -> Any:
    """Return granian's server, changed so that a worker ends when the one after it answers, and on one shared socket.

    With a socket for each worker, as granian has on Linux, connections that wait at a worker which ends are reset.
    """
    from granian import Granian

    class Supervisor(Granian):  # type: ignore[misc, valid-type]
        def _init_shared_socket(self) -> None:
            from granian.net import SocketSpec  # type: ignore[attr-defined]  # granian re-exports it without saying so

            self._shd = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
            self._sfd = self._shd.get_fd()
            self._sso = socket.socket(fileno=self._sfd)
            self._sso.set_inheritable(True)

        def _respawn_workers(self, workers: list[int], spawn_target: Any, target_loader: Any, delay: float = 0) -> None:  # noqa: ARG002 - granian's signature
            for index in workers:
                self.respawned_wrks[index] = time.monotonic()
                worker = self._spawn_worker(idx=index, target=spawn_target, callback_loader=target_loader)
                for sign in ready.iterdir():
                    sign.unlink(missing_ok=True)
                worker.start()
                before = self.wrks[index]
                if before.is_alive() and not _answers(worker, ready):
                    _LOG.error("the new worker does not answer; the one before it goes on")
                    worker.kill()
                    worker.join()
                    continue
                self.wrks[index] = worker
                before.terminate()
                before.join(self.workers_kill_timeout)
                if before.is_alive():
                    before.kill()
                    before.join()

    return Supervisor


def _answers(worker: Any, ready: Path) -> bool:
    """Wait until a worker process says that it can answer; False where it ends before, or takes too long."""
    until = time.monotonic() + WORKER_START_S
    sign = ready / str(worker.inner.pid)
    while not sign.exists():
        if not worker.inner.is_alive() or time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def ephemeral(home: Home) -> Iterator[str]:
    """Give the address of a service on this directory that lives as long as the block; its words go to `service.log`."""
    with started(home, free_port()) as url:
        yield url


@contextmanager
def started(home: Home, port: int) -> Iterator[str]:
    """Start a service as a child, give its address once it is ready, and stop it; it also ends when this process dies."""
    require_service_support()
    command = [sys.executable, "-P", "-m", "assay.cli", "serve", "--port", str(port), "--until-stdin-closes"]
    with home.service_log.open("ab") as log:
        begin = log.tell()
        failure, reporting = os.pipe()
        os.set_blocking(failure, False)
        child = subprocess.Popen(
            [*command, "--failure-to", str(reporting)],
            pass_fds=(reporting,),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "ASSAY_HOME": str(home.path)},
            # Ctrl-C in the terminal must end the verb first, and the service after it.
            start_new_session=True,
        )
        os.close(reporting)
    try:
        with os.fdopen(failure, "rb") as reported:
            url = _ready(home, child, f"http://127.0.0.1:{port}", lambda: _failure(home, child, reported.read(), begin))
        yield url
    finally:
        _stop(child)


def report_failure(error: AssayError, descriptor: int) -> None:
    """Write why a service did not start to the pipe of the process that started it."""
    with contextlib.suppress(OSError):
        os.write(descriptor, msgspec.json.encode(error_document(error)))


def _failure(home: Home, child: subprocess.Popen[bytes], reported: bytes | None, begin: int) -> AssayError:
    """Return why a service that ended did not start: the error it reported, else its last words in the log."""
    if reported:
        return error_of(msgspec.json.decode(reported))
    with home.service_log.open("rb") as log:
        log.seek(begin)
        text = log.read()
    return ServiceUnavailable(
        f"the service did not start (exit status {child.returncode}): {last_words(text)}",
        remedy=f"All it said is in {home.service_log}.",
    )


def last_words(text: bytes) -> str:
    """Return the last error in the output of a process, else the last line that is not a frame of a traceback."""
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    words = (
        errors
        or [line for line in lines if line.startswith("Fatal Python error: ")]
        or [line for line in lines if not line[0].isspace()]
    )
    return words[-1] if words else "it said nothing."


def _ready(home: Home, child: subprocess.Popen[bytes], url: str, failure: Callable[[], AssayError]) -> str:
    """Wait until the service answers; take another one's address where that one holds the directory."""
    deadline = time.monotonic() + START_SECONDS
    why = "it does not answer."
    with Client(url, patience_s=0) as client:
        while time.monotonic() < deadline:
            if child.poll() is not None:
                other = running(home)
                if other is not None:
                    return other.url
                raise failure()
            try:
                client.ready()
            except ProjectionBehind:
                # The tables are being made; that may take as long as the log is large, and shows in the next answers.
                deadline = time.monotonic() + START_SECONDS
                time.sleep(0.2)
            except AssayError as error:
                why = error.detail
                # Nothing tells from outside when a port will be listened on: asking again is the way to know.
                time.sleep(0.05)
            else:
                return url
    raise ServiceUnavailable(
        f"the service did not get ready within {START_SECONDS:.0f} s: {why}",
        remedy=f"All it said is in {home.service_log}.",
    )


def _stop(child: subprocess.Popen[Any]) -> None:
    if child.stdin:
        child.stdin.close()
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@contextmanager
def up(home: Home, port: int, dashboard_port: int) -> Iterator[tuple[str, str, list[subprocess.Popen[bytes]]]]:
    """Give the addresses of API and dashboard, and the dashboard's process; a service that runs already is used."""
    from dashboard.launch import command

    require_free("127.0.0.1", dashboard_port, "--dashboard-port")
    result = running(home)
    if result is None:
        require_free("127.0.0.1", port)
        with started(home, port) as url, _dashboard(home, command(dashboard_port, url)) as page:
            yield url, f"http://127.0.0.1:{dashboard_port}", [page]
        return
    with _dashboard(home, command(dashboard_port, result.url)) as page:
        yield result.url, f"http://127.0.0.1:{dashboard_port}", [page]


@contextmanager
def _dashboard(home: Home, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with home.dashboard_log.open("ab") as log:
        page = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        yield page
    finally:
        _stop(page)
