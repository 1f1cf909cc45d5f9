"""Processor time by who spent it: what shows whether two cores are the limit of a figure."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

__all__ = ["Meter", "peak_bytes"]

_TICK_S = 0.01


class Meter:
    """Adds up the processor seconds that groups of processes spend while `running`.

    A group is some processes with all their descendants; `client` is this process and the children that have ended.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Take the process ids of each group."""
        self._groups = groups
        self._seconds = dict.fromkeys(("client", *groups), 0.0)
        self._events = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what is spent in the block."""
        before = self._spent()
        yield
        after = self._spent()
        for name in self._seconds:
            self._seconds[name] += after[name] - before[name]

    def dealt_with(self, events: int) -> None:
        """Say how many events the blocks have dealt with."""
        self._events += events

    def document(self) -> dict[str, float]:
        """Return the µs that each group spent on an event, and the rate at which all cores would be full.

        The system counts in hundredths of a second: what took less stands as one.
        """
        found = {f"{name}_us": spent / max(1, self._events) * 1e6 for name, spent in self._seconds.items()}
        least = _TICK_S / max(1, self._events) * 1e6
        return {**found, "full_at_per_s": (psutil.cpu_count() or 1) * 1e6 / max(sum(found.values()), least)}

    def _spent(self) -> dict[str, float]:
        own = os.times()
        client = own.user + own.system + own.children_user + own.children_system
        return {"client": client, **{name: sum(map(_of, pids)) for name, pids in self._groups.items()}}


def peak_bytes() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Not `ru_maxrss`, which is at least what the parent had when it started this process.
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024.0
    # macOS counts it in bytes.
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _of(pid: int) -> float:
    """Return the seconds of a process and its descendants, those that have ended included."""
    process = psutil.Process(pid)
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(one.cpu_times()[:4])
    return total
