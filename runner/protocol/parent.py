"""One task in one child process: started, watched without work, and cleaned up whatever happens.

The parent waits in the kernel for what the child says on its standard output. A memory limit is watched from outside
ten times a second, because a limit on address space would count what torch reserves and never touches.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import psutil

from runner.machine.devices.nvidia_facts import DEVICE_LOST
from runner.machine.scrub import scrub
from runner.platforms.execution_options import RANK_OPTIONS
from runner.protocol.tasks import (
    Case,
    Failed,
    Finished,
    FollowingTask,
    KernelReport,
    Loaded,
    Message,
    Partial,
    Progress,
    Reached,
    Task,
)

__all__ = [
    "Child",
    "Ended",
    "decoded",
    "descendants",
    "end_tree",
    "exit_failure",
    "run_task",
    "send_task",
    "system_oom_kills",
]

_MEMORY_LOOK_S = 0.1
_END_S = 30.0
_LISTEN_S = 1.0
_INTERRUPT_S = 0.5
"""How long Ctrl-C may wait on Windows, where it does not wake a thread that waits."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended. `failure` is None where it finished; `stages` are those it announced, in order."""

    result: Any = None
    failure: Failed | None = None
    stages: tuple[str, ...] = ()


class Child:
    """A child in a process group of its own; with `load` it loads the code of that case before a task comes."""

    def __init__(self, load: Case | None = None) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.process = self._start([] if load is None else [msgspec.json.encode(load).decode()])
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        root = str(Path(__file__).resolve().parents[__name__.count(".")])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,
        )

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            for line in pipe:
                self.lines.put(line)
        self.lines.put(None)

    def loaded(self, deadline: float) -> bool:
        """Wait until its code is loaded; False where it ends before or the deadline (of `monotonic`) is past."""
        while (left := deadline - monotonic()) > 0:
            try:
                line = self.lines.get(timeout=min(left, _INTERRUPT_S))
            except queue.Empty:
                continue
            if line is None:
                self.lines.put(None)
                return False
            if isinstance(decoded(line, Message), Loaded):
                return True
        return False

    def end(self) -> None:
        """Kill it and what it has started, and collect its exit status."""
        end_tree(self.process)
        # A driver that hangs keeps a killed process; whoever waits for it would hang too.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_END_S)
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self._listener.join(_LISTEN_S)

    def close(self) -> None:
        """End it and forget what it printed."""
        self.end()
        self.log.close()


def run_task(
    task: Task,
    *,
    timeout_s: float,
    memory_limit_bytes: int | None = None,
    child: Child | None = None,
    on_start: Callable[[int], None] | None = None,
    on_stage: Callable[[str], None] | None = None,
    on_partial: Callable[[KernelReport], None] | None = None,
    on_progress: Callable[[str, float | None], None] | None = None,
) -> Ended:
    """Run the task in a child of its own process group and return how it ended; never raises for what the child does.

    `child` is one that was started before, for this task alone. `on_start` gets the child's process id, `on_partial` each part of the result that the child
    reports on the way, `on_progress` what it is at and the share that is done. An interrupt of this process kills the child first and is passed on.
    """
    with closing(child or Child()) as started:
        watched = _Watched(task, started, timeout_s, memory_limit_bytes, on_stage, on_partial, on_progress)
        if on_start:
            on_start(started.process.pid)
        try:
            watched.follow()
        finally:
            started.end()
        return watched.ended()


class _Watched:
    def __init__(
        self,
        task: Task,
        child: Child,
        timeout_s: float,
        memory_limit_bytes: int | None,
        on_stage: Callable[[str], None] | None,
        on_partial: Callable[[KernelReport], None] | None,
        on_progress: Callable[[str, float | None], None] | None,
    ) -> None:
        self._child = child
        self._timeout_s = timeout_s
        self._limit = memory_limit_bytes
        # Ranks are children of the child; looking for children takes a millisecond or more of a processor each time.
        self._ranks = any(
            word.partition("=")[0] in RANK_OPTIONS for word in getattr(getattr(task, "case", None), "options", ())
        )
        self._on_stage = on_stage
        self._on_partial = on_partial
        self._on_progress = on_progress
        self._stages: list[str] = []
        self._last: Finished | Failed | None = None
        self._cause: str | None = None
        self._kills = system_oom_kills()
        send_task(child.process, task)

    def follow(self) -> None:
        """Read messages until the child closes its pipe, its time is over or its memory is past the limit."""
        deadline = monotonic() + self._timeout_s
        longest = _INTERRUPT_S if sys.platform == "win32" else self._timeout_s
        while self._last is None:
            left = deadline - monotonic()
            if left <= 0:
                self._cause = "timeout"
                return
            try:
                line = self._child.lines.get(timeout=min(left, longest if self._limit is None else _MEMORY_LOOK_S))
            except queue.Empty:
                if self._over_limit():
                    self._cause = "memory"
                    return
                continue
            if line is None:
                return
            self._take(line)

    def _take(self, line: bytes) -> None:
        message = decoded(line, Message)
        if isinstance(message, Reached):
            self._stages.append(message.stage)
            if self._on_stage:
                self._on_stage(message.stage)
        elif isinstance(message, Progress):
            if self._on_progress:
                self._on_progress(message.what, message.share)
        elif isinstance(message, Partial):
            if self._on_partial:
                self._on_partial(message.result)
        elif message is not None:
            self._last = message

    def _over_limit(self) -> bool:
        if self._limit is None:
            return False
        try:
            child = psutil.Process(self._child.process.pid)
            # The python of a virtual environment on Windows is a small program that starts the real one.
            family = self._ranks or sys.platform == "win32"
            each = (child, *child.children(recursive=True)) if family else (child,)
            return bool(sum(process.memory_info().rss for process in each) > self._limit)
        except psutil.NoSuchProcess:
            return False

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
        if self._child.process.returncode is None:
            return Failed(
                stage=stage,
                outcome="error",
                error="Unkillable",
                message=f"the child was ended in stage {stage}, and the system has not let go of it for {_END_S:g} s.",
                remedy=DEVICE_LOST,
            )
        return exit_failure(self._child.process.returncode, stage, self._tail(), system_oom_kills() > self._kills)

    def _tail(self) -> str:
        log = self._child.log
        log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
        return log.read().decode(errors="replace").strip()


def send_task(process: subprocess.Popen[bytes], task: Task | FollowingTask) -> None:
    """Write a child's task to its standard input, which stays open: its end tells the child that this process is gone."""
    assert process.stdin is not None
    # A child that died at once says how by its exit status.
    with suppress(OSError):
        process.stdin.write(msgspec.json.encode(task) + b"\n")
        process.stdin.flush()


def decoded(line: bytes, kind: Any) -> Any:
    """Return the message of a kind that a line is.

    None is printed by something that an interpreter loads before our code, or cut off by the death of who wrote it.
    """
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError:
        return None


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a child that was started with `start_new_session`, and what it has started, also where it is dead already."""
    if sys.platform == "win32":
        for each in [*descendants(process.pid)]:
            with suppress(psutil.Error):
                each.kill()
        with suppress(PermissionError):
            process.kill()
    else:
        # A child that is not yet reaped keeps its group's number, so this reaches only what the child has started.
        # One that died by itself keeps the status it died with.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def descendants(pid: int) -> Iterator[psutil.Process]:
    """Yield what a process has started, and what that has. Windows tells it of a dead process too while its handle is open."""
    by_parent = defaultdict(list)
    for process in psutil.process_iter(["ppid"]):
        by_parent[process.info["ppid"]].append(process)
    parents = [pid]
    while parents:
        for process in by_parent.pop(parents.pop(), ()):
            yield process
            parents.append(process.pid)


def exit_failure(code: int, stage: str, tail: str, oom_kill: bool, who: str = "the child") -> Failed:
    """Say what an exit status without a last message means."""
    said = f" Its last words: {scrub(tail)}" if tail else ""
    if oom_kill and _signal_name(code) == "SIGKILL":
        return Failed(
            stage=stage,
            outcome="out_of_memory",
            error="KilledForMemory",
            message=f"the operating system ended {who} for memory in stage {stage}.",
            remedy="Take a smaller workload or precision, or a machine with more memory.",
        )
    name = _signal_name(code) or _WINDOWS_DEATHS.get(code)
    if name:
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


_WINDOWS_DEATHS = {
    0xC0000005: "ACCESS_VIOLATION",
    0xC0000017: "NO_MEMORY",
    0xC000001D: "ILLEGAL_INSTRUCTION",
    0xC0000135: "DLL_NOT_FOUND",
    0xC0000142: "DLL_INIT_FAILED",
    0xC00000FD: "STACK_OVERFLOW",
    0xC0000374: "HEAP_CORRUPTION",
    0xC0000409: "STACK_BUFFER_OVERRUN",
}
"""Exit statuses of processes that Windows ended."""


def _signal_name(code: int) -> str | None:
    """Return the name of the signal that an exit status of `subprocess` stands for; None where the process exited."""
    if code >= 0:
        return None
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


def system_oom_kills() -> int:
    """Return how many processes Linux has ended for memory since it started; 0 where it does not say."""
    path = Path("/proc/vmstat")
    if not path.exists():
        return 0
    line = next((line for line in path.read_text("ascii").splitlines() if line.startswith("oom_kill ")), "oom_kill 0")
    return int(line.split()[1])
