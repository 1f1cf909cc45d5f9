"""The whole log into one DuckDB file by many processes: cut, fold, merge; a process that is killed is replaced."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import msgspec

from domain.errors import ServiceUnavailable, error_of
from ingest.parallel.merging import merge
from ingest.parallel.ranges import LogAddress, RangeTask, plan_ranges
from ingest.projection.store import Store

__all__ = ["Pool", "Processes", "Rebuild", "Report", "fold_log", "fold_with"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 3


class Rebuild(msgspec.Struct, frozen=True, kw_only=True):
    """The file to make, by `workers` processes of this machine, or on the Ray cluster at the address `ray`."""

    log: LogAddress
    path: str
    definitions: str
    workers: int = 1
    ray: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How the file was made; `restarted` counts ranges that were folded again, null where that is not known."""

    position: int
    ranges: int
    restarted: int | None = None
    fold_s: float = 0.0
    merge_s: float = 0.0
    merge_cpu_s: float = 0.0


class Pool(Protocol):
    """Who folds ranges: `slots` of them at a time, each with `threads`."""

    slots: int
    threads: int

    def fold(self, tasks: Sequence[RangeTask]) -> int | None:
        """Fold each task into the file at its path, and return how often one began again, where that is known."""
        ...


class Processes:
    """Processes of this machine, one a range, at most `workers` at a time.

    `started` is called with each task and the id of the process that folds it.
    """

    def __init__(self, workers: int, started: Callable[[RangeTask, int], None] = lambda _task, _pid: None) -> None:
        self.slots = workers
        self.threads = max(1, (os.cpu_count() or 1) // workers)
        self._started = started

    def fold(self, tasks: Sequence[RangeTask]) -> int:
        """Fold each task into the file at its path, and return how often one had to begin again."""
        with ThreadPoolExecutor(self.slots) as threads:
            return sum(threads.map(self._fold, tasks))

    def _fold(self, task: RangeTask) -> int:
        for attempt in range(_ATTEMPTS):
            Store.remove(Path(task.path))
            status, answer, said = self._run(task)
            if status == 0:
                document = msgspec.json.decode(answer)
                if "problem" in document:
                    raise error_of(document["problem"])
                return attempt
            _LOG.warning("the process of positions %s to %s ended with %s", task.after + 1, task.upto, status)
            if status > 0:
                break
        raise ServiceUnavailable(
            f"the process that folds positions {task.after + 1} to {task.upto} ended with {status}: {said[-300:]}.",
            field="workers",
            remedy="Ask for fewer; a status of -9 means that it was killed, often because memory ran out.",
        )

    def _run(self, task: RangeTask) -> tuple[int, bytes, str]:
        with subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.ranges"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[__name__.count(".")],
        ) as process:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(task))
                process.stdin.close()
            process.stdin = None
            self._started(task, process.pid)
            answer, said = process.communicate()
        return process.returncode, answer, said.decode(errors="replace").strip()


def fold_log(rebuild: Rebuild) -> Report:
    """Make the file that `rebuild` names from the whole log, by the processes that it names."""
    if rebuild.ray is None:
        return fold_with(rebuild, Processes(rebuild.workers))
    from ingest.parallel.cluster import cluster

    with cluster(rebuild.ray) as pool:
        return fold_with(rebuild, pool)


def fold_with(rebuild: Rebuild, pool: Pool) -> Report:
    """Make the file of a rebuild; whatever fails, nothing of it is left."""
    path = Path(rebuild.path)
    tasks = [
        msgspec.structs.replace(task, path=str(_piece(path, task.number)))
        for task in plan_ranges(rebuild.log, pool.slots, rebuild.definitions, threads=pool.threads)
    ]
    pieces = [Path(task.path) for task in tasks]
    Store.remove(path)
    if not pieces:
        Store(path.parent, rebuild.definitions).create(path).close()
        return Report(position=0, ranges=0)
    try:
        began = time.monotonic()
        restarted = pool.fold(tasks)
        folded, cpu = time.monotonic(), time.process_time()
        merge(pieces, threads=os.cpu_count() or 1)
        pieces[0].replace(path)
        return Report(
            position=tasks[-1].upto,
            ranges=len(tasks),
            restarted=restarted,
            fold_s=folded - began,
            merge_s=time.monotonic() - folded,
            merge_cpu_s=time.process_time() - cpu,
        )
    finally:
        for piece in pieces:
            Store.remove(piece)


def _piece(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.piece-{number}.duckdb")
