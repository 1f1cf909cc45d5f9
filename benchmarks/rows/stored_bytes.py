"""What the log takes when it is projected and archived: DuckDB and Parquet, against the events as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import zstandard

from benchmarks.bench import Bench
from benchmarks.documents import SAMPLES, Document, measurements, models_for, samples
from benchmarks.lines import Limit, Line, share
from benchmarks.loading import fill
from ingest.archive.archive import Archive
from ingest.log.postgres import Database
from ingest.projection.projector import Projection

__all__ = ["stored_bytes"]

SAMPLED = 5


def stored_bytes(bench: Bench) -> Iterator[Line]:
    """Measurements with all that the runner writes, every fifth with its raw samples; bytes do not vary, so there is one figure of each."""
    count = bench.plan.count(500_000, 50_000)
    with bench.database() as database:
        fill(database.url, _pairs(count, bench.seed()))
        with psycopg.connect(database.url) as connection:
            ((facts, raw),) = connection.execute(
                "SELECT sum(octet_length(body)) FILTER (WHERE type <> %(samples)s),"
                " sum(octet_length(body)) FILTER (WHERE type = %(samples)s) FROM event",
                {"samples": SAMPLES},
            ).fetchall()
        folder = bench.folder()
        segments = Archive(folder, database.url).write()
        facts_bytes = sum((folder / one.facts).stat().st_size for one in segments)
        raw_bytes = sum((folder / one.samples).stat().st_size for one in segments if one.samples)
        table_bytes = _projected(bench.folder(), database)
    yield share(
        f"stored bytes of {count:,} measurements of {facts / count:,.0f} B, DuckDB + Parquet archive", facts_bytes + table_bytes, float(facts),
        "the same events as JSON", Limit(bar=0.12, most=True), duckdb_bytes=table_bytes, parquet_bytes=facts_bytes,
    )  # fmt: skip
    yield share(
        "the archive of the facts alone",
        facts_bytes,
        float(facts),
        "the same events as JSON",
        an_event=facts_bytes / count,
    )
    packed, plain = _packed(bench, count)
    yield share(
        "as text by zstd at level 19, window 128 MiB: what one copy can be", packed, plain, "the same events as JSON"
    )
    yield share(
        "stored bytes of their raw samples, Parquet archive", raw_bytes, float(raw), "the same events as JSON",
        Limit(bar=0.5, most=True),
    )  # fmt: skip


def _projected(home: Path, database: Database) -> int:
    with Projection(home, database) as one:
        one.catch_up()
        path = one.path
    # Closed, so that what was in its write-ahead log is in the file.
    return path.stat().st_size


def _packed(bench: Bench, count: int) -> tuple[int, float]:
    """Return the bytes of some of the events after the best general compressor there is, and before."""
    part = min(count, 40_000)
    text = b"\n".join(one.body for one in measurements(part, seed=bench.seed(), models=models_for(count), whole=True))
    options = zstandard.ZstdCompressionParameters.from_level(19, window_log=27, enable_ldm=True)
    return len(zstandard.ZstdCompressor(compression_params=options).compress(text)), float(len(text))


def _pairs(count: int, seed: int) -> Iterator[Document]:
    random = np.random.default_rng((seed, 2))
    for number, document in enumerate(measurements(count, seed=seed, models=models_for(count), whole=True)):
        if number % SAMPLED == 0:
            yield samples(document, random)
        yield document
