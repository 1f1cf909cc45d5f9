"""How cost grows with the size of the log: projecting, asking, storing and appending, from a thousand events on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.documents import measurements, models_for
from benchmarks.lines import Line, growth, interleaved, plain
from benchmarks.serving import ROOT
from domain.events import decode_event
from ingest.log.event_log import EventLog
from ingest.log.postgres import Database

__all__ = ["growing"]

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
BATCH = 1000


def growing(bench: Bench) -> Iterator[Line]:
    """The large log, projected up to each size in turn; and a batch appended to it and to an empty one, in turns."""
    count = bench.plan.events
    sizes = [size for size in SIZES if size <= count] or [count]
    command = [
        sys.executable, "-m", "benchmarks.programs.growth", bench.large.url, str(bench.folder()),
        str(models_for(count)), *map(str, sizes),
    ]  # fmt: skip
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"the projection failed: {ended.stderr[-2000:]}")
    for told in map(json.loads, ended.stdout.splitlines()):
        size = f"at {told['events']:,} events"
        yield plain(f"projected, {size}", "events/s", [told["events_per_s"]])
        yield plain(f"best rows of one model, in process, {size}", "ms", told["query_ms"])
        yield plain(f"DuckDB file, {size}", "bytes an event", [told["file_bytes"] / told["events"]])
    with bench.database() as empty:
        full, fresh = interleaved(
            bench.plan.repeats, lambda: _append_ms(bench, bench.large), lambda: _append_ms(bench, empty)
        )
    yield growth(f"append of {BATCH:,} to a log of {count:,}", "ms", full, fresh, "to an empty one")


def _append_ms(bench: Bench, database: Database) -> float:
    batches = [[decode_event(document.body) for document in measurements(BATCH, seed=bench.seed())] for _ in range(3)]

    async def run() -> float:
        async with EventLog(database.url) as log:
            await log.append(batches[0])
            begin = time.perf_counter()
            for batch in batches[1:]:
                await log.append(batch)
            return (time.perf_counter() - begin) / len(batches[1:])

    return asyncio.run(run()) * 1e3
