"""Processes of a benchmark that end with it: the service on a database, and programs of benchmarks/programs."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay.service import free_port
from ingest.log.postgres import Database

__all__ = ["ROOT", "Running", "end_with_parent", "environment", "program", "server", "service"]

ROOT = Path(__file__).resolve().parents[1]
_START_S = 120.0
_PR_SET_PDEATHSIG = 1
# A proxy of the environment is for other hosts.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Running(msgspec.Struct, frozen=True):
    """A server: its address, and the id of its process."""

    url: str
    pid: int


@contextmanager
def service(home: Path, database: Database, *arguments: str) -> Iterator[Running]:
    """Give `assay serve` on a database, ready; it ends with the block."""
    port = free_port()
    command = [sys.executable, "-m", "assay.cli", "serve", "--port", str(port), *arguments]
    with server(command, port, "/health/live", home, environment(home, database)) as running:
        yield running


@contextmanager
def program(name: str, home: Path, database: Database | None = None) -> Iterator[Running]:
    """Give a server of benchmarks/programs, which takes its port as its argument."""
    port = free_port()
    command = [sys.executable, "-m", f"benchmarks.programs.{name}", str(port)]
    with server(command, port, "/health/live", home, environment(home, database)) as running:
        yield running


@contextmanager
def server(
    command: Sequence[str], port: int, path: str, home: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Start a server, give it once `path` answers, and end it."""
    url = f"http://127.0.0.1:{port}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environment or os.environ),
            preexec_fn=end_with_parent,
        )  # fmt: skip
    try:
        _wait(process, url + path, home / "server.log")
        yield Running(url, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(home: Path, database: Database | None = None) -> dict[str, str]:
    """Return the environment of a server of its own: none of ours, and nothing shipped."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    kept["ASSAY_HOME"] = str(home)
    kept["ASSAY_SHIPPED_DATA"] = "no"
    if database is not None:
        kept["ASSAY_DATABASE_URL"] = database.url
    return kept


def end_with_parent() -> None:
    """Let this process be stopped when its parent is killed, where the system can do that; for `preexec_fn`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + _START_S
    while True:
        try:
            with _OPENER.open(url, timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}") from None
            # Nothing tells from outside when a port is listened on.
            time.sleep(0.05)
