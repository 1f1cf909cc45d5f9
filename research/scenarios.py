"""Do our scenarios see what MLPerf's own load generator sees? The same service, the same arrivals, percentile by percentile.

    pip install mlcommons-loadgen
    python -m research.scenarios [--qps 20] [--seconds 30] [--rounds 2]

The service sleeps 15 or 25 ms in turn and serves one query at a time, so that its times are known and use no processor.
Server: loadgen draws its schedule from std::mt19937 and std::exponential_distribution; ours runs on the same schedule,
drawn again here, so that what is left is how each measures. Single stream: the next query when the last is done.

Two runs one after the other differ by what the machine did meanwhile. "same run" is what our rules (latency from the scheduled
arrival, our percentiles) make of the very queries that loadgen issued and timed: there the machine is the same for both.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import re
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import mlperf_loadgen as loadgen
import numpy as np

from domain.statistics import quantile
from runner.measure.measuring import measure, served
from runner.measure.stopping import Method

TIMES_S = (0.015, 0.025)
SEED = 20261122
PERCENTILES = (50, 90, 95, 99)
_LINE = re.compile(r"(\d\d)\.00 percentile latency \(ns\)\s*:\s*(\d+)")


def main() -> int:
    options = _options()
    print(f"load of the machine {os.getloadavg()[0]:.1f}; {options.qps:g} queries/s for {options.seconds:g} s")
    good = True
    for scenario, theirs, ours in (
        ("server", _loadgen_server, _our_server),
        ("single stream", _loadgen_alone, _our_alone),
    ):
        turns = [
            (theirs(options.qps, options.seconds), ours(options.qps, options.seconds)) for _ in range(options.rounds)
        ]
        for percentile in PERCENTILES:
            ratio = statistics.median(mine[percentile] / other[percentile] for (other, _), mine in turns)
            told = statistics.median(other[percentile] for (other, _), _ in turns)
            same = statistics.median(read[percentile] / other[percentile] for (other, read), _ in turns)
            good = good and abs(same - 1) <= 0.02
            print(
                f"{scenario} p{percentile}: loadgen {told:.3f} ms, ours over it {same:.4f} in the same run (bar 0.98 to 1.02), "
                f"{ratio:.4f} in a run of its own"
            )
    return 0 if good else 1


def service() -> Callable[[], None]:
    """Return a service whose calls take 15 and 25 ms in turn."""
    count = 0

    def call() -> None:
        nonlocal count
        sleep(TIMES_S[count % len(TIMES_S)])
        count += 1

    return call


def schedule(qps: float, seed: int = SEED) -> Iterator[float]:
    """Yield loadgen's arrivals in s: the first at once, then exponential gaps as libstdc++ draws them."""
    drawn = np.random.MT19937()
    drawn._legacy_seeding(seed)
    at = 0.0
    while True:
        yield at
        low, high = (int(word) for word in drawn.random_raw(2))
        # std::generate_canonical<double, 53> takes two words, the lower first.
        at += int(-math.log(1 - (low + high * 2.0**32) / 2.0**64) / qps * 1e9) / 1e9


def _our_server(qps: float, seconds: float) -> dict[int, float]:
    method = Method(budget_s=seconds, percentile="p99")
    return _percentiles(served(service(), _nothing, schedule(qps), method)[0])


def _our_alone(_: float, seconds: float) -> dict[int, float]:
    return _percentiles(
        measure(service(), _nothing, Method(budget_s=seconds, iterations=int(seconds / 0.02))).samples_ms
    )


def _percentiles(times: list[float]) -> dict[int, float]:
    ordered = sorted(times)
    return {percentile: quantile(ordered, percentile / 100) for percentile in PERCENTILES}


def _nothing() -> None:
    """Wait for nothing."""


Both = tuple[dict[int, float], dict[int, float]]
"""Percentiles as loadgen tells them, and as our rules make them of the same queries."""


def _loadgen_server(qps: float, seconds: float) -> Both:
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    settings.server_target_qps = qps
    settings.server_target_latency_ns = 10**9
    return _loadgen(settings, seconds, schedule(qps))


def _loadgen_alone(_: float, seconds: float) -> Both:
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.SingleStream
    settings.single_stream_expected_latency_ns = 20_000_000
    return _loadgen(settings, seconds)


def _loadgen(settings: Any, seconds: float, arrivals: Iterator[float] | None = None) -> Both:
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = int(seconds * 1e3)
    settings.min_query_count = 100
    settings.schedule_rng_seed = SEED
    waiting: queue.Queue[tuple[int, float] | None] = queue.Queue()
    timed: list[tuple[float, float]] = []
    worker = threading.Thread(target=_work, args=(waiting, timed))
    worker.start()
    system = loadgen.ConstructSUT(
        lambda samples: [waiting.put((one.id, perf_counter())) for one in samples] and None, _nothing
    )
    library = loadgen.ConstructQSL(64, 64, lambda _: None, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        logs = loadgen.LogSettings()
        logs.log_output.outdir = folder
        logs.enable_trace = False
        loadgen.StartTestWithLogSettings(system, library, settings, logs)
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text()
    waiting.put(None)
    worker.join()
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(system)
    found = {int(name): int(value) / 1e6 for name, value in _LINE.findall(summary)}
    return {percentile: found[percentile] for percentile in PERCENTILES}, _percentiles(_by_our_rules(timed, arrivals))


def _by_our_rules(timed: list[tuple[float, float]], arrivals: Iterator[float] | None) -> list[float]:
    """Return latencies in ms of queries (issued, done): from the scheduled arrival where there are arrivals."""
    if arrivals is None:
        return [(done - issued) * 1e3 for issued, done in timed]
    due = [at for at, _ in zip(arrivals, timed, strict=False)]
    began = min(issued - at for (issued, _), at in zip(timed, due, strict=True))
    return [(done - began - at) * 1e3 for (_, done), at in zip(timed, due, strict=True)]


def _work(waiting: queue.Queue[tuple[int, float] | None], timed: list[tuple[float, float]]) -> None:
    call = service()
    while (told := waiting.get()) is not None:
        query, issued = told
        call()
        timed.append((issued, perf_counter()))
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(query, 0, 0)])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m research.scenarios", description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
