"""A loop of fixed work on one processor: how fast it runs, and how much of its time it had no processor."""

from __future__ import annotations

from itertools import pairwise
from time import get_clock_info, perf_counter, perf_counter_ns, thread_time

import msgspec

__all__ = ["Spin", "spin", "timer_resolution_ms"]

_ROUNDS = 40_000
"""About a millisecond of one core: short enough that most repetitions pass between two interruptions."""
_READINGS = 200


class Spin(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the loop's repetitions in ms, in order, and the share of the wall time without a processor."""

    times_ms: list[float]
    lost_share: float

    @property
    def fastest_ms(self) -> float:
        """The time of the fastest repetition: what else runs on the machine only ever slows one down."""
        return min(self.times_ms)


def spin(seconds: float) -> Spin:
    """Repeat the loop for that long, once at least. The lost share is from this thread's own CPU time."""
    times: list[float] = []
    on_processor, began = thread_time(), perf_counter()
    while not times or perf_counter() - began < seconds:
        started = perf_counter_ns()
        _work()
        times.append((perf_counter_ns() - started) / 1e6)
    wall, busy = perf_counter() - began, thread_time() - on_processor
    return Spin(times_ms=times, lost_share=min(1.0, max(0.0, 1 - busy / wall)))


def _work() -> int:
    total = 0
    for value in range(_ROUNDS):
        total += value
    return total


def timer_resolution_ms() -> float:
    """Return the least time that two readings of the clock can tell apart, in ms: its step, or what a reading costs."""
    readings = [perf_counter_ns() for _ in range(_READINGS)]
    steps = [later - earlier for earlier, later in pairwise(readings) if later > earlier]
    return max(get_clock_info("perf_counter").resolution * 1e3, min(steps, default=0) / 1e6)
