"""What the ordering lock is for: the events that a tailing reader misses under eight writers, with it and without."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.documents import measurements
from benchmarks.lines import Line, plain
from domain.events import Decoded, decode_event
from ingest.log import append
from ingest.log.event_log import EventLog
from ingest.log.postgres import Database

__all__ = ["ordering_lock"]

WRITERS, BATCH = 8, 5


def ordering_lock(bench: Bench) -> Iterator[Line]:
    """The lock's statement is replaced by one that locks nothing; the product has no switch for that."""
    each = bench.plan.count(100, 40)
    kept = append._LOCK
    for name, statement in {"on": kept, "off": "SELECT 0"}.items():
        append._LOCK = statement
        try:
            with bench.database() as database:
                yield plain(
                    f"events that a tailing reader missed, lock {name}", "%", [100 * _missed(bench, database, each)]
                )
        finally:
            append._LOCK = kept


def _missed(bench: Bench, made: Database, each: int) -> float:
    events = [
        [[decode_event(document.body) for document in measurements(BATCH, seed=bench.seed())] for _ in range(each)]
        for _ in range(WRITERS)
    ]
    done = threading.Event()
    seen: list[int] = []

    async def write(batches: list[list[Decoded]]) -> None:
        async with EventLog(made.url, connections=1) as log:
            for batch in batches:
                await log.append(batch)

    async def read() -> None:
        async with EventLog(made.url) as log:
            while True:
                last = done.is_set()
                found = await log.read(after=seen[-1] if seen else 0, limit=500)
                seen.extend(event.position for event in found)
                if last and not found:
                    return

    reader = threading.Thread(target=lambda: asyncio.run(read()))
    threads = [threading.Thread(target=lambda b=batches: asyncio.run(write(b))) for batches in events]
    for thread in [reader, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    return 1 - len(seen) / (WRITERS * each * BATCH)
