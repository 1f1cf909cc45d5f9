"""What the log and the projection cost, and what the ordering lock is for. Figures of the ADRs 1, 2, 3 and 5.

    python benchmarks/event_log.py [append|lock|projection|embedded] …

Medians; the server is an embedded one in a temporary folder; each line names what it is compared with.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg

from domain.events import Decoded, decode_event, encode_event, new_event
from ingest import append as append_module
from ingest.log import EventLog
from ingest.migrate import upgrade
from ingest.postgres import Database, EmbeddedServer, open_database
from ingest.projection import Projection
from ingest.projection.source import LogSource

REPEATS = 5


def measurement(number: int) -> dict[str, Any]:
    data = {
        "run_id": f"run-{number // 500}",
        "model": {"id": f"acme/model-{number % 40}", "category": "embedding", "family": "bert", "parameters": 109482240},
        "workload": {"mode": "inference", "scenario": "single_stream", "batch_size": 1 + number % 8, "sequence_length": 128},
        "execution": {"platform": "cuda", "runtime": {"name": "torch", "version": "2.13.0"}, "precision": "fp16"},
        "hardware": {"id": f"acme-{number % 6}", "kind": "gpu", "count": 1},
        "environment": {"fingerprint": "e1", "driver": "1", "os": "Linux", "libraries": {"torch": "2.13.0"}},
        "observed": {"device": "cuda:0", "platform": "cuda", "precision": "fp16", "fallback_share": 0.0},
        "metrics": {
            "latency_ms": {"mean": 1.2 + number % 97, "p50": 1.2 + number % 97, "n": 61, "stddev": 0.04, "min": 1.1},
            "throughput_per_s": 6612.0, "load_ms": 911.0, "first_run_ms": 80.1, "peak_memory_bytes": 512000000,
        },
        "validity": {"verdict": "valid", "reasons": [], "metrics": {"latency_ms": {"verdict": "valid", "reasons": []}}},
        "provenance": {"origin": "measured", "source": "assay-runner 0.1"},
    }  # fmt: skip
    return new_event("assay.measurement.recorded.v1", data, source="urn:assay:runner:benchmark")


def decoded(count: int) -> list[Decoded]:
    return [decode_event(encode_event(measurement(number))) for number in range(count)]


@contextmanager
def database(server: Database) -> Iterator[Database]:
    name = f"b_{uuid.uuid4().hex}"
    made = server.create(name)
    upgrade(made.url)
    try:
        yield made
    finally:
        server.drop(name)


def median_s(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def append(server: Database) -> None:
    """In process, 1,000 a batch, one writer, against a bare COPY of the same rows into the same table."""
    batches = [decoded(1000) for _ in range(2 * REPEATS)]
    with database(server) as made:

        async def ours() -> float:
            async with EventLog(made.url) as log:
                taken = []
                for batch in batches[:REPEATS]:
                    begin = time.perf_counter()
                    await log.append(batch)
                    taken.append(time.perf_counter() - begin)
                return statistics.median(taken)

        own = asyncio.run(ours())
        taken = []
        with psycopg.connect(made.url) as connection:
            for batch in batches[REPEATS:]:
                begin = time.perf_counter()
                with connection.cursor().copy(
                    "COPY event (id, type, source, digest, body) FROM STDIN (FORMAT BINARY)"
                ) as copy:
                    copy.set_types(["uuid", "text", "text", "bytea", "text"])
                    for event in batch:
                        copy.write_row(
                            (
                                uuid.UUID(event.id),
                                event.type,
                                event.source,
                                bytes.fromhex(event.digest[7:]),
                                event.raw.decode(),
                            )
                        )
                connection.commit()
                taken.append(time.perf_counter() - begin)
        bare = statistics.median(taken)
    size = len(batches[0][0].raw)
    print(
        f"append: {1000 / own:,.0f} events/s; bare COPY {1000 / bare:,.0f}/s; ratio {bare / own:.2f}; {size} B an event"
    )


def lock(server: Database) -> None:
    """A tailing reader under eight writers, with the ordering lock and without it."""
    for locked in (True, False):
        statement = append_module._LOCK
        append_module._LOCK = statement if locked else "SELECT %s::bigint"
        try:
            with database(server) as made:
                print(f"lock {'on' if locked else 'off'}: reader missed {_missed(made):.1%} of the events")
        finally:
            append_module._LOCK = statement


def _missed(made: Database, writers: int = 8, each: int = 40) -> float:
    events = [[decoded(5) for _ in range(each)] for _ in range(writers)]
    done = threading.Event()
    seen: list[int] = []

    async def write(batches: list[list[Decoded]]) -> None:
        async with EventLog(made.url, connections=1) as log:
            for batch in batches:
                await log.append(batch)

    async def read() -> None:
        async with EventLog(made.url) as log:
            while True:
                last = done.is_set()
                found = await log.read(after=seen[-1] if seen else 0, limit=500)
                seen.extend(event.position for event in found)
                if last and not found:
                    return

    reader = threading.Thread(target=lambda: asyncio.run(read()))
    threads = [threading.Thread(target=lambda b=batches: asyncio.run(write(b))) for batches in events]
    for thread in [reader, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    return 1 - len(seen) / (writers * each * 5)


def projection(server: Database, count: int = 40_000) -> None:
    """Log to tables, against ADBC's fetch and one INSERT … SELECT of the same columns; and what a reader waits."""
    with database(server) as made, tempfile.TemporaryDirectory() as folder:
        _fill(made, count)

        def ours() -> None:
            with Projection(Path(folder) / uuid.uuid4().hex, made) as one:
                one.catch_up()

        own = median_s(ours)
        source = LogSource(made.adbc_uri)
        fetch = median_s(lambda: sum(batch.num_rows for batch in source.batches(0)))
        source.close()
        print(f"projection: {count / own:,.0f} events/s; the fetch alone {count / fetch:,.0f}/s")
        parsed = median_s(lambda: _by_python(made))
        print(f"projection: psycopg rows and json.loads, without any table: {count / parsed:,.0f}/s")
        with Projection(Path(folder) / "one", made) as one:
            one.catch_up()
            with one.tables() as tables:
                took = median_s(lambda: tables.measurements(model="acme/model-3", best=True))
            opened = median_s(lambda: one.cursor().close())
            print(
                f"projection: best rows of one model {took * 1e3:.1f} ms; a reader's connection {opened * 1e6:.0f} µs"
            )
            size = one.path.stat().st_size
        with psycopg.connect(made.url) as connection:
            ((text,),) = connection.execute("SELECT sum(octet_length(body)) FROM event").fetchall()
        print(f"projection: {size / 1e6:.1f} MB of DuckDB for {text / 1e6:.1f} MB of events")


def _fill(made: Database, count: int) -> None:
    rows = [(str(uuid.uuid4()), json.dumps(measurement(number))) for number in range(count)]
    statement = "COPY event (id, type, source, digest, body) FROM STDIN"
    with psycopg.connect(made.url) as connection, connection.cursor().copy(statement) as copy:
        for identifier, body in rows:
            copy.write_row((identifier, "assay.measurement.recorded.v1", "urn:x", b"", body))


def _by_python(made: Database) -> None:
    with psycopg.connect(made.url) as connection:
        for (body,) in connection.execute("SELECT body FROM event ORDER BY position"):
            json.loads(body)


def embedded(_: Database) -> None:
    """Starting and stopping the embedded server: a new one, a stopped one, one that runs, one that was killed."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        steps: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any]) -> Any:
            begin = time.perf_counter()
            result = work()
            steps[name] = time.perf_counter() - begin
            return result

        first = timed("new", lambda: open_database(home))
        second = timed("running", lambda: open_database(home))
        second.close()
        timed("stop", first.close)
        server = EmbeddedServer(home / "postgres")
        timed("stopped", server.start)
        psutil.Process(server.pid).kill()
        server.stop()
        last = timed("killed", lambda: open_database(home))
        last.close()
        print("embedded: " + ", ".join(f"{name} {took:.2f} s" for name, took in steps.items()))


PARTS = {"append": append, "lock": lock, "projection": projection, "embedded": embedded}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as server_home, open_database(server_home) as running:
        for part in sys.argv[1:] or PARTS:
            PARTS[part](running)
