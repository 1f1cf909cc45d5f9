"""Starting and stopping the embedded Postgres: a new one, one that runs, one that was stopped, one that was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil

from benchmarks.bench import Bench
from benchmarks.lines import Line, plain
from ingest.log.embedded import EmbeddedServer
from ingest.log.postgres import open_database

__all__ = ["embedded"]

Made = TypeVar("Made")


def embedded(bench: Bench) -> Iterator[Line]:
    """Wall time of `open_database` and its counterpart."""
    found: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Made]) -> Made:
        begin = time.perf_counter()
        result = work()
        found.setdefault(name, []).append(time.perf_counter() - begin)
        return result

    for _ in range(bench.plan.repeats):
        home = bench.folder()
        first = timed("a new one, with initdb", lambda home=home: open_database(home))
        timed("one that runs", lambda home=home: open_database(home)).close()
        timed("stopping it", first.close)
        server = EmbeddedServer(home / "postgres")
        timed("one that was stopped", server.start)
        psutil.Process(server.pid).kill()
        server.stop()
        timed("one that was killed, with recovery", lambda home=home: open_database(home)).close()
    for name, taken in found.items():
        yield plain(f"embedded Postgres: {name}", "s", taken)
