"""A loaded model in a process of its own: started, called over shared memory, and missed at once when it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import psutil

from domain.errors import InvalidInput, PartMissing, PlatformUnavailable, ServiceUnavailable, UnsupportedWorkload
from domain.operating_system import require_service_support
from runner.protocol.parent import decoded, end_tree, exit_failure, send_task, system_oom_kills
from runner.protocol.tasks import Case, Failed, Message, Reached, Serve
from runner.serving.contract import ReplicaKey, Tensor
from runner.serving.exchange import Answer, Buffer, Infer, Loaded, Refused, Reply, memory_file

__all__ = ["CallRefused", "ProcessReplica", "ReplicaLost", "start_replica"]

_LOAD_TIMEOUT_S = 600.0
_CALL_TIMEOUT_S = 120.0
_END_S = 10.0
# Linux ends a child with the thread that started it, so that one which lives as long as this process starts them all.
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="replica-starter")


class ReplicaLost(ServiceUnavailable):
    """The process of a replica has ended, or could not be started; `failure` says how."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message, remedy=failure.remedy)
        self.failure = failure


class CallRefused(ServiceUnavailable):
    """A call failed in a process that goes on; `failure` says how, an `out_of_memory` among them."""

    type = "call-refused"

    def __init__(self, failure: Failed) -> None:
        super().__init__(failure.message, remedy=failure.remedy)
        self.failure = failure


class ProcessReplica:
    """A replica in a child process; implements `runner.serving.contract.Replica`. Calls from several threads wait in line."""

    def __init__(
        self,
        key: ReplicaKey,
        case: Case,
        folder: Path | None,
        on_stage: Callable[[str], None] | None = None,
        *,
        load_timeout_s: float = _LOAD_TIMEOUT_S,
        call_timeout_s: float = _CALL_TIMEOUT_S,
    ) -> None:
        require_service_support()
        self.key = key
        self._call_timeout_s = call_timeout_s
        self._calling = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._kills = system_oom_kills()
        ours, theirs = socket.socketpair()
        files = memory_file(), memory_file()
        self._inputs, self._outputs = (Buffer(file) for file in files)
        self._connection = Connection(ours.detach())
        self._closed = False
        task = Serve(
            case=case,
            socket=theirs.fileno(),
            inputs=files[0],
            outputs=files[1],
            folder=str(folder) if folder else None,
            max_batch=key.max_batch,
        )
        try:
            self.process = _STARTER.submit(self._start, task).result()
        finally:
            theirs.close()
        try:
            send_task(self.process, task)
            self.loaded = self._wait_until_loaded(on_stage, load_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.pid

    def infer(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return the outputs of one call; ReplicaLost where its process has ended, CallRefused where the call failed."""
        return self.timed_infer(inputs)[0]

    def timed_infer(self, inputs: list[Tensor]) -> tuple[list[Tensor], float]:
        """Return the outputs of one call, and the time that the model's own call took in ms."""
        with self._calling:
            if self._closed:
                raise ReplicaLost(_closed())
            try:
                heads, size = self._inputs.write(inputs)
                self._connection.send_bytes(msgspec.msgpack.encode(Infer(heads, size)))
                if not self._connection.poll(self._call_timeout_s):
                    end_tree(self.process)
                    raise ReplicaLost(_hung(self._call_timeout_s))
                reply = msgspec.msgpack.decode(self._connection.recv_bytes(), type=Reply)
            except (EOFError, ConnectionError, BrokenPipeError) as error:
                raise ReplicaLost(self._death("run")) from error
            if isinstance(reply, Refused):
                raise CallRefused(reply.failed)
            assert isinstance(reply, Answer)
            views = self._outputs.read(reply.heads, reply.size)
            return [Tensor(name=view.name, array=view.array.copy()) for view in views], reply.call_ms

    def alive(self) -> bool:
        """Return whether its process runs."""
        return not self._closed and self.process.poll() is None

    def memory_bytes(self) -> int:
        """Return the memory that its process takes now; ServiceUnavailable where it has ended."""
        try:
            memory = psutil.Process(self.pid).memory_full_info() if sys.platform == "linux" else None
            return int(memory.pss if memory else psutil.Process(self.pid).memory_info().rss)
        except (psutil.Error, OSError) as error:
            raise ServiceUnavailable("the process of a replica has ended.") from error

    def close(self) -> None:
        """End its process and wait until its memory is free again."""
        with self._calling:
            if self._closed:
                return
            self._closed = True
            self._connection.close()
            end_tree(self.process)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=_END_S)
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                with suppress(OSError):
                    pipe.close()
            self._inputs.close()
            self._outputs.close()
            self._log.close()

    def _start(self, task: Serve) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        package = __package__.rpartition(".")[0]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", f"{package}.protocol.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            pass_fds=(task.socket, task.inputs, task.outputs),
            start_new_session=True,
        )

    def _wait_until_loaded(self, on_stage: Callable[[str], None] | None, timeout_s: float) -> Loaded:
        """Return the card; ReplicaLost, or the error that its loading ended with."""
        deadline, stage, pending = monotonic() + timeout_s, "resolve", b""
        output: Any = self.process.stdout
        while True:
            ready = wait([self._connection, output], timeout=max(0.0, deadline - monotonic()))
            if not ready:
                end_tree(self.process)
                raise ReplicaLost(_hung(timeout_s))
            if output in ready:
                *lines, pending = (pending + os.read(output.fileno(), 1 << 16)).split(b"\n")
                for line in lines:
                    message = decoded(line, Message)
                    if isinstance(message, Reached):
                        stage = message.stage
                        if on_stage:
                            on_stage(stage)
                    elif isinstance(message, Failed):
                        raise _load_error(message)
                if lines or pending:
                    continue
            if self._connection not in ready and self.process.poll() is None:
                continue
            try:
                reply = msgspec.msgpack.decode(self._connection.recv_bytes(), type=Reply)
            except (EOFError, ConnectionError):
                raise ReplicaLost(self._death(stage)) from None
            assert isinstance(reply, Loaded)
            return reply

    def _death(self, stage: str) -> Failed:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_END_S)
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - 2000))
        tail = self._log.read().decode(errors="replace").strip()
        killed_for_memory = system_oom_kills() > self._kills
        return exit_failure(self.process.returncode or 0, stage, tail, killed_for_memory, "the replica")


def start_replica(
    key: ReplicaKey, case: Case, folder: Path | None, on_stage: Callable[[str], None] | None = None
) -> ProcessReplica:
    """Start a replica and wait until it has answered a first call; raises what its loading ended with."""
    return ProcessReplica(key, case, folder, on_stage)


def _load_error(failed: Failed) -> Exception:
    """Return the error of a model that could not be loaded; one that is wrong in itself stays an error of its input."""
    kinds: dict[str, type[PlatformUnavailable | UnsupportedWorkload | PartMissing | InvalidInput]] = {
        "PlatformUnavailable": PlatformUnavailable,
        "UnsupportedWorkload": UnsupportedWorkload,
        "PartMissing": PartMissing,
    }
    if failed.outcome == "unsupported" or failed.error in ("UsageError", "UnsupportedPrecision"):
        return kinds.get(failed.error, InvalidInput)(failed.message, field="model", remedy=failed.remedy)
    return ReplicaLost(failed)


def _closed() -> Failed:
    return Failed(
        stage="run",
        outcome="error",
        error="Closed",
        message="the replica was closed.",
        remedy="Send the request again: the endpoint loads its model anew.",
    )


def _hung(seconds: float) -> Failed:
    return Failed(
        stage="run",
        outcome="timeout",
        error="Timeout",
        message=f"the replica did not answer for {seconds:g} s and was ended.",
        remedy="Send it again; a smaller batch takes less time.",
    )
