"""How long questions take over HTTP, of a service that was started for it and holds the measurements of data/.

    python -m benchmarks.answer_speed [--repeats N] [--devices N]

What is asked: recommendations over N devices (40) x 4 precisions x 8 batches, the device now among three at hand, and one
prediction. `first` is a question of which nothing was asked before (another model, or other batches, each time), `fresh`
differs from the last in its limit alone, `repeated` is the same again. Milliseconds of the clock, median and 95th percentile, and what
the processes of the service spent on an answer: only that tells where others use the machine as well.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import count, cycle
from pathlib import Path
from typing import Any

import httpx

from benchmarks.processor import Meter
from benchmarks.serving import ROOT, Running, service
from domain.catalogues.hardware import catalogue
from ingest.log.migrate import upgrade
from ingest.log.postgres import open_database

MODELS = ("microsoft/resnet-50", "google-bert/bert-base-uncased", "facebook/convnext-tiny-224")
PRECISIONS, BATCHES = ["fp32", "fp16", "bf16", "amp-fp16"], [1, 2, 4, 8, 16, 32, 64, 128]
AT_HAND = [
    {"hardware": "nvidia-l4", "name": "cuda:0"},
    {"hardware": "nvidia-rtx-4090", "name": "cuda:1"},
    {"hardware": "intel-core-i9-10940x", "name": "cpu"},
]
POSTED = 200
"""Events of one request."""
Json = dict[str, Any]


def filled(client: httpx.Client) -> None:
    """Post the measurements of data/, and wait until they are in the tables."""
    for path in sorted((ROOT / "data").glob("*.ndjson.gz")):
        with gzip.open(path, "rt") as text:
            lines = text.read().splitlines()
        for start in range(0, len(lines), POSTED):
            body = "\n".join(lines[start : start + POSTED])
            answer = client.post("/v1/events", content=body, headers={"Content-Type": "application/x-ndjson"})
            answer.raise_for_status()
    position = answer.json()["last_position"]
    client.get("/v1/measurements", params={"limit": 1, "min_position": position}).raise_for_status()


def questions(devices: int) -> Iterator[tuple[str, str, Iterator[Json]]]:
    """Yield what is asked, where, and its questions, which never end."""
    names = [spec.id for spec in catalogue().values() if {"cuda", "cpu"} & set(spec.platforms)][:devices]
    wide: Json = {"model": MODELS[0], "hardware": names, "precision": PRECISIONS, "batch_sizes": BATCHES}
    hand: Json = {"model": MODELS[0], "devices": AT_HAND, "top": 1}
    one: Json = {"model": MODELS[0], "hardware": "nvidia-l4", "platform": "cuda", "precision": "fp16"}
    usual = f"{devices} devices x {len(PRECISIONS)} precisions x {len(BATCHES)} batches"
    for what, asked in ((usual, {**wide, "compiled": "usual"}), (f"{usual}, eager and compiled", wide)):
        models = cycle(MODELS)
        # The largest batch is another each time, so that no configuration list was asked before.
        yield (
            f"{what}: first",
            "recommendations",
            ({**asked, "model": next(models), "batch_sizes": [*BATCHES[:-1], 128 + n]} for n in count()),
        )
        yield f"{what}: fresh", "recommendations", limited(asked)
        yield f"{what}: repeated", "recommendations", cycle([asked])
    yield "device at hand: first", "recommendations", ({**hand, "batch_sizes": [1 + n]} for n in count())
    yield "device at hand: fresh", "recommendations", limited(hand)
    yield "device at hand: repeated", "recommendations", cycle([hand])
    yield "one prediction", "predictions", ({**one, "batch_size": 1 + n} for n in count())


def limited(asked: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the question with a limit that is another each time and that nothing breaks."""
    return ({**asked, "max_latency_ms": 1e6 + n} for n in count())


def timed(
    client: httpx.Client, running: Running, where: str, asked: Iterator[Json], repeats: int
) -> tuple[list[float], float, Json]:
    """Return milliseconds of each answer, those of the service's processes for one, and the last answer."""
    for _ in range(3):
        client.post(f"/v1/{where}", json=next(asked)).raise_for_status()
    took: list[float] = []
    meter = Meter({"service": [running.pid]})
    with meter.running():
        for _ in range(repeats):
            question = next(asked)
            began = time.perf_counter()
            answer = client.post(f"/v1/{where}", json=question)
            took.append((time.perf_counter() - began) * 1e3)
            answer.raise_for_status()
    meter.dealt_with(repeats)
    return took, meter.document()["service_us"] / 1e3, answer.json()


def main() -> int:
    """Print a row each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.answer_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=60, help="answers of each kind")
    parser.add_argument("--devices", type=int, default=40, help="devices of the wide questions")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        database = open_database(Path(folder) / "postgres")
        try:
            upgrade(database.url)
            # A proxy of the environment is for other hosts.
            with (
                service(Path(folder) / "home", database) as running,
                httpx.Client(base_url=running.url, timeout=120, trust_env=False) as client,
            ):
                filled(client)
                print(
                    "| question | configurations | median ms | p95 ms | processor ms |\n| --- | --- | --- | --- | --- |"
                )
                for what, where, asked in questions(options.devices):
                    took, spent, answer = timed(client, running, where, asked, options.repeats)
                    late = sorted(took)[math.ceil(0.95 * len(took)) - 1]
                    print(
                        f"| {what} | {answer.get('considered', 1)} | {statistics.median(took):.1f} | {late:.1f} | {spent:.1f} |"
                    )
        finally:
            database.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
