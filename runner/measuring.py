"""Measuring: warm up until steady, then time call after call until the rule says enough."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns, process_time
from typing import Any

import msgspec

from runner.memory import resident_memory_bytes
from runner.processor import threads_allowed
from runner.stopping import MAXIMUM_SAMPLES, Method, StopReason, is_steady, next_look, steady_window, stop_reason

__all__ = ["Conditions", "Series", "measure", "timed_ms"]

_MEMORY_EVERY_S = 0.25
_LEAST_WARMUP = 4
_SHORTEST_WATCH_S = 0.3


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine was like: shares of its cores (0–1); swap of the whole machine in bytes, before and after."""

    utilisation: float | None = None
    """CPU time of this process over wall time × the processors that it may use."""
    other_load: float | None = None
    """Busy time of everything else over wall time × all processors."""
    swap_before_bytes: int | None = None
    swap_after_bytes: int | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one configuration, in ms, in order. `steady` is false where warm-up's budget ended first."""

    samples_ms: list[float]
    warmup_ms: list[float]
    steady: bool
    stopped_by: StopReason
    elapsed_ms: float
    mean_memory_bytes: int | None
    conditions: Conditions


def timed_ms(call: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    """Return the time of one synchronized call in ms."""
    started = perf_counter_ns()
    call()
    synchronize()
    return (perf_counter_ns() - started) / 1e6


def measure(call: Callable[[], Any], synchronize: Callable[[], None], method: Method) -> Series:
    """Measure a call. The caller has run it once already."""
    synchronize()
    with _no_collection():
        warmup, steady = _warm_up(call, synchronize, method)
        watch = _Watch()
        samples, stopped_by, elapsed_s, memory = _steady_part(call, synchronize, method)
        conditions = watch.conditions()
    return Series(
        samples_ms=samples,
        warmup_ms=warmup,
        steady=steady,
        stopped_by=stopped_by,
        elapsed_ms=elapsed_s * 1e3,
        mean_memory_bytes=sum(memory) // len(memory) if memory else None,
        conditions=conditions,
    )


def _warm_up(call: Callable[[], Any], synchronize: Callable[[], None], method: Method) -> tuple[list[float], bool]:
    times: list[float] = []
    started = perf_counter()
    while len(times) < MAXIMUM_SAMPLES // 4:
        times.append(timed_ms(call, synchronize))
        if is_steady(times, steady_window(times[-1], method)):
            return times, True
        if perf_counter() - started >= method.warmup_s and len(times) >= _LEAST_WARMUP:
            return times, False
    return times, False


def _steady_part(
    call: Callable[[], Any], synchronize: Callable[[], None], method: Method
) -> tuple[list[float], StopReason, float, list[int]]:
    times: list[float] = []
    memory: list[int] = [resident_memory_bytes()]
    look = 1
    started = remembered = perf_counter()
    while True:
        times.append(timed_ms(call, synchronize))
        now = perf_counter()
        if now - remembered >= _MEMORY_EVERY_S:
            memory.append(resident_memory_bytes())
            remembered = perf_counter()
        if len(times) < look and now - started < method.budget_s:
            continue
        reason = stop_reason(times, now - started, method)
        if reason is not None:
            return times, reason, now - started, memory
        look = min(next_look(len(times)), method.iterations or MAXIMUM_SAMPLES)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the times: collect before, off during, as it was after."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Watch:
    """Sees what else the machine did while a series was taken."""

    def __init__(self) -> None:
        self._wall = perf_counter()
        self._own = process_time()
        self._busy = _machine_busy_s()
        self._swap = _swap_bytes()

    def conditions(self) -> Conditions:
        """Return the shares since the watch was made."""
        wall = max(perf_counter() - self._wall, 1e-9)
        own = process_time() - self._own
        busy = _machine_busy_s()
        other = None
        # The operating system counts in steps of 10 ms; over less than this the share would be noise.
        if busy is not None and self._busy is not None and wall >= _SHORTEST_WATCH_S:
            other = max(0.0, (busy - self._busy - own) / (wall * (os.cpu_count() or 1)))
        return Conditions(
            utilisation=own / (wall * threads_allowed()),
            other_load=other,
            swap_before_bytes=self._swap,
            swap_after_bytes=_swap_bytes(),
        )


def _machine_busy_s() -> float | None:
    import psutil

    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def _swap_bytes() -> int | None:
    import psutil

    try:
        return int(psutil.swap_memory().used)
    except (OSError, RuntimeError):
        return None
