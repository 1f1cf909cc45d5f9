"""A real OpenAI-compatible server, `transformers serve`, with a model built from its config and random weights."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.endpoint.conftest import bench_of

START_S = 120.0
TOKENS = 12


@pytest.fixture(scope="module")
def served(tiny: Path) -> Iterator[str]:
    """The address of a server that has loaded it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tiny / "serve.log"
    command = [str(Path(sys.executable).with_name("transformers")), "serve", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*command, "--device", "cpu", "--log-level", "error"], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + START_S
    try:
        while True:
            try:
                httpx.get(f"{url}/health").raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_tokens_and_times_of_a_real_server_add_up(served: str, tiny: Path) -> None:
    ran = bench_of(
        f"{served}/v1/completions", str(tiny), concurrency=(1, 3), input_tokens=(24,), output_tokens=(TOKENS,),
        iterations=6, tokenizer=str(tiny), patience_s=60.0,
    )  # fmt: skip
    one, three = ran.of("measurement.recorded")
    for row in (one, three):
        assert row["workload"]["input_tokens"] == 24
        assert row["workload"]["output_tokens"] == TOKENS
        details = row["observed"]["details"]
        assert (details["prompts"], details["tokens_counted_by"]) == ("exact", "server")
        # This server refuses what it does not know, and was asked without it.
        assert details["ignores_end"] is False
        assert not [why for why in row["validity"].get("reasons", []) if "token" in why]
        metrics = row["metrics"]
        assert 0 < metrics["ttft_ms"] < metrics["latency_ms"]["max"]
        assert metrics["tokens_per_s"] == pytest.approx(TOKENS * metrics["throughput_per_s"])
    (samples,) = [each for each in ran.of("samples.recorded") if each["digest"] == one["samples"]["digest"]]
    # Over all requests: two tokens that come in one read leave one time.
    whole = sum(samples["values"])
    parts = sum(samples["parts"]["ttft_ms"]) + sum(samples["parts"]["token_ms"])
    assert parts <= whole
    assert parts == pytest.approx(whole, rel=0.3)


def test_a_model_that_it_cannot_load_is_an_outcome(served: str, tiny: Path) -> None:
    failed = bench_of(f"{served}/v1/completions", str(tiny / "absent"), patience_s=60.0).failure
    assert failed["outcome"] == "error"
    assert failed["stage"] in ("resolve", "first_run")
    assert failed["remedy"]
