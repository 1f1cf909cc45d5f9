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
from benchmarks.lines import Limit, Line, growth, interleaved, plain
from benchmarks.loading import grow
from benchmarks.serving import ROOT
from ingest.log.postgres import Database

__all__ = ["rebuild", "rebuilt"]

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


def rebuilt(database: Database, home: Path) -> dict[str, Any]:
    """Rebuild the projection of a log under `home` and return what the child told."""
    command = [sys.executable, "-m", "benchmarks.programs.rebuild", database.url, str(home)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"the rebuild failed: {ended.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
