"""What the machine did between two moments: readings of the operating system's counters, and their differences.

Counters that the system does not have are None. Of the processors only those count that this process may use.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from types import FrameType

import msgspec
import psutil

from runner.machine.processor import affinity, control_groups
from runner.machine.resident_memory import status_bytes

__all__ = ["Between", "Reading", "between", "clock_hz", "counted_stops", "processors", "reading"]

_CPUS = Path("/sys/devices/system/cpu")
_SHORTEST_S = 0.3
"""The operating system counts in steps of 10 ms; over less than this a share of them would be noise."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The counters at one moment: seconds since the machine or the process began, events, bytes."""

    wall_s: float
    own_s: float
    busy_s: float
    steal_s: float | None
    waiting_s: float | None
    quota_s: float | None
    thermal_events: int | None
    swap_bytes: int | None
    swapped_bytes: int | None


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """What happened between two readings: wall and own CPU seconds, and shares as `domain.conditions` defines them."""

    wall_s: float
    own_s: float
    other_load: float | None
    waiting: float | None
    steal_share: float | None
    quota_share: float | None
    thermal_events: int | None


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    return affinity() or list(range(os.cpu_count() or 1))


def reading(ranks: Sequence[int] = ()) -> Reading:
    """Return the counters now; what the processes of those ids do is this one's own work."""
    allowed = set(processors())
    each = [times for number, times in enumerate(psutil.cpu_times(percpu=True)) if number in allowed]
    not_busy = ("idle", "iowait", "steal", "guest", "guest_nice")
    busy = sum(sum(times) - sum(getattr(times, name, 0.0) for name in not_busy) for times in each)
    steal = [times.steal for times in each if hasattr(times, "steal")]
    return Reading(
        wall_s=perf_counter(),
        own_s=process_time() + sum(_process_s(pid) for pid in ranks),
        busy_s=float(busy),
        steal_s=float(sum(steal)) if steal else None,
        waiting_s=_waiting_s(ranks),
        quota_s=_quota_s(),
        thermal_events=_thermal_events(),
        swap_bytes=_swap_bytes(),
        swapped_bytes=status_bytes("VmSwap"),
    )


def between(earlier: Reading, later: Reading) -> Between:
    """Return what happened from one reading to the next; shares of the machine's time are None below 0.3 s."""
    wall = max(later.wall_s - earlier.wall_s, 1e-9)
    own = later.own_s - earlier.own_s
    whole = wall * len(processors())
    long_enough = wall >= _SHORTEST_S
    steal, waiting, quota = (
        _difference(getattr(earlier, name), getattr(later, name)) for name in ("steal_s", "waiting_s", "quota_s")
    )
    thermal = _difference(earlier.thermal_events, later.thermal_events)
    return Between(
        wall_s=wall,
        own_s=own,
        other_load=_share((later.busy_s - earlier.busy_s - own) / whole) if long_enough else None,
        waiting=waiting / wall if waiting is not None else None,
        steal_share=_share(steal / whole) if steal is not None and long_enough else None,
        quota_share=_share(quota / wall) if quota is not None else None,
        thermal_events=int(thermal) if thermal is not None else None,
    )


def _difference(earlier: float | None, later: float | None) -> float | None:
    return None if earlier is None or later is None else max(0.0, later - earlier)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


@contextmanager
def counted_stops() -> Iterator[list[int]]:
    """Count how often this process is continued after a stop; the list has one entry for each.

    A signal can only be watched from the main thread; elsewhere, and on Windows, which has none, the list stays empty.
    """
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        seen.append(number)

    continued = getattr(signal, "SIGCONT", None)
    if continued is None or threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(continued, note)
    try:
        yield seen
    finally:
        signal.signal(continued, before)


def clock_hz() -> float | None:
    """Return the clock of the fastest core that this process may use, as cpufreq reports it now; None where it cannot."""
    texts = (_text(_CPUS / f"cpu{number}" / "cpufreq" / "scaling_cur_freq") for number in processors())
    return max((int(text) * 1e3 for text in texts if text and text.isdigit()), default=None)


def _process_s(pid: int) -> float:
    """Return the time of a process on processors; 0 of one that is gone, which whoever started it tells."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _waiting_s(ranks: Sequence[int]) -> float | None:
    """Return how long the threads of this process and of those were ready and waited for a processor (Linux: schedstat)."""
    folders = [folder for name in ("self", *ranks) if (folder := Path(f"/proc/{name}/task")).is_dir()]
    texts = [_text(task / "schedstat") for folder in folders for task in folder.iterdir()]
    waits = [int(text.split()[1]) for text in texts if text]
    return sum(waits) / 1e9 if waits else None


def _quota_s() -> float | None:
    result = []
    for folder in control_groups("cpu"):
        lines = (line.split() for line in (_text(folder / "cpu.stat") or "").splitlines())
        values = {words[0]: int(words[1]) for words in lines if len(words) == 2}
        if "throttled_usec" in values:
            result.append(values["throttled_usec"] / 1e6)
        elif "throttled_time" in values:
            result.append(values["throttled_time"] / 1e9)
    return max(result, default=None)


def _thermal_events() -> int | None:
    """Return how often the processor slowed itself down for heat since it started (Linux on Intel)."""
    texts = [_text(file) for file in _CPUS.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")]
    counts = [int(text) for text in texts if text and text.isdigit()]
    return sum(counts) if counts else None


def _swap_bytes() -> int | None:
    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError):
        return None


def _text(path: Path) -> str | None:
    """Return a small file's text, or None where it is absent, closed to us or gone since its folder was listed."""
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return None
