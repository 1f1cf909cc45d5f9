"""A rebuild of ten million events against one of a million: time, and the memory of its process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.documents import models_for
from benchmarks.lines import Limit, Line, growth, interleaved, plain, times
from benchmarks.loading import grow
from benchmarks.serving import ROOT
from ingest.log.postgres import Database

__all__ = ["parallel_rebuild", "rebuild", "rebuilt"]

MEMORY_LIMIT_BYTES = 1.5 * 2**30


def rebuild(bench: Bench) -> Iterator[Line]:
    """Each rebuild is a process of its own, beside an empty file, from a log of its own size."""
    large = bench.large
    count = bench.plan.events // 10
    told: dict[str, list[dict[str, Any]]] = {"large": [], "small": []}
    with bench.database() as small:
        grow(small.url, count, models=models_for(count), seed=bench.seed())

        def of(name: str, database: Database) -> float:
            found = rebuilt(database, bench.folder())
            told[name].append(found)
            bench.say(f"{name}: {found['seconds']:.1f} s, {found['peak_bytes'] / 2**20:,.0f} MiB")
            return float(found["seconds"])

        many, few = interleaved(bench.plan.repeats, lambda: of("large", large), lambda: of("small", small))
    yield growth(
        f"rebuild of {bench.plan.events:,} events", "s", many, few, f"rebuild of {count:,}", Limit(bar=11, most=True)
    )
    peaks = {name: [one["peak_bytes"] / 2**30 for one in found] for name, found in told.items()}
    yield plain(
        f"peak memory of a rebuild of {bench.plan.events:,}", "GiB", peaks["large"],
        Limit(bar=1.5, most=True), value=max(peaks["large"]), smaller_log=peaks["small"],
    )  # fmt: skip
    yield plain(f"peak memory of a rebuild of {count:,}", "GiB", peaks["small"])


def parallel_rebuild(bench: Bench) -> Iterator[Line]:
    """A rebuild by two processes against one fold of the same log, in turns."""
    told: dict[int, list[dict[str, Any]]] = {0: [], 2: []}

    def by(workers: int) -> float:
        found = rebuilt(bench.large, bench.folder(), workers)
        told[workers].append(found)
        bench.say(f"{workers or 'no'} workers: {found['seconds']:.1f} s, {found['cpu_seconds']:.1f} s of a core")
        return float(found["cpu_seconds"])

    many, one = interleaved(bench.plan.repeats, lambda: by(2), lambda: by(0))
    events = f"{bench.plan.events:,} events"
    yield growth(
        f"processor time of a rebuild of {events} by 2 processes",
        "s",
        many,
        one,
        "one fold",
        Limit(bar=1.25, most=True),
    )
    merges = [found["merge_cpu_seconds"] for found in told[2]]
    yield growth("processor time of the merge in it", "s", merges, one, "one fold", Limit(bar=0.1, most=True))
    seconds = {workers: [found["seconds"] for found in founds] for workers, founds in told.items()}
    yield times(f"rebuild of {events} by 2 processes", "s", seconds[2], seconds[0], "one fold")
    peaks = [found["peak_bytes"] / 2**30 for found in told[2]]
    yield plain("peak memory of the largest of its processes", "GiB", peaks, value=max(peaks))


def rebuilt(database: Database, home: Path, workers: int = 0) -> dict[str, Any]:
    """Rebuild the projection of a log under `home`, by so many processes, and return what the child told."""
    command = [sys.executable, "-m", "benchmarks.programs.rebuild", database.url, str(home), str(workers)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"the rebuild failed: {ended.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
