"""From an event's acceptance to its row in a query's answer, while 2,000 events a second come in."""

from __future__ import annotations

import time
from collections.abc import Iterator

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.documents import measurements
from benchmarks.lines import Limit, Line, plain, quantile
from benchmarks.peers import Peer
from benchmarks.serving import service

__all__ = ["visible"]

RATE = 2000
PATIENCE_S = 30.0


def visible(bench: Bench) -> Iterator[Line]:
    """A probe is one event in a run of its own, asked for again and again from the moment its receipt is there."""
    probes = bench.plan.count(600, 60)
    found: list[float] = []
    with (
        bench.database() as database,
        service(bench.folder(), database) as running,
        Client(running.url) as client,
        Peer(bench, "steady_poster", running.url, str(RATE), str(bench.seed()), ours=True) as poster,
    ):
        poster.hear()
        for number, document in enumerate(measurements(probes, seed=bench.seed())):
            found.append(_seen(client, document.body, f"probe-{number:05d}") * 1e3)
        poster.end()
        told = poster.hear()
    what = f"event accepted → visible in a query, under {told['events_per_s']:,.0f} events/s"
    yield plain(f"{what}: p99", "ms", found, Limit(bar=300, reach=100, most=True), value=quantile(found, 0.99))
    yield plain(f"{what}: p95", "ms", found, value=quantile(found, 0.95))
    yield plain(f"{what}: rate that was posted", "events/s", [told["events_per_s"]], Limit(bar=0.95 * RATE))


def _seen(client: Client, body: bytes, run: str) -> float:
    """Post one event of a new run and return the seconds from its receipt to an answer that holds it."""
    begin = body.index(b'"run_id":"') + 10
    client.post_events([body[:begin] + run.encode() + body[begin + 36 :]])
    accepted = time.perf_counter()
    while not client.measurements(run_id=run):
        if time.perf_counter() - accepted > PATIENCE_S:
            raise RuntimeError("an accepted event did not become visible")
    return time.perf_counter() - accepted
