"""The projection from nothing, in batches of 50,000, against a bare ADBC fetch and INSERT … SELECT of its columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.bare_fold import fetched, folded, raw
from benchmarks.bench import Bench
from benchmarks.documents import measurements
from benchmarks.lines import Limit, Line, interleaved, plain, rates
from benchmarks.loading import fill
from ingest.projection.projector import Projection

__all__ = ["projection"]

BATCH = 50_000


def projection(bench: Bench) -> Iterator[Line]:
    """All write a new DuckDB file; ours with keys, names, counts, checkpoint and dead letters."""
    count = bench.plan.count(300_000, 100_000)
    with bench.database() as database:
        fill(database.url, measurements(count, seed=bench.seed()))

        def ours() -> int:
            with Projection(bench.folder(), database) as one:
                one.catch_up(batch_rows=BATCH)
                with one.tables() as tables:
                    return int(tables.event_type_counts().column("events")[0].as_py())

        sides = (
            _rate(ours, count), _rate(lambda: folded(database, bench.folder() / "peer.duckdb", BATCH), count),
            _rate(lambda: raw(database, bench.folder() / "peer.duckdb", BATCH), count),
            _rate(lambda: fetched(database, BATCH), count),
        )  # fmt: skip
        interleaved(1, *sides)
        mine, other, unparsed, bare = interleaved(bench.plan.repeats, *sides)
    what = f"projection of {count:,} measurements, {BATCH:,} a batch"
    yield rates(
        what, "events/s", mine, other, "ADBC fetch + INSERT … SELECT of the same columns, parsed",
        Limit(bar=0.7, reach=0.9),
    )  # fmt: skip
    yield rates(what, "events/s", mine, unparsed, "ADBC fetch + INSERT of the log's own columns, JSON left as text")
    yield plain("the ADBC fetch alone", "events/s", bare)


def _rate(work: Callable[[], int], count: int) -> Callable[[], float]:
    def run() -> float:
        begin = time.perf_counter()
        found = work()
        taken = time.perf_counter() - begin
        if found != count:
            raise RuntimeError(f"{found} rows of {count} events")
        return count / taken

    return run
