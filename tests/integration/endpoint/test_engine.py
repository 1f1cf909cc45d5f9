"""A real engine, `transformers serve`, started and called as this server does, and the life-cycle checks against it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import psutil
import pytest

from runner.serving.contract import ReplicaKey
from runner.serving.engines import Engine, Served, choose_engine, find_engines, free_port, launch_of
from runner.serving.lifecycle import check_endpoint

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
