"""Calls that are due when they are due: one after the other, each timed from the moment at which it should have begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter_ns, sleep
from typing import Any

from runner.machine.resident_memory import resident_memory_bytes
from runner.measure.stopping import MAXIMUM_QUERIES, Method, StopReason

__all__ = ["served"]

_SPIN_NS = 300_000
"""Sleeps end up to a tenth of a millisecond late; the last of a wait is spent asking the clock."""
_MEMORY_NS = 250_000_000


def served(
    call: Callable[[], Any], synchronize: Callable[[], None], arrivals: Iterator[float], method: Method
) -> tuple[list[float], StopReason, float, list[int]]:
    """Return the times in ms from arrival (s from the start) to end, why it ended, its wall time in s, and memory in bytes.

    It ends with the last call that was due before budget and least duration were over and of which there are enough;
    a queue that grows beyond that time is worked off, because leaving it would leave out the longest waits.
    """
    times: list[float] = []
    memory = [resident_memory_bytes()]
    began = remembered = perf_counter_ns()
    reason: StopReason = "samples"
    for due_s in arrivals:
        if len(times) >= MAXIMUM_QUERIES:
            break
        if _enough(method, due_s, len(times)):
            reason = "iterations" if method.iterations is not None else "budget"
            break
        due = began + int(due_s * 1e9)
        _wait(due)
        call()
        synchronize()
        now = perf_counter_ns()
        times.append((now - due) / 1e6)
        if now - remembered >= _MEMORY_NS:
            memory.append(resident_memory_bytes())
            remembered = perf_counter_ns()
    return times, reason, (perf_counter_ns() - began) / 1e9, memory


def _enough(method: Method, due_s: float, count: int) -> bool:
    if method.iterations is not None:
        return count >= max(method.iterations, method.min_queries) and due_s >= method.min_duration_s
    least = max(method.minimum_samples, method.min_queries)
    return count >= least and due_s >= max(method.budget_s, method.min_duration_s)


def _wait(moment: int) -> None:
    while (left := moment - perf_counter_ns()) > 0:
        if left > _SPIN_NS:
            sleep((left - _SPIN_NS) / 1e9)
