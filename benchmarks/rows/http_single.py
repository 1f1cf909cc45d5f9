"""HTTP append, 1 event a request, 64 connections, against one transaction an event and against a bare echo."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.bench import Bench
from benchmarks.documents import measurements
from benchmarks.lines import Limit, Line, interleaved, plain, rates
from benchmarks.serving import ROOT, Running, program, service
from ingest.log.postgres import Database

__all__ = ["http_single"]

CONNECTIONS = 64
SCRIPT = ROOT / "benchmarks" / "programs" / "single.lua"


def http_single(bench: Bench) -> Iterator[Line]:
    """Single events through the coalescing queue; all three servers are one process of one worker."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise RuntimeError("wrk is not installed; Debian and Ubuntu: apt-get install wrk")
    bodies = _bodies(bench)
    with (
        bench.database() as database,
        service(bench.folder(), database, "--role", "ingest") as coalesced,
        program("one_by_one", bench.folder(), database) as single,
        program("bare_echo", bench.folder()) as echo,
    ):
        told: dict[str, list[dict[str, Any]]] = {}
        meters = {running.url: bench.meter(service=[running.pid]) for running in (coalesced, single, echo)}

        def load(running: Running) -> float:
            meter = meters[running.url]
            with meter.running():
                found = _wrk(wrk, running.url, bodies, bench.seed(), bench.plan.seconds(5, 2))
            meter.dealt_with(found["requests"])
            told.setdefault(running.url, []).append(found)
            return float(found["requests"] / found["duration_us"] * 1e6)

        sides = (partial(load, coalesced), partial(load, single), partial(load, echo))
        interleaved(1, *sides)
        ours, one, bare = interleaved(bench.plan.repeats, *sides)
        answered = sum(found["requests"] for url in (coalesced.url, single.url) for found in told[url])
        stored = _events(database)
        if stored < answered:
            raise RuntimeError(f"{answered} events were acknowledged and {stored} are in the log")
    what = f"HTTP append, 1 event a request, {CONNECTIONS} connections"
    yield rates(
        what,
        "events/s",
        ours,
        one,
        "one transaction an event, same API",
        Limit(bar=4.0),
        processor=meters[coalesced.url].document(),
    )
    yield rates(
        what,
        "events/s",
        ours,
        bare,
        "bare Litestar + granian echo",
        Limit(bar=0.25, reach=0.5),
        peer_processor=meters[echo.url].document(),
    )
    yield plain(f"{what}: answer", "ms p99", [found["p99_us"] / 1e3 for found in told[coalesced.url]])


def _bodies(bench: Bench) -> Path:
    path = bench.folder() / "bodies.ndjson"
    path.write_bytes(
        b"".join(
            document.body.replace(document.id.encode(), b"@", 1) + b"\n"
            for document in measurements(2000, seed=bench.seed())
        )
    )
    return path


def _wrk(wrk: str, url: str, bodies: Path, seed: int, seconds: float) -> dict[str, Any]:
    command = [
        wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(SCRIPT), f"{url}/v1/events",
        "--", str(bodies), f"{seed:08x}",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    if told["failed"]:
        raise RuntimeError(f"{told['failed']} of {told['requests']} requests failed")
    return told


def _events(database: Database) -> int:
    with psycopg.connect(database.url) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM event").fetchall()
    return int(count)
