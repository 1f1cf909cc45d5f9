"""What a worker takes of a core and of memory while no job waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, plain
from benchmarks.serving import ROOT, service

__all__ = ["idle_worker"]

START_S = 180.0


def idle_worker(bench: Bench) -> Iterator[Line]:
    """The processor time of `assay worker` between two claims of 25 s each and more, from when it has connected."""
    seconds = bench.plan.seconds(120, 55)
    home = bench.folder() / "worker"
    home.mkdir(parents=True)
    log = home / "worker.log"
    with bench.database() as database, service(bench.folder(), database) as running, log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "assay.cli", "worker", "--server", running.url],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "ASSAY_HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT)},
        )
        try:
            _wait_for_connection(worker, log)
            process = psutil.Process(worker.pid)
            before, began = _spent(process), time.monotonic()
            time.sleep(seconds)
            share = (_spent(process) - before) / (time.monotonic() - began)
            memory = process.memory_info().rss
        finally:
            worker.terminate()
            worker.wait(30)
    yield plain(f"an idle worker's share of a core, over {seconds:g} s", "%", [100 * share], Limit(bar=0.5, most=True))
    yield plain("an idle worker's resident memory", "MB", [memory / 1e6])


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait_for_connection(worker: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the worker has had its first answer. Raises RuntimeError where it ends or takes too long."""
    until = time.monotonic() + START_S
    while " connected " not in log.read_text():
        if worker.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the worker did not connect")
        time.sleep(0.2)
