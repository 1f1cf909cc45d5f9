""" "Compare hardware for one model" over HTTP, 10,000 runs stored, against MLflow's search, pandas and groupby."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.documents import measurements, model_name
from benchmarks.lines import Limit, Line, interleaved, times
from benchmarks.loading import fill
from benchmarks.peers import Peer
from benchmarks.serving import service
from benchmarks.tracking import tracking_server

__all__ = ["ask", "comparison", "projected"]

MODELS = 40
CLIENTS = 4


def comparison(bench: Bench) -> Iterator[Line]:
    """Both answers are parsed by their own Python clients; models take turns, so that no answer is a repeated one."""
    count = bench.plan.count(10_000, 400)
    with ExitStack() as stack:
        database, theirs = stack.enter_context(bench.database()), stack.enter_context(bench.database(log=False))
        fill(database.url, measurements(count, seed=bench.seed(), models=MODELS))
        running = stack.enter_context(service(bench.folder(), database))
        client = stack.enter_context(Client(running.url))
        projected(client)
        tracking = stack.enter_context(tracking_server(bench, theirs))
        bench.say(f"logging {count:,} runs to MLflow")
        peers = [
            stack.enter_context(Peer(bench, "mlflow_client", tracking.url, str(number))) for number in range(CLIENTS)
        ]
        for peer in peers:
            peer.hear()
        for peer in peers:
            peer.tell(f"store {count // CLIENTS}")
        for peer in peers:
            peer.hear()
        models = iter(list(range(MODELS)) * 100)
        rows: list[int] = []

        def ours() -> float:
            taken, found = ask(client, model_name(next(models)))
            rows.append(found)
            return taken * 1e3

        def search() -> float:
            return float(peers[0].ask(f"compare {model_name(next(models))}")["seconds"] * 1e3)

        interleaved(2, ours, search)
        mine, other = interleaved(4 * bench.plan.repeats, ours, search)
    yield times(
        f"compare hardware for one model over HTTP, {count:,} runs stored", "ms", mine, other,
        "MLflow search_runs → pandas → groupby", Limit(bar=50, reach=100), rows=max(rows),
    )  # fmt: skip


def ask(client: Client, model: str) -> tuple[float, int]:
    """Return the seconds that the question took and how many rows its answer has."""
    begin = time.perf_counter()
    answer = client.compare_hardware(model)
    return time.perf_counter() - begin, len(answer["rows"])


def projected(client: Client, timeout_s: float = 3600) -> None:
    """Return once the tables have caught up with the log."""
    until = time.monotonic() + timeout_s
    while client.ready()["lag_events"]:
        if time.monotonic() > until:
            raise RuntimeError("the tables did not catch up")
        time.sleep(0.05)
