"""Append in process, 1,000 a batch, one writer, against a bare COPY, and against another event store's recorder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import islice

import psycopg

from benchmarks.bench import Bench
from benchmarks.documents import Document, measurements, retractions
from benchmarks.lines import Limit, Line, interleaved, rates
from benchmarks.loading import COPY, copy_rows
from benchmarks.peers import Peer
from domain.events import Decoded, decode_event
from ingest.log.event_log import EventLog

__all__ = ["in_process"]

BATCH = 1000


def in_process(bench: Bench) -> Iterator[Line]:
    """EventLog.append of events that passed the gate before; the clock stops after the commit."""
    yield from _bare_copy(bench)
    yield from _recorder(bench)


def _bare_copy(bench: Bench) -> Iterator[Line]:
    each = bench.plan.count(10, 5)
    with bench.database() as database, psycopg.connect(database.url) as connection:
        seed = bench.seed()
        stream = measurements(2 * BATCH * each * (bench.plan.repeats + 1), seed=seed)

        def bare() -> float:
            parts = [copy_rows(batch) for batch in _batches(stream, each)]
            begin = time.perf_counter()
            for part in parts:
                with connection.cursor().copy(COPY.format(table="event")) as copy:
                    copy.write(part)
                connection.commit()
            return BATCH * each / (time.perf_counter() - begin)

        with asyncio.Runner() as runner:
            log = EventLog(database.url)
            runner.run(log.open())

            def ours() -> float:
                return runner.run(_appended(log, [_decoded(batch) for batch in _batches(stream, each)]))

            interleaved(1, ours, bare)
            mine, other = interleaved(bench.plan.repeats, ours, bare)
            runner.run(log.close())
    yield rates(
        f"append in process, {BATCH:,} a batch, one writer", "events/s", mine, other,
        "bare COPY of rows made before, no lock or duplicates check", Limit(bar=0.45, reach=0.6),
    )  # fmt: skip


def _recorder(bench: Bench) -> Iterator[Line]:
    each = bench.plan.count(10, 5)
    with bench.database() as database, bench.database(log=False) as theirs, asyncio.Runner() as runner:
        log = EventLog(database.url)
        runner.run(log.open())
        stream = retractions(BATCH * each * (bench.plan.repeats + 1), seed=bench.seed())
        size = 0

        def ours() -> float:
            nonlocal size
            batches = list(_batches(stream, each))
            size = len(batches[0][0].body)
            return runner.run(_appended(log, [_decoded(batch) for batch in batches]))

        with Peer(bench, "eventsourcing_recorder", theirs.url) as peer:

            def recorder() -> float:
                return float(peer.ask(f"{each} {BATCH} {size or 320}")["events_per_s"])

            ours(), recorder()
            mine, other = interleaved(bench.plan.repeats, ours, recorder)
        runner.run(log.close())
    yield rates(
        f"append in process, {BATCH:,} a batch, events of {size} B", "events/s", mine, other,
        "eventsourcing 9.5 insert_events, the faster of its two ways", Limit(bar=1.0, reach=1.4),
    )  # fmt: skip


def _batches(stream: Iterator[Document], each: int) -> Iterable[list[Document]]:
    return [list(islice(stream, BATCH)) for _ in range(each)]


def _decoded(documents: list[Document]) -> list[Decoded]:
    return [decode_event(document.body) for document in documents]


async def _appended(log: EventLog, batches: list[list[Decoded]]) -> float:
    begin = time.perf_counter()
    for batch in batches:
        answers = await log.append(batch)
        if any(answer.status != "accepted" for answer in answers):
            raise RuntimeError("a new event was not accepted")
    return sum(map(len, batches)) / (time.perf_counter() - begin)
