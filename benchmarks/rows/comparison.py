""" "Compare hardware for one model" over HTTP, 10,000 runs stored, against MLflow's search, pandas and groupby."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.documents import measurements, model_name
from benchmarks.lines import Limit, Line, interleaved, plain, times
from benchmarks.loading import fill
from benchmarks.peers import Peer
from benchmarks.serving import service
from benchmarks.tracking import tracking_server

__all__ = ["ask", "comparison", "projected"]

MODELS = 40
CLIENTS = 4


def comparison(bench: Bench) -> Iterator[Line]:
    """Both answers are parsed by their own Python clients; each model is asked for once, so that no answer is a repeated one."""
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
        mine_next, theirs_next = (iter(range(MODELS)) for _ in range(2))
        rows: list[int] = []

        def ours() -> float:
            taken, found = ask(client, model_name(next(mine_next)))
            rows.append(found)
            return taken * 1e3

        def search() -> float:
            return float(peers[0].ask(f"compare {model_name(next(theirs_next))}")["seconds"] * 1e3)

        interleaved(2, ours, search)
        mine, other = interleaved(min(4 * bench.plan.repeats, MODELS - 2), ours, search)
        again = [ask(client, model_name(number))[0] * 1e3 for number in range(len(rows))]
    yield times(
        f"compare hardware for one model over HTTP, {count:,} runs stored", "ms", mine, other,
        "MLflow search_runs → pandas → groupby", Limit(bar=50, reach=100), rows=max(rows),
    )  # fmt: skip
    yield plain("the same, asked again while nothing new has come", "ms", again)


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
