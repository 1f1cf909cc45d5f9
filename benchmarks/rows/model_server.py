"""A request to a served model, as JSON and as bytes, against the model's own call in the same run."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection

import httpx

from assay.service import free_port
from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, growth, interleaved, plain
from benchmarks.serving import environment, server

__all__ = ["model_server"]

MODEL, TOKENS = "bert-tiny", 128
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "pooler_output"
Request = tuple[bytes, dict[str, str]]


def model_server(bench: Bench) -> Iterator[Line]:
    """One client, one connection, one item of 128 tokens; the answer is one vector of 128 numbers."""
    port, home = free_port(), bench.folder()
    command = [
        sys.executable,
        "-m",
        "assay.cli",
        "endpoint",
        "serve",
        MODEL,
        "--platform",
        "cpu",
        "--weights",
        "random",
    ]
    command += ["--name", "bench", "--port", str(port), "--threads", "1", "--max-batch", "1"]
    requests = {"JSON": _json(), "binary": _binary()}
    with (
        server(command, port, "/v2/health/ready", home, environment(home)) as running,
        httpx.Client(base_url=running.url, trust_env=False, timeout=60) as http,
    ):
        load = partial(_load, port, bench.plan.seconds(5, 2))
        sides = [partial(load, request) for request in requests.values()]
        interleaved(1, *sides)
        turns = interleaved(bench.plan.repeats, *sides)
        delivery = http.get("/v1/endpoints/bench").json()["delivery"]
    if delivery["failures"] or delivery["latency_ms"]["n"] < 100:
        raise RuntimeError(f"{delivery['failures']} of {delivery['requests']} requests failed")
    bare = delivery["latency_ms"]["p50"]
    for form, values in zip(requests, turns, strict=True):
        what = f"request to a served model, {form}"
        yield growth(what, "ms p50", values, [bare], "the model's own call")
        yield plain(
            f"{what}: beyond the model's own call",
            "ms p50",
            [value - bare for value in values],
            Limit(bar=1.0, most=True),
        )


def _load(port: int, seconds: float, request: Request) -> float:
    """Return the median time of requests one after the other, in ms; by http.client, because httpx takes half a ms of its own."""
    body, headers = request
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    times, until = [], time.perf_counter() + seconds
    try:
        while (began := time.perf_counter()) < until:
            connection.request("POST", "/v2/models/bench/infer", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            times.append((time.perf_counter() - began) * 1e3)
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(f"{answer.status}: {content[:200]!r}")
    finally:
        connection.close()
    return statistics.median(times)


def _json() -> Request:
    tensors = [{"name": name, "datatype": "INT64", "shape": [1, TOKENS], "data": [1] * TOKENS} for name in INPUTS]
    return json.dumps({"inputs": tensors, "outputs": [{"name": OUTPUT}]}).encode(), {"content-type": "application/json"}


def _binary() -> Request:
    size = {"binary_data_size": 8 * TOKENS}
    tensors = [{"name": name, "datatype": "INT64", "shape": [1, TOKENS], "parameters": size} for name in INPUTS]
    asked = {"inputs": tensors, "outputs": [{"name": OUTPUT, "parameters": {"binary_data": True}}]}
    head = json.dumps(asked).encode()
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))}
    return head + (1).to_bytes(8, "little") * (TOKENS * len(INPUTS)), headers
