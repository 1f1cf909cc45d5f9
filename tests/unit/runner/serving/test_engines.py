"""Engines of language models: which one, its command line, and its life as a process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from domain.errors import AssayError, InvalidInput, PartMissing, Unavailable, UnsupportedWorkload, UsageError
from runner.serving.contract import ReplicaKey
from runner.serving.engines import Engine, EngineName, Launch, Served, choose_engine, free_port, launch_of

ALL: dict[EngineName, str] = {"vllm": "/bin/vllm", "ovms": "/bin/ovms", "transformers": "/bin/transformers"}
SERVED = Served(name="chat", model="acme/llama", platform="cuda", precision="bf16")
KEY = ReplicaKey(
    weights="w", platform="cpu", precision="fp32", device=None, threads=None, compiled=False, options=("engine=test",)
)

SERVER = """
import json, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
print("starting", flush=True)
mode = sys.argv[2]
if mode == "fails":
    sys.exit("no weights of acme/llama")
if mode == "hangs":
    time.sleep(60)
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
print("child", child.pid, flush=True)
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 400 if body.get("bad") else 200
        text = json.dumps({"model": body["model"], "path": self.path, "error": "bad: no such member"})
        if body.get("stream"):
            text = "data: " + text + "\\n\\ndata: [DONE]\\n\\n"
        self.send_response(status); self.send_header("Content-Length", str(len(text))); self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_): pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


@pytest.mark.parametrize(
    ("platform", "named", "engine"),
    [
        ("cuda", None, "vllm"),
        ("cuda", "transformers", "transformers"),
        ("openvino", None, "ovms"),
        ("cpu", None, "transformers"),
    ],
)
def test_engine_is_the_first_that_serves_the_platform_or_the_one_named(
    platform: str, named: str | None, engine: str
) -> None:
    assert choose_engine(platform, named, ALL) == engine


def test_engine_that_is_not_installed_is_passed_over_only_where_none_is_named() -> None:
    installed: dict[EngineName, str] = {"transformers": "/bin/transformers"}
    assert choose_engine("cuda", None, installed) == "transformers"
    with pytest.raises(PartMissing, match="pip install vllm"):
        choose_engine("cuda", "vllm", installed)
    with pytest.raises(PartMissing, match="ovms"):
        choose_engine("openvino", None, installed)


@pytest.mark.parametrize(
    ("platform", "named", "error"),
    [("cpu", "vllm", UsageError), ("cuda", "tgi", UsageError), ("webgpu", None, UnsupportedWorkload)],
)
def test_engine_that_cannot_serve_is_refused(platform: str, named: str | None, error: type[AssayError]) -> None:
    with pytest.raises(error):
        choose_engine(platform, named, ALL)


def test_command_line_of_vllm() -> None:
    served = msgspec.structs.replace(SERVED, tensor_parallel=2, device="cuda:1")
    launch = launch_of("vllm", "vllm", served, 8000)
    assert launch.argv[:3] == ("vllm", "serve", "acme/llama")
    assert " ".join(launch.argv[3:]) == (
        "--host 127.0.0.1 --port 8000 --dtype bfloat16 --served-model-name chat --tensor-parallel-size 2"
    )
    assert (launch.served_as, launch.base, launch.health) == ("chat", "/v1", "/health")
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "1"}


def test_command_line_of_transformers_serve() -> None:
    served = msgspec.structs.replace(SERVED, platform="cpu", precision="fp32", threads=2)
    launch = launch_of("transformers", "transformers", served, 8000)
    assert " ".join(launch.argv) == (
        "transformers serve acme/llama --host 127.0.0.1 --port 8000 --dtype float32 --device cpu --log-level warning"
    )
    assert (launch.served_as, launch.env) == ("acme/llama", {"OMP_NUM_THREADS": "2"})


def test_command_line_of_openvino_model_server(tmp_path: Path) -> None:
    served = msgspec.structs.replace(SERVED, platform="openvino", model=str(tmp_path))
    with pytest.raises(InvalidInput, match="optimum-cli"):
        launch_of("ovms", "ovms", served, 8000)
    (tmp_path / "openvino_model.xml").touch()
    launch = launch_of("ovms", "ovms", served, 8000)
    assert " ".join(launch.argv) == (
        f"ovms --rest_bind_address 127.0.0.1 --rest_port 8000 --model_name chat --model_path {tmp_path} "
        "--task text_generation --target_device CPU"
    )
    assert (launch.base, launch.health) == ("/v3", "/v2/health/ready")


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_precision_that_an_engine_does_not_take_is_refused(engine: EngineName) -> None:
    with pytest.raises(InvalidInput) as refused:
        launch_of(engine, engine, msgspec.structs.replace(SERVED, precision="int8"), 8000)
    assert refused.value.field == "precision"


Start = Callable[..., Engine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a small real HTTP server as an engine."""
    engines: list[Engine] = []

    def started(mode: str = "serves", *, start_s: float = 20.0) -> Engine:
        port = free_port()
        argv = (sys.executable, "-I", "-S", "-c", SERVER, str(port), mode)
        launch = Launch(engine="test", argv=argv, port=port, served_as="/models/llama")
        engines.append(Engine(launch, KEY, tmp_path / "engine.log", start_s=start_s, backoff_s=0.01))
        return engines[-1]

    yield started
    for engine in engines:
        engine.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def child_of(engine: Engine) -> int:
    return int(engine.log.read_text().rsplit("child ", 1)[1].split()[0])


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_request_is_passed_on_under_the_names_of_both_sides(start: Start) -> None:
    engine = start()
    (answer,) = engine.send("/completions", {"model": "chat", "prompt": "a"}, "chat")
    document = msgspec.json.decode(answer)
    assert (document["model"], document["path"]) == ("chat", "/v1/completions")
    events = list(engine.send("/chat/completions", {"model": "chat", "stream": True}, "chat"))
    assert events[0].startswith(b'data: {"model":"chat"')
    assert events[-1] == b"data: [DONE]\n\n"
    assert engine.memory_bytes() > 5_000_000


def test_refusal_of_an_engine_is_passed_on_in_its_own_words(start: Start) -> None:
    engine = start()
    with pytest.raises(InvalidInput, match="no such member"):
        list(engine.send("/completions", {"bad": True}, "chat"))
    with pytest.raises(InvalidInput):
        list(engine.send("/../admin", {}, "chat"))
    with pytest.raises(UnsupportedWorkload):
        engine.infer([])


def test_engine_that_is_killed_is_started_again_and_answers(start: Start) -> None:
    engine = start()
    first, child = engine.pid, child_of(engine)
    os.kill(first, signal.SIGKILL)
    until(lambda: engine.pid != first)
    until(lambda: _answers(engine))
    assert engine.restarts == 1
    until(lambda: ended(child))


def _answers(engine: Engine) -> bool:
    try:
        return bool(list(engine.send("/completions", {}, "chat")))
    except Unavailable as error:
        return not error.retry_after_s


def test_engine_that_ends_while_it_starts_says_why(start: Start) -> None:
    with pytest.raises(Unavailable, match="no weights of acme/llama"):
        start("fails")


def test_engine_that_is_never_ready_is_ended(start: Start) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(Unavailable, match="not ready"):
        start("hangs", start_s=0.3)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_closing_ends_the_process_and_what_it_started(start: Start) -> None:
    engine = start()
    pid, child = engine.pid, child_of(engine)
    engine.close()
    assert ended(pid)
    until(lambda: ended(child))
    assert not engine.alive()
    with pytest.raises(Unavailable):
        list(engine.send("/completions", {}, "chat"))
