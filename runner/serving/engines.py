"""Engines for language models: vLLM, OpenVINO Model Server or `transformers serve`, started, watched and called as a child process.

They batch token by token, which this server does not. It starts one, waits until it is ready, passes OpenAI requests on, starts it
again when it ends, and ends it with everything that it started.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import psutil

from domain.errors import InvalidInput, PartMissing, Unavailable, UnsupportedWorkload, UsageError
from runner.machine.resident_memory import proportional_memory_bytes
from runner.serving.contract import ReplicaKey, Tensor

__all__ = [
    "ENGINES",
    "ROUTES",
    "Engine",
    "EngineName",
    "Launch",
    "Served",
    "choose_engine",
    "find_engines",
    "launch_of",
]

EngineName = Literal["vllm", "ovms", "transformers"]
ENGINES: tuple[EngineName, ...] = ("vllm", "ovms", "transformers")
"""In the order in which they are chosen where several are installed and can serve the platform."""
ROUTES = ("/chat/completions", "/completions", "/embeddings")
_PROGRAMS: dict[EngineName, str] = {"vllm": "vllm", "ovms": "ovms", "transformers": "transformers"}
_PLATFORMS: dict[EngineName, frozenset[str]] = {
    "vllm": frozenset({"cuda", "rocm", "xpu"}),
    "ovms": frozenset({"openvino"}),
    "transformers": frozenset({"cpu", "cuda", "rocm", "mps", "xpu"}),
}
_INSTALL: dict[EngineName, str] = {
    "vllm": "pip install vllm",
    "ovms": "the package of OpenVINO Model Server, with `ovms` on the PATH",
    "transformers": "pip install 'transformers[serving]'",
}
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
START_S = 600.0
_END_S = 10.0
_POLL_S = 0.05
_RESTARTS = 5
_LOG_TAIL = 2000


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A language model to serve: `model` is a name or a folder, `name` that of its routes."""

    name: str
    model: str
    platform: str
    precision: str
    device: str | None = None
    threads: int | None = None
    tensor_parallel: int = 1


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine is started and asked. `base` is the prefix of its OpenAI routes, `served_as` its name for the model."""

    engine: str
    argv: tuple[str, ...]
    port: int
    served_as: str
    env: dict[str, str] = {}
    health: str = "/health"
    base: str = "/v1"


def find_engines() -> dict[EngineName, str]:
    """Return the programs of the engines that are installed: beside this Python, or on the PATH."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    programs = {engine: shutil.which(program, path=places) for engine, program in _PROGRAMS.items()}
    if not all(importlib.util.find_spec(package) for package in ("fastapi", "uvicorn")):
        # `transformers serve` is always there, and ends at once without these.
        programs["transformers"] = None
    return {engine: program for engine, program in programs.items() if program}


def choose_engine(
    platform: str, named: str | None = None, programs: Mapping[EngineName, str] | None = None
) -> EngineName:
    """Return the engine for a platform: the one that is named, or the first of ENGINES that is installed and can serve it.

    Raises UsageError for a name that is none or cannot serve the platform, and PartMissing with what to install.
    """
    programs = find_engines() if programs is None else programs
    able = [engine for engine in ENGINES if platform in _PLATFORMS[engine]]
    if named is not None and named not in able:
        known = named in ENGINES
        raise UsageError(
            f"{named} does not serve on {platform}." if known else f"no engine is known as {named!r}.",
            field="engine",
            remedy=f"Name {' or '.join(able or ENGINES)}.",
        )
    wanted = [engine for engine in able if named in (None, engine)]
    if not wanted:
        raise UnsupportedWorkload(
            f"no engine serves language models on {platform}.", field="platform", remedy="Name cpu, cuda or openvino."
        )
    for engine in wanted:
        if engine in programs:
            return engine
    raise PartMissing(
        f"no engine that serves language models on {platform} is installed.",
        field="engine",
        remedy="Install one: " + "; ".join(f"{engine} ({_INSTALL[engine]})" for engine in wanted) + ".",
    )


def launch_of(engine: EngineName, program: str, served: Served, port: int) -> Launch:
    """Return the command line of an engine that serves a model on a port of the loopback interface.

    Raises InvalidInput for a precision or a form of model that the engine does not take.
    """
    env = {"OMP_NUM_THREADS": str(served.threads)} if served.threads else {}
    if engine == "ovms":
        return _ovms(program, served, port, env)
    dtype = _DTYPES.get(served.precision)
    if dtype is None:
        raise InvalidInput(
            f"{engine} computes in {', '.join(_DTYPES)} here, not in {served.precision}.",
            field="precision",
            remedy="Name one of these.",
        )
    common = ("--host", "127.0.0.1", "--port", str(port), "--dtype", dtype)
    if engine == "vllm":
        split = ("--tensor-parallel-size", str(served.tensor_parallel)) if served.tensor_parallel > 1 else ()
        argv = (program, "serve", served.model, *common, "--served-model-name", served.name, *split)
        if served.device and served.device.partition(":")[2]:
            env["CUDA_VISIBLE_DEVICES"] = served.device.partition(":")[2]
        return Launch(engine=engine, argv=argv, port=port, served_as=served.name, env=env)
    if Path(served.model).is_dir():
        # Nothing is fetched for a folder, and a hub that cannot be reached would delay requests.
        env["HF_HUB_OFFLINE"] = "1"
    device = served.device or ("cuda" if served.platform == "rocm" else served.platform)
    argv = (program, "serve", served.model, *common, "--device", device, "--log-level", "warning")
    return Launch(engine=engine, argv=argv, port=port, served_as=served.model, env=env)


def _ovms(program: str, served: Served, port: int, env: dict[str, str]) -> Launch:
    folder = Path(served.model)
    if not (folder / "openvino_model.xml").is_file():
        raise InvalidInput(
            f"OpenVINO Model Server takes a folder with openvino_model.xml and a tokenizer; {served.model} is none.",
            field="model",
            remedy="Make it with `optimum-cli export openvino --model NAME --weight-format int8 FOLDER`.",
        )
    where = ("--rest_bind_address", "127.0.0.1", "--rest_port", str(port))
    what = ("--model_name", served.name, "--model_path", str(folder), "--task", "text_generation")
    argv = (program, *where, *what, "--target_device", served.device or "CPU")
    return Launch(
        engine="ovms", argv=argv, port=port, served_as=served.name, env=env, health="/v2/health/ready", base="/v3"
    )


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Engine:
    """A running engine; as a Replica it can be owned by the pool, and it is called by `send` in place of `infer`.

    Constructing it starts the process and returns when it is ready; raises Unavailable with the end of its log where it ends or
    is not ready in time. A process that ends later is started again, after 1, 2, 4, … seconds, at most five times in a row.
    """

    def __init__(
        self, launch: Launch, key: ReplicaKey, log: Path, *, start_s: float = START_S, backoff_s: float = 1.0
    ) -> None:
        self.launch, self.key, self.log = launch, key, log
        self.restarts = 0
        self._start_s, self._backoff_s = start_s, backoff_s
        self._ending = threading.Event()
        self._ready = threading.Event()
        # A connection for each request: `transformers serve` closes one after an error, and the next request would fail with it.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{launch.port}", timeout=None, trust_env=False, limits=limits
        )
        self._process = self._spawn()
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        self._watcher = threading.Thread(target=self._watch, name=f"engine-{self._process.pid}", daemon=True)
        self._watcher.start()

    @property
    def pid(self) -> int:
        """The id of the process that runs now."""
        return self._process.pid

    def alive(self) -> bool:
        """Return whether it answers, or is being started again."""
        return not self._ending.is_set()

    def memory_bytes(self) -> int:
        """Return what its process and all that it started take."""
        total = 0
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    total += proportional_memory_bytes(one.pid)
        return total

    def infer(self, inputs: list[Tensor]) -> list[Tensor]:  # noqa: ARG002 - the signature of a Replica
        """Raise UnsupportedWorkload: engines answer OpenAI requests, not tensors."""
        raise UnsupportedWorkload(
            "a language model is not called with tensors.", field="inputs", remedy="Use /v1/chat/completions."
        )

    def send(self, route: str, body: dict[str, Any], name: str) -> Iterator[bytes]:
        """Yield the answer to an OpenAI request: one JSON, or with `stream` the events; `name` is what the answer calls the model.

        `route` is one of ROUTES. Nothing is sent before the first item is
        asked for, which comes when the engine has accepted the request. Raises Unavailable while it is being
        started, and InvalidInput or Unavailable with the engine's own words where it refuses.
        """
        if route not in ROUTES:
            raise InvalidInput(f"{route} is no route of an engine.", field="route", remedy=f"Use {', '.join(ROUTES)}.")
        if not self._ready.is_set():
            raise self._gone("is being started again")
        request = self._http.build_request(
            "POST", self.launch.base + route, json={**body, "model": self.launch.served_as}
        )
        try:
            answer = self._http.send(request, stream=True)
            try:
                if not answer.is_success:
                    raise _refusal(self.launch.engine, answer.status_code, answer.read().decode("utf-8", "replace"))
                if body.get("stream"):
                    for line in answer.iter_lines():
                        if line.startswith("data: "):
                            yield _named(line.removeprefix("data: "), name, b"data: ", b"\n\n")
                else:
                    yield _named(answer.read().decode(), name)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            raise self._gone(f"ended during the request ({type(error).__name__})") from None

    def close(self) -> None:
        """End the process and all that it started, and wait until they have ended."""
        self._ending.set()
        self._ready.clear()
        self._end()
        self._http.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            # A session of its own, so that what it starts (vLLM has several processes) is ended with it, and Ctrl-C is ours alone.
            return subprocess.Popen(
                self.launch.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.launch.env},
                start_new_session=True,
            )

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + self._start_s
        while not self._ending.is_set():
            if self._process.poll() is not None:
                raise self._gone(f"ended with {self._process.returncode} while it started")
            with suppress(httpx.HTTPError):
                if self._http.get(self.launch.health, timeout=5.0).is_success:
                    self._ready.set()
                    return
            if time.monotonic() > until:
                raise self._gone(f"was not ready within {self._start_s:g} s")
            self._ending.wait(_POLL_S)

    def _watch(self) -> None:
        """Start the process again whenever it ends by itself."""
        while True:
            self._process.wait()
            self._ready.clear()
            if self._ending.is_set():
                return
            self._end()
            if self.restarts >= _RESTARTS:
                self._ending.set()
                return
            self._ending.wait(self._backoff_s * 2**self.restarts)
            self.restarts += 1
            if self._ending.is_set():
                return
            self._process = self._spawn()
            if self._ending.is_set():
                self._end()
                return
            try:
                self._wait_until_ready()
            except Unavailable:
                self._end()

    def _end(self) -> None:
        """End the process and what it started: politely, and after ten seconds by force."""
        self._signal(force=False)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        # Also where it has ended: its children may not have.
        self._signal(force=True)
        self._process.wait()

    def _signal(self, *, force: bool) -> None:
        if sys.platform == "win32":
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(self._process.pid).children(recursive=True):
                    child.kill()
            self._process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL if force else signal.SIGTERM)

    def _gone(self, what: str) -> Unavailable:
        said = self.log.read_text("utf-8", "replace")[-_LOG_TAIL:].strip() if self.log.exists() else ""
        last = f" Its last words: {said.splitlines()[-1][:300]}" if said else ""
        error = Unavailable(
            f"{self.launch.engine} {what}.{last}", field="engine", remedy="Its whole log is kept by the server."
        )
        error.retry_after_s = self._backoff_s
        return error


def _refusal(engine: str, status: int, text: str) -> InvalidInput | Unavailable:
    said = text.strip()[:500] or "without a reason"
    if 400 <= status < 500 and status != 429:
        return InvalidInput(
            f"{engine} refused the request with {status}: {said}",
            field="body",
            remedy="See the engine's documentation.",
        )
    return Unavailable(f"{engine} answered {status}: {said}", field="engine", remedy="Try again.")


def _named(text: str, name: str, before: bytes = b"", after: bytes = b"") -> bytes:
    """Return JSON with the endpoint's name for the model, where it is an object that names one; the engine may know it by a folder."""
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return before + text.encode() + after
    if isinstance(document, dict) and "model" in document:
        document["model"] = name
    return before + msgspec.json.encode(document) + after
