"""A client of Assay. Takes its address, a number and a folder; each line is answered with one of JSON.

"single SECONDS" posts one result a request, "spool SECONDS" puts results into the runner's spool and flushes it, "each
SECONDS" does so too but puts every result by itself, which makes it safe on disk before the next is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from assay.client import Client
from benchmarks.documents import measurements
from domain.events import uuid7
from runner.spool.spool import Spool

GROUP = 1000


def main() -> None:
    """Answer the lines of stdin."""
    address, number, folder = sys.argv[1:4]
    client = Client(address)
    spool = Spool(Path(folder) / f"spool-{number}.sqlite")
    results = cycle([msgspec.json.decode(document.body) for document in measurements(2000, seed=int(number))])

    def send(events: Sequence[bytes]) -> dict[str, Any]:
        return client.post_events(events)

    def single(events: list[dict[str, Any]]) -> None:
        for event in events:
            if client.post_events([event])["accepted"] != 1:
                raise RuntimeError("a new event was not accepted")

    def flushed(events: list[dict[str, Any]]) -> None:
        spool.put(events)
        _flush(spool, send, len(events))

    def each(events: list[dict[str, Any]]) -> None:
        for event in events:
            spool.put([event])
        _flush(spool, send, len(events))

    ways: dict[str, tuple[Callable[[list[dict[str, Any]]], None], int]] = {
        "single": (single, 20), "spool": (flushed, GROUP), "each": (each, GROUP),
    }  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        verb, _, value = line.strip().partition(" ")
        log, size = ways[verb]
        count = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < float(value):
            log([{**result, "id": uuid7()} for result in islice(results, size)])
            count += size
        taken = time.perf_counter() - begin
        print(json.dumps({"results": count, "seconds": taken}), flush=True)


def _flush(spool: Spool, send: Callable[[Sequence[bytes]], dict[str, Any]], count: int) -> None:
    report = spool.flush(send)
    if report.accepted != count or report.waiting:
        raise RuntimeError(f"{report.accepted} of {count} accepted; {report.error}")


if __name__ == "__main__":
    main()
