"""The pictures of docs/variants.md and docs/serving.md: what variants cost, and what a served model delivered of its promise.

    python -m benchmarks.variant_pictures FOLDER

FOLDER holds `digits-vit` as `tests.digits.train_digits` writes it, and `out` as `assay compress ./digits-vit … --no-send --out out`
makes it. Both are real runs of this machine: the measurements go to a service of its own, which is asked for the rows, and the
model is served where that service's answer puts it while clients call it. Other runs give other figures.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from assay.client import Client
from assay.service import free_port
from benchmarks.pictures import IMAGES
from benchmarks.serving import ROOT, server, service
from domain.answers.variants import Delivery
from ingest.log.migrate import upgrade
from ingest.log.postgres import open_database
from presentation.charts import chart_files
from presentation.charts.interval_chart import intervals
from presentation.charts.metrics import METRICS
from presentation.charts.variants_chart import variants

MODEL = "local/digits-vit"
PICTURES = ("variants", "variants-size", "delivery")
"""Their names below docs/images, in the order in which docs/gallery.md shows them."""
ALONE, TOGETHER, CLIENTS = 600, 1200, 8
"""Requests one after the other, requests of several clients at once, and how many clients those are."""
_LATENCY = METRICS["latency"]


def draw_variants(client: Client) -> None:
    """Write the loss of quality against latency, and against size on disk."""
    rows = client.variants(MODEL).items
    for name, size in (("variants", False), ("variants-size", True)):
        (IMAGES / f"{name}.png").write_bytes(chart_files.png(variants(rows, size=size, picture=True)))


def load(url: str, name: str) -> None:
    """Call an endpoint one request after the other, then with several clients at once."""
    pixels = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    tensor = {"name": "pixel_values", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": pixels.ravel().tolist()}
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as http, ThreadPoolExecutor(CLIENTS) as clients:

        def call(_: int) -> None:
            http.post(f"/v2/models/{name}/infer", json={"inputs": [tensor]}).raise_for_status()

        for index in range(ALONE):
            call(index)
        list(clients.map(call, range(TOGETHER)))


def delivered(client: Client, folder: Path, home: Path, service_url: str) -> Delivery:
    """Serve the model where the service puts it, call it, remove it, and return what the log says was delivered."""
    port = free_port()
    command = [sys.executable, "-m", "assay.cli", "endpoint", "serve", str(folder / "digits-vit"), "--name", "digits"]
    command += ["--port", str(port), "--server", service_url]
    environment = {**os.environ, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT)}
    with server(command, port, "/v2/health/ready", home, environment) as running:
        load(running.url, "digits")
        httpx.delete(f"{running.url}/v1/endpoints/digits", timeout=120, trust_env=False).raise_for_status()
    until = time.monotonic() + 60
    while not (items := client.deliveries(endpoint="digits").items):
        if time.monotonic() > until:
            raise TimeoutError("the service knows of no delivery")
        time.sleep(0.2)
    return items[0]


def draw_delivery(item: Delivery) -> None:
    """Write the promise with its interval above what was delivered: the model's own calls, and whole requests with waiting."""
    promised = f"promised, {item.promise_origin}"
    rows: list[dict[str, Any]] = [
        {
            "named": promised,
            "latency_ms": item.promise_latency_ms,
            "latency_ms_low": item.promise_low_ms,
            "latency_ms_high": item.promise_high_ms,
            "basis": item.promise_origin,
            "platform": item.platform,
        },
        {
            "named": f"delivered, {item.latency_n} calls alone: {item.verdict}",
            "latency_ms": item.delivered_ms,
            "basis": "measured",
            "platform": item.platform,
        },
        {
            "named": f"with waiting, {item.requests} requests",
            "latency_ms": item.request_p50_ms,
            "basis": "measured",
            "platform": item.platform,
        },
    ]
    chart = intervals(rows, _LATENCY, picture=True)
    (IMAGES / "delivery.png").write_bytes(chart_files.png(chart))


def main(arguments: Sequence[str]) -> int:
    """Write the three pictures from one folder, and print the delivery."""
    (folder,) = (Path(argument).resolve() for argument in arguments)
    events = [json.loads(line) for line in (folder / "out" / "events.ndjson").read_text().splitlines()]
    with tempfile.TemporaryDirectory(prefix="assay-variants-") as name:
        database = open_database(Path(name) / "postgres")
        try:
            upgrade(database.url)
            with service(Path(name) / "home", database) as running, Client(running.url) as client:
                client.wait_for(client.post_events(events)["last_position"])
                draw_variants(client)
                item = delivered(client, folder, Path(name) / "models", running.url)
                draw_delivery(item)
                print(f"{item.verdict}: {item.reason}")
        finally:
            database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
