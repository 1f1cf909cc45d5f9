"""The limits that the other figures run into, each by itself: disk, commit, JSON, the gate, and the web stack."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import msgspec
import psycopg

from benchmarks.bench import Bench
from benchmarks.documents import measurements
from benchmarks.lines import Line, plain
from benchmarks.loading import COPY, copy_rows
from benchmarks.rows.http_batches import CLIENTS, post_together
from benchmarks.serving import program
from domain.events import decode_event

__all__ = ["limits"]


def limits(bench: Bench) -> Iterator[Line]:
    """None has a bar: they say how far a bar can be."""
    repeats = bench.plan.repeats
    bodies = [document.body for document in measurements(5000, seed=bench.seed())]
    size = sum(map(len, bodies)) / len(bodies)
    yield plain("fdatasync of one event appended to a file", "ms", _many(repeats, lambda: _synced(bench, bodies[:200])))
    yield plain("commits of one event, one connection", "events/s", _many(repeats, lambda: _commits(bench)))
    for name, work in {
        "msgspec.json.decode of an event, one core": msgspec.json.decode,
        "decode_event (the gate), one core": decode_event,
    }.items():
        yield plain(name, "events/s", _many(repeats, lambda work=work: _rate(work, bodies)), mean_bytes=size)
    with program("bare_echo", bench.folder()) as running:
        yield plain(
            f"Litestar + granian echo of 1,000 a body, {CLIENTS} clients, one worker", "events/s",
            _many(repeats, lambda: post_together(bench, running.url, bench.plan.count(6, 2), b'{"specversion"')),
        )  # fmt: skip


def _many(repeats: int, work: Callable[[], float]) -> list[float]:
    work()
    return [work() for _ in range(repeats)]


def _rate(work: Callable[[bytes], object], bodies: list[bytes]) -> float:
    begin = time.perf_counter()
    for body in bodies:
        work(body)
    return len(bodies) / (time.perf_counter() - begin)


def _synced(bench: Bench, bodies: list[bytes]) -> float:
    """Return the ms of a write and its fdatasync; of fsync where the system has no fdatasync."""
    synchronize = getattr(os, "fdatasync", os.fsync)
    with (bench.folder() / "synced").open("ab", buffering=0) as file:
        begin = time.perf_counter()
        for body in bodies:
            file.write(body)
            synchronize(file.fileno())
        return (time.perf_counter() - begin) / len(bodies) * 1e3


def _commits(bench: Bench) -> float:
    parts = [copy_rows([document]) for document in measurements(200, seed=bench.seed())]
    with bench.database() as database, psycopg.connect(database.url) as connection:
        begin = time.perf_counter()
        for part in parts:
            with connection.cursor().copy(COPY.format(table="event")) as copy:
                copy.write(part)
            connection.commit()
        return len(parts) / (time.perf_counter() - begin)
