"""Ranges of the log: where it is cut, and one range folded into a DuckDB file of its own.

`python -m ingest.parallel.ranges` reads a RangeTask from stdin, folds it, and prints `{}` or the problem that it met.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from pathlib import Path

import duckdb
import msgspec

from domain.errors import AssayError, ServiceUnavailable, UsageError, error_document
from domain.upcasting import UPCASTERS
from ingest.projection.advance import advance
from ingest.projection.definitions import definitions_digest
from ingest.projection.fold import Folder
from ingest.projection.source import LogSource
from ingest.projection.store import Store

__all__ = ["LogAddress", "RangeTask", "begin_file", "end_with_parent", "fold_range", "plan_ranges"]

_BATCH_BYTES = 48 * 2**20
_LEAST_EVENTS = 1_000
"""Positions below which a range costs more to start than to fold."""
_MOST_EVENTS = 1_000_000
"""Positions of one range: so much is folded again at the most when a process is killed."""


class LogAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log is: the URL of its Postgres, and the folder of its archive."""

    uri: str
    archive: str | None = None

    def source(self) -> LogSource:
        """Return a reader of the log, for one thread."""
        return LogSource(self.uri, _BATCH_BYTES, archive=Path(self.archive) if self.archive else None)


class RangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """The events above `after` and up to `upto`, which both exist; `chain` is the link of the event at `after`, as hex.

    `definitions` is the digest of what the tables are made by, which has to be that of whoever folds.
    """

    log: LogAddress
    number: int
    after: int
    upto: int
    chain: str | None
    definitions: str
    threads: int = 1
    path: str = ""


def plan_ranges(log: LogAddress, slots: int, definitions: str, *, threads: int = 1) -> list[RangeTask]:
    """Cut the log into at least `slots` ranges of about as many positions, fewer where it is short; none of an empty one."""
    with contextlib.closing(log.source()) as source:
        last = source.last_position()
        count = max(min(slots, last // _LEAST_EVENTS), -(-last // _MOST_EVENTS), 1)
        edges = {source.position_at_most(last * number // count) for number in range(1, count)} - {0, last}
        cuts = [0, *sorted(edges), last] if last else []
        chains = {cut: source.chain_at(cut) if cut else None for cut in cuts}
    return [
        RangeTask(
            log=log,
            number=number,
            after=after,
            upto=upto,
            chain=chain.hex() if (chain := chains[after]) else None,
            definitions=definitions,
            threads=threads,
        )
        for number, (after, upto) in enumerate(itertools.pairwise(cuts))
    ]


def begin_file(task: RangeTask, path: Path) -> duckdb.DuckDBPyConnection:
    """Make a file without rows whose tables begin after the event at `task.after`."""
    connection = Store(path.parent, task.definitions).create(path)
    connection.execute(f"SET GLOBAL threads = {int(task.threads)}")
    connection.execute("UPDATE projection SET position = ?, chain = ?", [task.after, task.chain])
    return connection


def fold_range(task: RangeTask, path: Path) -> None:
    """Fold the range into a new file at `path`; what its measurements come to is counted by who merges it."""
    if task.definitions != definitions_digest(UPCASTERS):
        raise UsageError(
            "this process makes the tables by other definitions than the service that asked for them.",
            field="workers",
            remedy="Install the same version of Assay on every machine of the cluster, and with the same packages.",
        )
    folder = Folder(begin_file(task, path))
    folder.postpone_standings()
    try:
        with contextlib.closing(task.log.source()) as source:
            advance(folder, source, task.upto)
        if folder.position != task.upto:
            raise ServiceUnavailable(
                f"the log ended at position {folder.position} while the events up to {task.upto} were read.",
                remedy="Run `assay log verify`, and rebuild again.",
            )
        folder.checkpoint()
    finally:
        folder.close()


def end_with_parent() -> None:
    """End this process, from a thread, soon after its parent is gone: nobody waits for what it does."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _main() -> None:
    end_with_parent()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=RangeTask)
    answer = {}
    try:
        fold_range(task, Path(task.path))
    except AssayError as error:
        answer = {"problem": error_document(error)}
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    _main()
