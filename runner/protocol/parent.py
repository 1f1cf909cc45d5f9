"""One task in one child process: started, watched without work, and cleaned up whatever happens.

The parent waits in the kernel for the child's pipe. A memory limit is watched from outside ten times a second,
because a limit on address space would count what torch reserves and never touches.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import IO, Any

import msgspec

from runner.machine.devices.nvidia_facts import DEVICE_LOST
from runner.machine.scrub import scrub
from runner.protocol.tasks import Failed, Finished, KernelReport, Message, Partial, Reached, Task

__all__ = ["CHILD_DESCRIPTOR", "Ended", "exit_failure", "run_task", "system_oom_kills"]

CHILD_DESCRIPTOR = "ASSAY_CHILD_DESCRIPTOR"
"""Environment variable with the number of the pipe that the child writes its messages to."""
_MEMORY_LOOK_S = 0.1
_END_S = 30.0


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended. `failure` is None where it finished; `stages` are those it announced, in order."""

    result: Any = None
    failure: Failed | None = None
    stages: tuple[str, ...] = ()


def run_task(
    task: Task,
    *,
    timeout_s: float,
    memory_limit_bytes: int | None = None,
    on_start: Callable[[int], None] | None = None,
    on_stage: Callable[[str], None] | None = None,
    on_partial: Callable[[KernelReport], None] | None = None,
) -> Ended:
    """Run the task in a child of its own process group and return how it ended; never raises for what the child does.

    `on_start` gets the child's process id, `on_partial` each part of the result that the child reports on the way. An interrupt of this process kills the child first and is passed on.
    """
    with tempfile.TemporaryFile() as log:
        watched = _Watched(task, log, timeout_s, memory_limit_bytes, on_stage, on_partial)
        if on_start:
            on_start(watched.process.pid)
        try:
            watched.follow()
        finally:
            watched.end()
        return watched.ended()


class _Watched:
    def __init__(
        self,
        task: Task,
        log: IO[bytes],
        timeout_s: float,
        memory_limit_bytes: int | None,
        on_stage: Callable[[str], None] | None,
        on_partial: Callable[[KernelReport], None] | None,
    ) -> None:
        self._log = log
        self._timeout_s = timeout_s
        self._limit = memory_limit_bytes
        # Ranks are children of the child; looking for children takes a millisecond or more of a processor each time.
        self._ranks = any("tensor-parallel" in word for word in getattr(getattr(task, "case", None), "options", ()))
        self._on_stage = on_stage
        self._on_partial = on_partial
        self._stages: list[str] = []
        self._last: Finished | Failed | None = None
        self._cause: str | None = None
        self._kills = system_oom_kills()
        self._read, write = os.pipe()
        try:
            self.process = self._start(write)
        finally:
            os.close(write)
        assert self.process.stdin is not None
        # A child that died at once says how by its exit status.
        with suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(msgspec.json.encode(task))

    def _start(self, write: int) -> subprocess.Popen[bytes]:
        environment = {**os.environ, CHILD_DESCRIPTOR: str(write), "TOKENIZERS_PARALLELISM": "false"}
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.child"],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=(write,),
            start_new_session=True,
        )

    def follow(self) -> None:
        """Read messages until the child closes its pipe, its time is over or its memory is past the limit."""
        deadline = monotonic() + self._timeout_s
        pending = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            while True:
                left = deadline - monotonic()
                if left <= 0:
                    self._cause = "timeout"
                    return
                if not selector.select(left if self._limit is None else min(left, _MEMORY_LOOK_S)):
                    if self._over_limit():
                        self._cause = "memory"
                        return
                    continue
                chunk = os.read(self._read, 1 << 16)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._take(msgspec.json.decode(line, type=Message))
                if self._last is not None:
                    return

    def _take(self, message: Message) -> None:
        if isinstance(message, Reached):
            self._stages.append(message.stage)
            if self._on_stage:
                self._on_stage(message.stage)
        elif isinstance(message, Partial):
            if self._on_partial:
                self._on_partial(message.result)
        else:
            self._last = message

    def _over_limit(self) -> bool:
        if self._limit is None:
            return False
        import psutil

        try:
            child = psutil.Process(self.process.pid)
            each = (child, *child.children()) if self._ranks else (child,)
            return bool(sum(process.memory_info().rss for process in each) > self._limit)
        except psutil.NoSuchProcess:
            return False

    def end(self) -> None:
        """Kill what is left of the child's group and collect its exit status."""
        # A child that is not yet reaped keeps its group's number, so this reaches only what the child has started.
        # One that died by itself keeps the status it died with.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # A driver that hangs keeps a killed process; whoever waits for it would hang too.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_END_S)
        os.close(self._read)

    def ended(self) -> Ended:
        """Return how it ended."""
        stages = tuple(self._stages)
        if self._cause is None and isinstance(self._last, Finished):
            return Ended(result=self._last.result, stages=stages)
        if self._cause is None and isinstance(self._last, Failed):
            return Ended(failure=self._last, stages=stages)
        return Ended(failure=self._death(stages[-1] if stages else "resolve"), stages=stages)

    def _death(self, stage: str) -> Failed:
        if self._cause == "timeout":
            return Failed(
                stage=stage,
                outcome="timeout",
                error="Timeout",
                message=f"the child was still in stage {stage} after {self._timeout_s:g} s and was ended.",
                remedy="Give it more time with --timeout, or a smaller workload.",
            )
        if self._cause == "memory":
            return Failed(
                stage=stage,
                outcome="out_of_memory",
                error="MemoryLimit",
                message=f"resident memory passed the limit of {self._limit:,} bytes in stage {stage}.",
                remedy="Raise --memory-limit-mb, or take a smaller workload or precision.",
            )
        if self.process.returncode is None:
            return Failed(
                stage=stage,
                outcome="error",
                error="Unkillable",
                message=f"the child was ended in stage {stage}, and the system has not let go of it for {_END_S:g} s.",
                remedy=DEVICE_LOST,
            )
        return exit_failure(self.process.returncode, stage, self._tail(), system_oom_kills() > self._kills)

    def _tail(self) -> str:
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - 4000))
        return self._log.read().decode(errors="replace").strip()


def exit_failure(code: int, stage: str, tail: str, oom_kill: bool, who: str = "the child") -> Failed:
    """Say what an exit status without a last message means."""
    said = f" Its last words: {scrub(tail)}" if tail else ""
    if code == -signal.SIGKILL and oom_kill:
        return Failed(
            stage=stage,
            outcome="out_of_memory",
            error="KilledForMemory",
            message=f"the operating system ended {who} for memory in stage {stage}.",
            remedy="Take a smaller workload or precision, or a machine with more memory.",
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Failed(
            stage=stage,
            outcome="error",
            error=name,
            message=f"{who} was ended by {name} in stage {stage}.{said}",
            remedy="Run it again; if it dies again, the runtime cannot run this configuration here.",
        )
    return Failed(
        stage=stage,
        outcome="error",
        error="ChildExit",
        message=f"{who} exited with status {code} in stage {stage} and left no result.{said}",
        remedy="Run it again; if it exits again, report it with this message.",
    )


def system_oom_kills() -> int:
    """Return how many processes Linux has ended for memory since it started; 0 where it does not say."""
    path = Path("/proc/vmstat")
    if not path.exists():
        return 0
    line = next((line for line in path.read_text().splitlines() if line.startswith("oom_kill ")), "oom_kill 0")
    return int(line.split()[1])
