"""The child process: reads one task from standard input, does it, and reports on its standard output. `python -m runner.protocol.child`."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from domain.errors import AssayError, PartMissing, PlatformUnavailable, UnsupportedPrecision, UnsupportedWorkload
from runner.campaign import discovery, execution
from runner.machine.devices.nvidia_facts import DEVICE_LOST, lost_reasons
from runner.machine.scrub import scrub
from runner.measure.prepared_case import load_code
from runner.protocol.tasks import (
    Calibrate,
    Case,
    Compress,
    Convert,
    Evaluate,
    Examine,
    Exhaust,
    Failed,
    Finished,
    Follow,
    Loaded,
    Measure,
    Message,
    Prepare,
    Reached,
    Serve,
    Survey,
    Task,
    Verify,
)

__all__ = ["Speaker", "classify", "connect", "main"]

_OUT_OF_MEMORY = re.compile(
    r"out of memory|out_of_(host|device|_)*memory|can't allocate memory|cannot allocate memory|not enough memory|bad_alloc"
    r"|failed to allocate|_status_alloc_failed|error_mem_alloc",
    re.I,
)
_UNSUPPORTED_NAMES = frozenset({"OpConversionFailure", "NotImplementedError", "NotImplementedFailure"})
_MEMORY_REMEDY = "Take a smaller batch, sequence or precision, or a machine with more memory."
_PR_SET_PDEATHSIG = 1


class Speaker:
    """Says what the child does, on the pipe that its parent reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.stage = "resolve"

    def reach(self, stage: str) -> None:
        """Announce that a stage begins."""
        self.stage = stage
        self.say(Reached(stage=stage))

    def say(self, message: Message) -> None:
        """Write one message as a line."""
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]


def classify(error: BaseException) -> tuple[str, str | None]:
    """Return the outcome that an exception means, and what to try."""
    if lost_reasons(str(error)):
        return "error", DEVICE_LOST
    if isinstance(error, AssayError):
        refused = isinstance(error, PlatformUnavailable | UnsupportedPrecision | UnsupportedWorkload | PartMissing)
        refused = refused or error.type == "not-enough-memory"
        return ("unsupported" if refused else "error"), error.remedy
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or _OUT_OF_MEMORY.search(str(error)):
        return "out_of_memory", _MEMORY_REMEDY
    if type(error).__name__ in _UNSUPPORTED_NAMES or "not implemented for" in str(error):
        return "unsupported", "Take another platform or precision; this one cannot run the model's operators."
    return "error", None


def main() -> int:
    """Do the task; 0 where it was done, 1 where it failed in an orderly way.

    With a case as the only argument, in JSON, its code is loaded before the task is read.
    """
    speaker, line = connect(_load)
    task = msgspec.json.decode(line, type=Task)
    try:
        speaker.say(Finished(result=_do(task, speaker)))
    except Exception as error:
        speaker.say(_failed(error, speaker.stage))
        return 1
    return 0


def _load(speaker: Speaker) -> None:
    if len(sys.argv) > 1:
        # What fails here fails in the task again, which says so with its stage.
        with suppress(Exception):
            load_code(msgspec.json.decode(sys.argv[1], type=Case))
        speaker.say(Loaded())


_RARE: dict[type[Any], tuple[str, str]] = {
    Evaluate: ("..quality.scoring", "evaluate_case"),
    Compress: ("..compression.making", "make_variant"),
    Examine: ("..selftest.checks", "examine"),
    Exhaust: ("..selftest.checks", "exhaust"),
    Serve: ("..serving.replica_process", "serve"),
}
"""Task → the module and function that do it, imported when they are asked for."""


def _failed(error: Exception, stage: str) -> Failed:
    """Return what an exception in a stage means."""
    outcome, remedy = classify(error)
    detail = error.detail if isinstance(error, AssayError) else str(error)
    return Failed(
        stage=stage,
        outcome=outcome,
        error=type(error).__name__.lstrip("_") or "Exception",
        message=scrub(detail or repr(error)),
        remedy=scrub(remedy) if remedy else None,
    )


def _do(task: Task, speaker: Speaker) -> Any:
    match task:
        case Survey():
            survey = discovery.survey(task)
            return survey if task.prepare is None else {**survey, "prepared": discovery.prepare(task.prepare, speaker)}
        case Prepare():
            return discovery.prepare(task, speaker)
        case Convert():
            return execution.convert(task, speaker)
        case Measure():
            return execution.measure_case(task, speaker)
        case Verify():
            return execution.verify_case(task, speaker)
        case Follow():
            return importlib.import_module(".supervision", __package__).follow_case(task.case, speaker)
        case Calibrate():
            return importlib.import_module("..calibration.measuring", __package__).calibrate(task, speaker, _failed)
        case _:
            module, function = _RARE[type(task)]
            return getattr(importlib.import_module(module, __package__), function)(task, speaker)


def connect(before: Callable[[Speaker], None] | None = None) -> tuple[Speaker, bytes]:
    """Take over the standard streams: return who speaks to the parent, and the line with the task.

    `before` is called before that line is read. What libraries print goes to standard error from now on, and programs that they start read nothing. This process ends
    with its parent: an orphan would disturb the next measurement.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    speaker = Speaker(os.dup(1))
    os.dup2(2, 1)
    if before:
        before(speaker)
    line = sys.stdin.buffer.readline()
    parent = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform != "linux":
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    return speaker, line


def _end_with(parent: int) -> None:
    """Wait for the end of what the parent writes, which comes when it is gone, and end this process."""
    while os.read(parent, 1):
        continue
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
