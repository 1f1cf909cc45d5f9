"""HTTP append, 1,000 a batch, 8 clients, against a bare psycopg loop into the same table."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from urllib.parse import urlsplit

import psycopg

from benchmarks.bench import Bench
from benchmarks.documents import Document, measurements
from benchmarks.lines import Limit, Line, interleaved, plain, rates
from benchmarks.loading import COPY, LOCK, copy_rows
from benchmarks.processor import Meter
from benchmarks.serving import service
from ingest.log.schema import ORDERING_LOCK

__all__ = ["CLIENTS", "http_batches", "post_together"]

CLIENTS = 8
BATCH = 1000
_STAGING = """
CREATE TEMPORARY TABLE staging (
    ordinal bigint GENERATED ALWAYS AS IDENTITY, id uuid, type text, source text, subject text, time timestamptz,
    digest bytea, body text, attestation text, chain bytea
) ON COMMIT DELETE ROWS
"""
_INSERT = """
INSERT INTO event (id, type, source, subject, time, digest, body, attestation, chain)
SELECT id, type, source, subject, time, digest, body, attestation, chain FROM staging ORDER BY ordinal ON CONFLICT (id) DO NOTHING
"""


def http_batches(bench: Bench) -> Iterator[Line]:
    """Batches over HTTP; the peer has no HTTP, no check of an event and no answers for each."""
    each = bench.plan.count(6, 2)
    what = f"HTTP append, {BATCH:,} a batch, {CLIENTS} clients"
    with bench.database() as database:

        def bare(meter: Meter | None = None) -> float:
            return _together(_loops(database.url, _batches(bench, each)), each, meter)

        with service(bench.folder(), database, "--role", "ingest", "--workers", "2") as running:
            url = running.url
            post_together(bench, url, each), bare()
            meter, theirs = bench.meter(service=[running.pid]), bench.meter()
            mine, other = interleaved(
                bench.plan.repeats, lambda: post_together(bench, url, each, meter=meter), lambda: bare(theirs)
            )
        yield rates(
            f"{what}, role ingest, 2 workers", "events/s", mine, other,
            "bare psycopg: staging COPY + lock + INSERT … ON CONFLICT DO NOTHING", Limit(bar=0.5, reach=0.75), processor=meter.document(), peer_processor=theirs.document(),
        )  # fmt: skip
    with bench.database() as database, service(bench.folder(), database) as running:
        yield plain(
            f"{what}, role all, which projects them meanwhile", "events/s",
            [post_together(bench, running.url, each) for _ in range(bench.plan.repeats)],
        )  # fmt: skip


def post_together(
    bench: Bench, url: str, each: int, answer: bytes = b'"accepted":1000,', meter: Meter | None = None
) -> float:
    """Post `each` new batches from every client at once and return the events a second; answers hold `answer`."""
    return _together(_posters(url, _batches(bench, each), answer), each, meter)


def _batches(bench: Bench, each: int) -> list[list[list[Document]]]:
    """Return, for each client, `each` new batches."""
    stream = measurements(CLIENTS * each * BATCH, seed=bench.seed())
    return [[list(islice(stream, BATCH)) for _ in range(each)] for _ in range(CLIENTS)]


def _together(clients: Sequence[Callable[[], object]], each: int, meter: Meter | None = None) -> float:
    """Run the clients at once and return the events a second, from the first's start to the last's end."""
    ready = threading.Barrier(len(clients) + 1)
    failures: list[BaseException] = []

    def run(client: Callable[[], object]) -> None:
        ready.wait()
        try:
            client()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    with meter.running() if meter else nullcontext():
        ready.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - begin
    if meter:
        meter.dealt_with(len(clients) * each * BATCH)
    if failures:
        raise failures[0]
    return len(clients) * each * BATCH / taken


def _posters(url: str, batches: list[list[list[Document]]], wanted: bytes) -> list[Callable[[], object]]:
    """Return clients that post bodies made before, each over one connection."""
    address = urlsplit(url)

    def poster(bodies: list[bytes]) -> Callable[[], object]:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        connection.connect()

        def run() -> None:
            for body in bodies:
                connection.request("POST", "/v1/events", body, {"Content-Type": "application/x-ndjson"})
                answer = connection.getresponse()
                told = answer.read()
                if answer.status != 200 or wanted not in told:
                    raise RuntimeError(f"{answer.status}: {told[:300]!r}")
            connection.close()

        return run

    return [poster([b"\n".join(document.body for document in batch) for batch in mine]) for mine in batches]


def _loops(url: str, batches: list[list[list[Document]]]) -> list[Callable[[], object]]:
    """Return the peer's clients: rows made before, copied aside, then inserted in order under the lock."""

    def loop(rows: list[bytes]) -> Callable[[], object]:
        connection = psycopg.connect(url)
        connection.execute(_STAGING)
        connection.commit()

        def run() -> None:
            for part in rows:
                with connection.cursor().copy(COPY.format(table="staging")) as copy:
                    copy.write(part)
                connection.execute(LOCK, [ORDERING_LOCK])
                if connection.execute(_INSERT).rowcount != BATCH:
                    raise RuntimeError("the peer did not insert its rows")
                connection.commit()
            connection.close()

        return run

    return [loop([copy_rows(batch) for batch in mine]) for mine in batches]
