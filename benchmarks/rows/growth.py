"""How cost grows with the size of the log: appending, projecting, asking, rebuilding, storing and training, size by size.

One log grows from each size to the next. What was measured is written down part by part, so that a run that was stopped
goes on where it was; a run that ends removes its log.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.documents import model_name, models_for
from benchmarks.lines import Line, plain
from benchmarks.loading import grow
from benchmarks.processor import Meter
from benchmarks.rows.comparison import projected
from benchmarks.serving import ROOT, end_with_parent, service
from ingest.archive.archive import Archive
from ingest.log.migrate import upgrade
from ingest.log.postgres import Database, open_database

__all__ = ["CURVES", "Curve", "Progress", "growing", "sizes"]

BATCH = 1_000
APPENDED = 10_000
"""Events that are appended and projected batch by batch at each size, where it has as many."""
QUESTIONS = 20
QUERIES = 5
"""Each free query is a process of its own, and takes a second on an idle machine."""
REPEATED_TO = 100_000
"""Rebuilds of larger logs are measured once."""
TRAINED = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Training rows, which are far fewer than events."""
TRAINING_S = 600.0
"""The next size of training is left out where it would take longer, as the last one grew."""
SQL = """
SELECT hardware_id, precision, count(*), median(latency_p50_ms), max(throughput_per_s) FROM measurements
WHERE batch_size >= 4 GROUP BY ALL ORDER BY ALL LIMIT {limit}
"""

_REBUILT = {"": "seconds", "_processor": "cpu_seconds", "_memory": "peak_bytes"}
"""By end of a curve's name, what `benchmarks.programs.rebuild` calls it."""

Samples = dict[str, list[float]]


class Curve(msgspec.Struct, frozen=True):
    """What is measured at each size; `total` adds up over the log, `of` is what sizes count."""

    what: str
    unit: str
    total: bool = False
    of: str = "events"


CURVES: dict[str, Curve] = {
    "append": Curve("append in process, 1,000 a batch", "events/s"),
    "append_processor": Curve("append, processor time without Postgres", "µs an event"),
    "project": Curve("project what was appended, 1,000 a batch", "events/s"),
    "project_processor": Curve("project, processor time without Postgres", "µs an event"),
    "compare": Curve("compare one model over HTTP", "ms"),
    "compare_processor": Curve("compare one model, processor time of the service", "ms"),
    "trends": Curve("trends of one model over HTTP", "ms"),
    "trends_processor": Curve("trends of one model, processor time of the service", "ms"),
    "recommend": Curve("recommend for one model, in process", "ms"),
    "recommend_processor": Curve("recommend for one model, processor time", "ms"),
    "runs": Curve("newest runs, a page of the dashboard's list", "ms"),
    "runs_processor": Curve("newest runs, processor time of the service", "ms"),
    "query": Curve("free query over all measurements", "ms"),
    "query_processor": Curve("free query, processor time of the service", "ms"),
    "rebuild": Curve("rebuild from Postgres", "s", total=True),
    "rebuild_processor": Curve("rebuild from Postgres, processor time", "s", total=True),
    "archived_rebuild": Curve("rebuild from the archive", "s", total=True),
    "archived_rebuild_processor": Curve("rebuild from the archive, processor time", "s", total=True),
    "project_memory": Curve("peak memory of the projecting process", "bytes"),
    "rebuild_memory": Curve("peak memory of a rebuild from Postgres", "bytes"),
    "archived_rebuild_memory": Curve("peak memory of a rebuild from the archive", "bytes"),
    "recommend_memory": Curve("peak memory of the recommending process", "bytes"),
    "postgres": Curve("Postgres with indexes", "bytes", total=True),
    "duckdb": Curve("DuckDB file", "bytes", total=True),
    "archive": Curve("Parquet archive", "bytes", total=True),
    "train": Curve("training", "s", total=True, of="training rows"),
    "train_processor": Curve("training, processor time", "s", total=True, of="training rows"),
    "train_memory": Curve("peak memory of training", "bytes", of="training rows"),
}


def sizes(largest: int) -> list[int]:
    """Return one and three times the powers of ten from 1,000 up to the largest size."""
    return [size for power in range(3, 12) for size in (10**power, 3 * 10**power) if size <= largest]


class Progress:
    """Samples by size and part in a JSON file that is written anew after each part."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._samples: dict[str, Samples] = json.loads(path.read_bytes()) if path.exists() else {}

    def part(self, name: str, size: int, measure: Callable[[], Samples]) -> Samples:
        """Return the samples of a part at a size; they are measured unless an earlier run has done so."""
        key = f"{name} {size}"
        if key not in self._samples:
            self._samples[key] = measure()
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps(self._samples))
            beside.replace(self._path)
        return self._samples[key]


def growing(bench: Bench) -> Iterator[Line]:
    """A line a curve and size; of the log first, then of training."""
    folder = bench.root / "assay-bench-growth"
    folder.mkdir(exist_ok=True)
    progress = Progress(folder / "measured.json")
    room = progress.part("disk", 0, lambda: {"free": [float(shutil.disk_usage(folder).free)]})["free"]
    yield plain("room for the data of this benchmark", "bytes", room, curve="disk")
    with open_database(folder) as database:
        upgrade(database.url)
        log = _Log(bench, database, folder)
        for size in sizes(bench.plan.events):
            for name, measure in log.parts().items():
                bench.say(f"{size:,} events: {name}")
                yield from _lines(size, progress.part(name, size, partial(measure, size)))
    seconds = 0.0
    for size in TRAINED[: bench.plan.count(len(TRAINED), 2)]:
        if 4 * seconds > TRAINING_S:
            break
        bench.say(f"{size:,} training rows")
        train = partial(_child, "train", str(folder / "evidence"), str(size))
        samples = progress.part("train", size, train)
        seconds = samples["train"][0]
        yield from _lines(size, samples)
    shutil.rmtree(folder)


def _lines(size: int, samples: Samples) -> Iterator[Line]:
    for name, values in samples.items():
        if (curve := CURVES.get(name)) is not None:
            yield plain(f"{curve.what}, {size:,} {curve.of}", curve.unit, values, curve=name, size=size)


class _Log:
    """The log that grows, its tables and its archive."""

    def __init__(self, bench: Bench, database: Database, folder: Path) -> None:
        self._bench, self._database, self._folder = bench, database, folder
        self._home = folder / "home"
        self._archive = Archive(folder / "archive", database.url)
        # An earlier run may have been stopped in the middle of a rebuild from the archive.
        self._mark_trimmed("NULL")

    def parts(self) -> dict[str, Callable[[int], Samples]]:
        """Return what is measured at each size, in order."""
        return {
            "append and project": self._append,
            "recommend": self._recommend,
            "questions over HTTP": self._questions,
            "bytes": self._bytes,
            "rebuild from Postgres": self._rebuild,
            "rebuild from the archive": self._archived_rebuild,
        }

    def _append(self, size: int) -> Samples:
        """Fill the log up to the size, the last batches as the service appends them."""
        ((existing,),) = self._sql("SELECT count(*) FROM event")
        last = min(APPENDED, size // 2)
        if existing < size - last:
            # A seed of an earlier call would make the same events again.
            grow(self._database.url, size - last - existing, models=models_for(size), seed=2 * existing)
            existing = size - last
        events = max(size - existing, min(BATCH, last))
        return _child(
            "append", self._database.url, str(self._home), str(events), str(10**9 + existing), str(models_for(size))
        )

    def _recommend(self, size: int) -> Samples:
        return _child("recommend", self._database.url, str(self._home), str(models_for(size)))

    def _questions(self, size: int) -> Samples:
        samples: Samples = {name: [] for name in ("compare", "trends", "runs", "query")}
        models = models_for(size)
        with service(self._home, self._database) as running, Client(running.url) as client:
            projected(client)
            asked: Mapping[str, Callable[[int], Any]] = {
                "compare": lambda number: client.compare_hardware(model_name(number % models)),
                "trends": lambda number: client.trends(model_name(number % models)),
                # Another limit each time: an answer that was given before would be repeated.
                "runs": lambda number: client.page("runs", limit=50 + number),
                "query": lambda number: client.query(SQL.format(limit=100 + number)),
            }
            for name, ask in asked.items():
                ask(0)
                meter = Meter({"service": [running.pid]})
                with meter.running():
                    for number in range(1, 1 + (QUERIES if name == "query" else QUESTIONS)):
                        begin = time.perf_counter()
                        ask(number)
                        samples[name].append((time.perf_counter() - begin) * 1e3)
                meter.dealt_with(len(samples[name]))
                samples[f"{name}_processor"] = [meter.document()["service_us"] / 1e3]
        return samples

    def _bytes(self, _size: int) -> Samples:
        self._sql("VACUUM (ANALYZE) event")
        ((postgres,),) = self._sql("SELECT pg_total_relation_size('event')")
        self._archive.write()
        archive = sum(segment.size_bytes for segment in self._archive.segments())
        return {"postgres": [float(postgres)], "archive": [float(archive)]}

    def _rebuild(self, size: int, name: str = "rebuild") -> Samples:
        """Rebuild in a process of its own, beside an empty file."""
        samples: Samples = {}
        for _ in range(self._bench.plan.repeats if size <= REPEATED_TO else 1):
            home = self._folder / "rebuilt"
            shutil.rmtree(home, ignore_errors=True)
            report = _program("rebuild", self._database.url, str(home), "0", archive=self._archive.folder)
            # Closed, so that what was in its write-ahead log is in the file.
            tables = sum(path.stat().st_size for path in home.rglob("*.duckdb"))
            shutil.rmtree(home)
            for curve, member in _REBUILT.items():
                samples.setdefault(f"{name}{curve}", []).append(report[member])
            samples["duckdb"] = [float(tables)]
        return samples

    def _archived_rebuild(self, size: int) -> Samples:
        """Rebuild a log that says that its bodies are in the archive; Postgres keeps them, so that the log can grow on."""
        self._mark_trimmed("clock_timestamp()")
        try:
            samples = self._rebuild(size, "archived_rebuild")
        finally:
            self._mark_trimmed("NULL")
        return {name: values for name, values in samples.items() if name != "duckdb"}

    def _mark_trimmed(self, moment: str) -> None:
        self._sql(f"UPDATE archive_segment SET trimmed_at = {moment}")

    def _sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


def _child(part: str, *arguments: str) -> Samples:
    """Return what a part of `benchmarks.programs.growth` measures in a process of its own."""
    samples: Samples = _program("growth", part, *arguments)
    return samples


def _program(name: str, *arguments: str, archive: Path | None = None) -> Any:
    variables = {**os.environ, **({} if archive is None else {"ASSAY_ARCHIVE": str(archive)})}
    command = [sys.executable, "-m", f"benchmarks.programs.{name}", *arguments]
    # A child that went on after a kill would append to the log that the next run extends.
    ended = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command[2:4])} failed: {ended.stderr[-2000:]}")
    return json.loads(ended.stdout)
