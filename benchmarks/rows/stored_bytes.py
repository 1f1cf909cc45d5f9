"""What the log takes when it is projected and archived: DuckDB and Parquet, against the events as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
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
PART = 40_000
"""Events that tell enough of the others."""
_ID_BITS = 74.0
"""What is random in a UUID of version 7; the rest is its time."""
_BINS = 100
Codes = np.ndarray[Any, np.dtype[np.int64]]


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
    floor = _floor(measurements(min(count, PART), seed=bench.seed(), models=models_for(count), whole=True))
    yield share(
        "the floor of one copy: the entropy of each of its columns", sum(floor.values()) * count, float(facts),
        "the same events as JSON", an_event=sum(floor.values()), digest=floor["$.data.samples.digest"], id=floor["$.id"],
        metrics=sum(size for path, size in floor.items() if path.startswith("$.data.metrics.")),
    )  # fmt: skip
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
    part = min(count, PART)
    text = b"\n".join(one.body for one in measurements(part, seed=bench.seed(), models=models_for(count), whole=True))
    options = zstandard.ZstdCompressionParameters.from_level(19, window_log=27, enable_ldm=True)
    return len(zstandard.ZstdCompressor(compression_params=options).compress(text)), float(len(text))


def _floor(documents: Iterator[Document]) -> dict[str, float]:
    """Return by path how many bytes an event needs at the least for the values there; 0 where another path implies them.

    Each column by itself: what two figures have in common is not taken into account.
    """
    rows: list[dict[str, Any]] = []
    for document in documents:
        rows.append({})
        _flatten(msgspec.json.decode(document.body), "$", rows[-1])
    paths = dict.fromkeys(path for row in rows for path in row)
    columns = {path: [row.get(path) for row in rows] for path in paths}
    codes = {path: _codes(values) for path, values in columns.items()}
    implying: list[Codes] = []
    bits: dict[str, float] = {}
    for path in sorted(columns, key=lambda path: -int(codes[path].max())):
        values, code = columns[path], codes[path]
        if any(len(np.unique(other * (code.max() + 1) + code)) == other.max() + 1 for other in implying):
            bits[path] = 0.0
        elif 4 * code.max() < len(rows):
            implying.append(code)
            bits[path] = _entropy(code)
        elif path == "$.id":
            bits[path] = _ID_BITS
        elif path == "$.time":
            times = [datetime.fromisoformat(str(value)) for value in values]
            bits[path] = _entropy(_codes([after - before for before, after in pairwise(times)]))
        elif isinstance(values[0], str):
            bits[path] = 8 * len(bytes.fromhex(values[0].removeprefix("sha256:")))
        else:
            bits[path] = _density(np.array(values))
    return {path: size / 8 for path, size in bits.items()}


def _flatten(value: Any, path: str, row: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}", row)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _flatten(inner, f"{path}[{index}]", row)
    else:
        row[path] = value


def _codes(values: list[Any]) -> Codes:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values])


def _entropy(codes: Codes) -> float:
    """Return the bits of one of these; where few pairs follow each other, of one after another."""
    pairs = codes[:-1] * (codes.max() + 1) + codes[1:]
    if 10 * len(np.unique(pairs)) > len(codes):
        return _bits(codes)
    return _bits(pairs) - _bits(codes)


def _bits(codes: Codes) -> float:
    shares = np.unique(codes, return_counts=True)[1] / len(codes)
    return float(-np.sum(shares * np.log2(shares)))


def _density(values: np.ndarray[Any, Any]) -> float:
    """Return the bits of one of these numbers, each as precise as they are: bins of equal counts, even within a bin."""
    edges = np.quantile(values, np.linspace(0, 1, _BINS + 1))
    if values.dtype.kind == "i":
        precision = float(np.gcd.reduce(values))
    elif np.array_equal(np.round(values, 6), values):
        precision = 1e-6
    else:
        precision = np.spacing(edges[1:])
    return float(np.mean(np.log2(np.maximum(1.0, _BINS * np.diff(edges) / precision))))


def _pairs(count: int, seed: int) -> Iterator[Document]:
    random = np.random.default_rng((seed, 2))
    for number, document in enumerate(measurements(count, seed=seed, models=models_for(count), whole=True)):
        if number % SAMPLED == 0:
            yield samples(document, random)
        yield document
