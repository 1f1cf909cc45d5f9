"""A real engine, `transformers serve`, started and called as this server does, and the life-cycle checks against it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest
from openai import APIStatusError, AsyncOpenAI

from domain.configuration import Runtime
from runner.serving.app import create_app
from runner.serving.contract import EndpointSpec, ReplicaKey
from runner.serving.engines import Engine, Served, choose_engine, find_engines, free_port, launch_of
from runner.serving.lifecycle import check_endpoint
from runner.serving.pool import ReplicaPool
from runner.serving.server import ModelServer

# Its start alone takes more than 8 seconds; tests/unit/runner/serving/test_engines.py has the same decisions.
pytestmark = pytest.mark.torture


def test_transformers_serve_is_started_called_checked_and_ended(tiny: Path, tmp_path: Path) -> None:
    programs = find_engines()
    name = choose_engine("cpu", None, programs)
    served = Served(name="tiny", model=str(tiny), platform="cpu", precision="fp32", threads=1)
    launch = launch_of(name, programs[name], served, free_port())
    key = ReplicaKey(
        weights="random", platform="cpu", precision="fp32", device=None, threads=1, compiled=False, options=()
    )
    engine = Engine(launch, key, tmp_path / "engine.log", start_s=120)
    try:
        (answer,) = engine.send("/completions", {"prompt": "time year", "max_tokens": 5}, "tiny")
        document = msgspec.json.decode(answer)
        assert document["model"] == "tiny"
        assert len(document["choices"][0]["text"].split()) <= 5
        events = list(engine.send("/completions", {"prompt": "time", "max_tokens": 5, "stream": True}, "tiny"))
        assert len(events) > 1
        assert all(event.startswith(b"data: ") and str(tiny).encode() not in event for event in events)
        result = check_endpoint(f"http://127.0.0.1:{launch.port}", model=str(tiny), protocol="openai")
        passed = {step.check for step in result.steps if step.outcome == "passed"}
        assert {"ready", "invoke", "stream", "concurrent"} <= passed, result.steps
        assert engine.memory_bytes() > 100_000_000
    finally:
        engine.close()
    assert not psutil.pid_exists(engine.pid)


def test_language_model_is_served_through_its_engine(tiny: Path) -> None:
    events: list[dict[str, Any]] = []
    server = ModelServer(ReplicaPool(8 * 10**9), on_event=events.append)
    try:
        server.create(
            EndpointSpec(
                name="chat", model=str(tiny), platform="cpu", precision="fp32", threads=1, engine="transformers"
            )
        )
        asyncio.run(_talk(server))
        status = server.endpoint("chat").status()
        assert (status.state, status.requests, status.failures) == ("ready", 4, 0)
        assert status.delivery
        assert status.delivery.execution.runtime == Runtime(name="transformers")
        server.remove("chat")
        assert server.pool.used_bytes() == 0
    finally:
        server.close()
    assert [event["data"].get("change") for event in events] == ["created", "ready", None, "removed"]


async def _talk(server: ModelServer) -> None:
    transport = httpx.ASGITransport(create_app(server))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://models", timeout=60) as http:
        client = AsyncOpenAI(base_url="http://models/v1", api_key="none", http_client=http, max_retries=0)
        answer = await client.completions.create(model="chat", prompt="time year", max_tokens=5)
        assert answer.model == "chat"
        assert len(answer.choices[0].text.split()) <= 5
        stream = await client.completions.create(model="chat", prompt="time", max_tokens=5, stream=True)
        chunks = [chunk async for chunk in stream]
        assert len(chunks) > 1
        assert {chunk.model for chunk in chunks} == {"chat"}
        streamed = await client.completions.create(model="chat", prompt="time", max_tokens=100, stream=True)
        await streamed.close()
        with pytest.raises(APIStatusError) as refused:
            await client.completions.create(model="chat", prompt=[{"wrong": 1}])  # type: ignore[arg-type]
        assert refused.value.status_code == 422
        tensors = await http.post("/v2/models/chat/infer", json={"inputs": []})
        assert (tensors.status_code, "/v1/chat/completions" in tensors.text) == (422, True)
