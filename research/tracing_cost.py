"""What do spans cost an append? One event at a time over HTTP, with spans off, exported, and to a collector that never answers.

Answer: on a busy machine of two cores the processor time of the service is the same (ratio 0.99) and the median of 500 answers
1.18 times as long with spans exported, 1.19 times to a collector that never answers; off, 2 to 3 µs an append.

Run `python -m research.tracing_cost [--appends N]`. Three services of their own on this machine take turns, append by append, so
that what else the machine does meets all of them. It prints the processor time of each, the median and the quickest tenth of
its answers with the ratio to spans off, and how long the calls into `domain.spans` of one append take where no tracer is in use.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import tempfile
import threading
import time
import timeit
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import psutil

from assay.client import Client
from assay.home import Home, running
from assay.service import free_port, started
from assay.synthesis import events
from domain import spans

WARM_UP = 30


class Collector(BaseHTTPRequestHandler):
    """Takes every request and keeps nothing."""

    def do_POST(self) -> None:
        """Answer with an empty message of OTLP, which is a success."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def off_ns(calls: int = 100_000) -> float:
    """Return the nanoseconds of the calls that one append makes where no tracer is in use."""
    appends = spans.Appends()

    def append() -> None:
        spans.active()
        with spans.span("append", assay_events=1) as span:
            spans.context()
            coalesce = spans.span("coalesce", parent=None, links=())
            with coalesce, appends.span("commit", db_system_name="postgresql", assay_events=1) as commit:
                commit.set(assay_position_last=1)
            span.set(assay_position_last=1)
        spans.trace_id()

    return min(timeit.repeat(append, number=calls, repeat=5)) / calls * 1e9


def _processor_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=500)
    appends = parser.parse_args().appends
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with ExitStack() as stack:
        dead = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ports = {"off": None, "exported": collector.server_port, "collector never answers": dead.getsockname()[1]}
        clients: dict[str, Client] = {}
        services: dict[str, psutil.Process] = {}
        for name, port in ports.items():
            os.environ["ASSAY_TRACING"] = "off" if port is None else "on"
            os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
            os.environ["ASSAY_SHIPPED_DATA"] = "no"
            home = Home(path=Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-"))))
            clients[name] = stack.enter_context(Client(stack.enter_context(started(home, free_port()))))
            service = running(home)
            assert service is not None
            services[name] = psutil.Process(service.pid)
        times: dict[str, list[float]] = {name: [] for name in clients}
        spent: dict[str, float] = {}
        for number, event in enumerate(islice(events(appends + WARM_UP, 1), appends + WARM_UP)):
            for name, client in clients.items():
                if number == WARM_UP:
                    spent[name] = -_processor_s(services[name])
                begun = time.perf_counter()
                client.post_events([event])
                if number >= WARM_UP:
                    times[name].append(time.perf_counter() - begun)
        for name, process in services.items():
            spent[name] += _processor_s(process)
    collector.shutdown()
    for name, seconds in spent.items():
        print(f"processor      {name:24} {seconds / appends * 1e3:7.3f} ms  ratio {seconds / spent['off']:5.3f}")
    for title, point in (("median", 0.5), ("quickest tenth", 0.1)):
        figures = {name: statistics.quantiles(values, n=100)[int(point * 100) - 1] for name, values in times.items()}
        for name, value in figures.items():
            print(f"{title:14} {name:24} {value * 1e3:7.3f} ms  ratio {value / figures['off']:5.3f}")
    print(f"calls of one append, no tracer in use: {off_ns():.0f} ns")


if __name__ == "__main__":
    main()
