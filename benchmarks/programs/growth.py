"""One part of `benchmarks.rows.growth` in a process of its own, so that its peak memory is its own. Prints one line of JSON.

append URL HOME EVENTS SEED MODELS: brings the tables up to date, then appends and projects batch by batch
recommend URL HOME MODELS: recommendations of models that nothing was asked of before
train HOME ROWS: a predictor trained on that many rows of the evidence that ships, which are repeated where it has fewer
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import msgspec

from benchmarks.documents import measurements, model_name
from benchmarks.processor import peak_bytes
from domain.events import decode_event
from ingest.evidence.tables import unpacked
from ingest.log.artifacts import ArtifactStore
from ingest.log.event_log import EventLog
from ingest.log.postgres import Database
from ingest.projection import Tables
from ingest.projection.projector import Projection
from predictor.answering.facts import trace_from_row
from predictor.answering.question import Question
from predictor.artifact.artifact import load_shipped
from predictor.features.dataset import Row, row_from_table, training_rows
from predictor.features.devices import Devices
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import TraceBook
from predictor.learning.building import Needs, train
from predictor.live.answerer import LiveAnswerer

BATCH = 1000
QUESTIONS = 20

Samples = dict[str, list[float]]


def append(url: str, home: str, events: str, seed: str, models: str) -> Samples:
    """Append events, 1,000 a batch, and project each batch by itself; samples are a batch each."""
    documents = measurements(int(events), seed=int(seed), models=int(models))
    decoded = [decode_event(document.body) for document in documents]
    batches = [decoded[start : start + BATCH] for start in range(0, len(decoded), BATCH)]
    samples: Samples = {name: [] for name in ("append", "append_processor", "project", "project_processor")}

    def measured(name: str, events: int, since: tuple[float, float]) -> None:
        samples[name].append(events / (time.perf_counter() - since[0]))
        samples[f"{name}_processor"].append((time.process_time() - since[1]) / events * 1e6)

    async def run(projection: Projection) -> None:
        async with EventLog(url) as log:
            for batch in batches:
                begin = _clocks()
                await log.append(batch)
                measured("append", len(batch), begin)
                begin = _clocks()
                projection.catch_up()
                measured("project", len(batch), begin)

    with Projection(Path(home), Database(url)) as projection:
        projection.catch_up()
        asyncio.run(run(projection))
    return {**samples, "project_memory": [peak_bytes()]}


def recommend(url: str, home: str, models: str) -> Samples:
    """Recommend for models in any order, each another where there are enough; the first answer is not counted."""
    names = [model_name(number) for number in range(int(models))]
    random.Random(1).shuffle(names)
    milliseconds, processor = [], []
    with Projection(Path(home), Database(url)) as projection:
        artifacts = ArtifactStore(url)
        answerer = LiveAnswerer(projection.cursor, lambda digest: artifacts.get(digest).content)
        for name in names[: QUESTIONS + 1]:
            begin = _clocks()
            answerer.recommend(Question(model=name))
            milliseconds.append((time.perf_counter() - begin[0]) * 1e3)
            processor.append((time.process_time() - begin[1]) * 1e3)
    return {
        "recommend": milliseconds[1:],
        "recommend_processor": processor[1:],
        "recommend_memory": [peak_bytes()],
    }


def train_on(home: str, rows: str) -> Samples:
    """Fit trees on so many rows, and measure them on rows held out, as the service does in `assay train`."""
    with duckdb.connect(str(unpacked(Path(home))), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        tables = Tables(connection)
        evidence = training_rows(map(row_from_table, tables.measurements().to_pylist()), mode=None)
        book = TraceBook(map(trace_from_row, traces_of(tables, {row.model for row in evidence})))
        devices = Devices(tables)
        chosen = _rows(evidence, int(rows))
        begin = _clocks()
        trained = train(
            chosen, book, devices.spec, load_shipped(), needs=Needs(rows=0, architectures=0, architectures_each=1)
        )
        seconds, processor_s = time.perf_counter() - begin[0], time.process_time() - begin[1]
    return {
        "train": [seconds], "train_processor": [processor_s], "train_memory": [peak_bytes()],
        "trained_rows": [float(trained.predictor.card.rows)],
    }  # fmt: skip


def _clocks() -> tuple[float, float]:
    """Return the seconds of the clock and of this process on all cores."""
    return time.perf_counter(), time.process_time()


def _rows(evidence: Sequence[Row], count: int) -> list[Row]:
    """Return rows drawn from the evidence; beyond its size each comes again with latencies of up to 5 % more."""
    chance = random.Random(1)
    rows = chance.sample(evidence, min(count, len(evidence)))
    while len(rows) < count:
        for row in evidence[: count - len(rows)]:
            slower = 1 + chance.random() / 20
            figures = {name: getattr(row, name) for name in ("latency_ms", "throughput_per_s")}
            if figures["latency_ms"]:
                figures["latency_ms"] *= slower
            if figures["throughput_per_s"]:
                figures["throughput_per_s"] /= slower
            rows.append(msgspec.structs.replace(row, **figures))
    return rows


PARTS: dict[str, Callable[..., Samples]] = {"append": append, "recommend": recommend, "train": train_on}


def main() -> None:
    """Measure the part that the command line names."""
    part, *arguments = sys.argv[1:]
    print(json.dumps(PARTS[part](*arguments)))


if __name__ == "__main__":
    main()
