"""Benchmark results logged by 4 Python clients, one a request and through the spool, against an MLflow server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, interleaved, rates
from benchmarks.peers import Peer
from benchmarks.processor import Meter
from benchmarks.serving import service
from benchmarks.tracking import tracking_server

__all__ = ["results_logged"]

CLIENTS = 4


def results_logged(bench: Bench) -> Iterator[Line]:
    """The whole service (role all, which projects what comes) against the tracking server, both on one Postgres."""
    seconds = bench.plan.seconds(5, 2)
    with ExitStack() as stack:
        database, theirs = stack.enter_context(bench.database()), stack.enter_context(bench.database(log=False))
        running = stack.enter_context(service(bench.folder(), database))
        tracking = stack.enter_context(tracking_server(bench, theirs))
        folder = str(bench.folder())
        ours = [
            stack.enter_context(Peer(bench, "assay_client", running.url, str(bench.seed()), folder, ours=True))
            for _ in range(CLIENTS)
        ]
        peers = [
            stack.enter_context(Peer(bench, "mlflow_client", tracking.url, str(number))) for number in range(CLIENTS)
        ]
        for client in (*ours, *peers):
            client.hear()
        pids = [client.pid for client in ours]
        meters = {name: bench.meter(clients=pids, service=[running.pid]) for name in ("single", "spool", "each")}
        theirs = bench.meter(clients=[client.pid for client in peers], service=[tracking.pid])
        sides = (
            _logged(peers, f"log {seconds}", theirs),
            *(_logged(ours, f"{name} {seconds}", meter) for name, meter in meters.items()),
        )
        interleaved(1, *sides)
        mlflow, single, spool, each = interleaved(bench.plan.repeats, *sides)
    against = "MLflow server (uvloop): create_run + log_batch of 8 params and 10 metrics"
    yield rates(
        "results logged by 4 clients, one a request",
        "results/s",
        single,
        mlflow,
        against,
        Limit(bar=6, reach=10),
        processor=meters["single"].document(),
        peer_processor=theirs.document(),
    )
    yield rates(
        "results logged by 4 clients, through the spool's batches", "results/s", spool, mlflow, against,
        Limit(bar=150, reach=300), processor=meters["spool"].document(),
    )  # fmt: skip
    yield rates(
        "the same, each result put into the spool by itself (one fsync each)", "results/s", each, mlflow, against
    )


def _logged(clients: Sequence[Peer], line: str, meter: Meter) -> Callable[[], float]:
    """Return a measurement: all clients at once, the results of all over the time of the slowest."""

    def run() -> float:
        with meter.running():
            for client in clients:
                client.tell(line)
            told = [client.hear() for client in clients]
        results = sum(one["results"] for one in told)
        meter.dealt_with(results)
        return float(results / max(one["seconds"] for one in told))

    return run
