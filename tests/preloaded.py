"""Start the Python programs of tests as copies of a process that has imported what they import.

A process that measures takes three seconds of a processor to import torch and transformers, a service or a dashboard takes
one to import what it serves with; a copy takes milliseconds. Each copy is a child of the process that starts it, with the arguments,
environment, folder and open files that a new interpreter would have; at its end it waits for its threads and calls its exit
handlers, but frees nothing. What a copy cannot do as a new interpreter does is started as one: other variables that libraries
read at import, a terminal, a folder with modules of its own.

Only on Linux, where a process can become the parent of its grandchildren.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = {
    "runner.protocol.child": (
        "runner.protocol.child", "runner.models.build", "runner.platforms.torch_eager", "torch._dynamo",
        "transformers.models.bert.modeling_bert", "openvino",
    ),
    "assay.cli": (
        "assay.cli", "assay.service", "api.app", "api.background.*", "api.routes.*", "ingest.importers.registry",
        "ingest.projection.projector", "predictor.service", "runner.campaign.bench", "granian.server.embed", "rich.console",
        "api.app:create_app",
    ),
    # The dashboard itself looks for Streamlit's runtime when it is imported.
    str(ROOT / "dashboard" / "start.py"): (
        "streamlit.web.cli", "streamlit.web.bootstrap", "streamlit.starlette", "uvicorn", "pandas", "altair", "assay.client.frames",
        "presentation.*",
    ),
}  # fmt: skip
"""Programs, as `python -m` or `python -P` takes them, and what to import before the first is started.

`package.*` has all below it; `module:function` is called as well, because what libraries keep of its first call makes the next ones quick.
"""
_READ_LATE = frozenset({"COLUMNS", "PYTHONPATH", "TMPDIR", "TOKENIZERS_PARALLELISM"})
_LATE = ("ASSAY_", "PYTEST_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_")
"""Variables that may differ in a copy, because they are read when they are needed, and what others of them begin with."""
_ALONE = threading.RLock()
"""Held while a process is started: tests do so in several threads, and each must get the number of its own."""
_SUBREAPER = 36
_ADOPTED_S = 60.0
_LONGEST = 1 << 18


class _Command(NamedTuple):
    """What `subprocess` asks the system to start, as far as copies can be."""

    program: str
    arguments: list[str]
    safe: bool
    """Whether the folder that it starts in is no place of modules: `python -P`."""


class _Original:
    """A process that has imported the modules of one program, and makes copies of itself."""

    def __init__(self, program: str) -> None:
        self.environment = _read_at_import(dict(os.environ))
        self.processors = os.sched_getaffinity(0)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno()), *PRELOADED[program]]
            # Each copy gets the variables of who starts it; those that a test has set now may be wrong on purpose.
            variables = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
            variables["ASSAY_HOME"] = os.devnull
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=variables
            )

    def copy(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Start a copy, which becomes a child of this process, and return its process id."""
        with _ALONE:
            _adopt(True)
            try:
                socket.send_fds(self._connection, [json.dumps(request).encode()], list(descriptors))
                return int(self._connection.recv(64))
            finally:
                _adopt(False)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


def _adopt(whether: bool) -> None:
    """Say whether this process takes the children of its children that end."""
    ctypes.CDLL(None).prctl(_SUBREAPER, int(whether), 0, 0, 0)


def _read_at_import(environment: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if not k.startswith(_LATE) and k not in _READ_LATE}


def _command(words: Sequence[Any]) -> _Command | None:
    """Return what a command line runs; None where it is none of the programs."""
    interpreter, *rest = [os.fsdecode(word) for word in words]
    safe = rest[:1] == ["-P"]
    if safe:
        del rest[0]
    if rest[:1] == ["-m"]:
        del rest[0]
    elif not safe:
        return None
    if interpreter != sys.executable or not rest or rest[0] not in PRELOADED:
        return None
    return _Command(rest[0], rest[1:], safe)


def _has_modules(folder: str) -> bool:
    return Path(folder) != ROOT and any(Path(folder).glob("*.py"))


def _hides_ours(paths: str) -> bool:
    """Return whether a folder of PYTHONPATH has a module named as a package of the project, which copies have imported."""
    ours = {found.parent.name for found in ROOT.glob("*/__init__.py")}
    folders = (Path(path) for path in paths.split(os.pathsep) if path and Path(path) != ROOT)
    return any(found.stem in ours for folder in folders for found in folder.glob("*"))


@contextmanager
def preloaded() -> Iterator[None]:
    """Start the programs of PRELOADED as copies while the block lasts, whichever code of this process starts them."""
    start: Callable[..., int] | None = getattr(subprocess, "_fork_exec", None)
    if sys.platform != "linux" or start is None:
        yield
        return
    originals: dict[str, _Original] = {}

    def fork_exec(words: Any, executables: Any, close: bool, keep: Any, folder: Any, variables: Any, *rest: Any) -> int:
        command = _command(words)
        if command is not None:
            streams, error_pipe, session, account = (rest[0], rest[3], rest[5]), rest[7], rest[9], rest[10:15]
            place = str(Path.cwd()) if folder is None else os.fsdecode(folder)
            environment = dict(os.environ)
            if variables is not None:
                environment = dict(os.fsdecode(entry).split("=", 1) for entry in variables)
            kept = [number for number in keep if number != error_pipe]
            taken = [standard if number < 0 else number for standard, number in enumerate(streams)]
            plain = close and account == (-1, None, None, None, -1) and rest[15] is None
            own = not _has_modules(place) and not _hides_ours(environment.get("PYTHONPATH", ""))
            if plain and own and not any(map(os.isatty, taken)):
                with _ALONE:
                    if command.program not in originals:
                        originals[command.program] = _Original(command.program)
                original = originals[command.program]
                same = os.sched_getaffinity(0) == original.processors
                if same and _read_at_import(environment) == original.environment:
                    request = {
                        **command._asdict(), "environment": environment, "folder": place, "session": bool(session),
                        "parent": os.getpid(), "targets": [0, 1, 2, *kept],
                    }  # fmt: skip
                    return original.copy(request, [*taken, *kept])
        return start(words, executables, close, keep, folder, variables, *rest)

    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess._fork_exec = start  # type: ignore[attr-defined]
        for original in originals.values():
            original.close()


def _import(name: str) -> None:
    if name.endswith(".*"):
        package = importlib.import_module(name.removesuffix(".*"))
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    else:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()


def _next_copy(connection: socket.socket) -> dict[str, Any] | None:
    """Make a copy for each request, and return the request in the copy; return None where no more will come."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 64)
        if not message:
            return None
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            if copy := os.fork():
                os.write(writing, str(copy).encode())
                os._exit(0)
            for each in (reading, writing):
                os.close(each)
            connection.close()
            return {**json.loads(message), "descriptors": descriptors}
        # With the end of the process between, the copy becomes a child of who asked for it.
        os.waitpid(between, 0)
        connection.send(os.read(reading, 64))
        for each in (reading, writing, *descriptors):
            os.close(each)


def _become(request: dict[str, Any]) -> None:
    """Take over what a new process would have been started with."""
    until = time.monotonic() + _ADOPTED_S
    while os.getppid() != request["parent"]:
        if time.monotonic() > until:
            raise SystemExit("the process that asked for this one has ended")
        time.sleep(0.0002)
    if request["session"]:
        os.setsid()
    # At its end the interpreter frees it as ever; some libraries report what stays.
    atexit.register(gc.unfreeze)
    targets = request["targets"]
    above = [fcntl.fcntl(number, fcntl.F_DUPFD, max(targets) + 1) for number in request["descriptors"]]
    for number in request["descriptors"]:
        os.close(number)
    for number, target in zip(above, targets, strict=True):
        os.dup2(number, target)
        os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = open(  # noqa: SIM115
            number, "w" if number else "r", 1 if number == 2 else -1, old.encoding, old.errors, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(request["folder"])
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["environment"])
    first = [] if request["safe"] else [request["folder"]]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*first, *paths, *(path for path in sys.path if path not in before)]
    sys.argv[1:] = request["arguments"]


def _end(status: int) -> None:
    """End as an interpreter does, but for freeing what was imported, which takes half a second; return where it cannot write."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    # What libraries that are not Python's print.
    ctypes.CDLL(None).fflush(None)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        for module in sys.argv[2:]:
            _import(module)
        # What is imported lasts as long as a copy: no copy looks for garbage in it, or has the pages that this would write.
        gc.collect()
        gc.freeze()
        wanted = _next_copy(channel)
    if wanted is None:
        os._exit(0)
    _become(wanted)
    status: object = None
    try:
        if wanted["program"].endswith(".py"):
            runpy.run_path(wanted["program"], run_name="__main__")
        else:
            runpy.run_module(wanted["program"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
        if not isinstance(status, int | None):
            raise
    _end(status or 0)
    raise SystemExit(status)
