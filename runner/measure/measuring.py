"""Measuring: warm up until steady, then time call after call until the rule says enough, and watch the machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any

import msgspec

from domain.conditions import Conditions
from domain.payloads import Observed
from domain.performance.energy import Energy
from domain.statistics import median
from domain.verdicts import Circumstances
from runner.machine.devices.watching import Watching
from runner.machine.processor import threads_allowed
from runner.machine.resident_memory import resident_memory_bytes
from runner.measure.power.meter import Meter, Unread
from runner.measure.power.sampling import Sampling
from runner.measure.spinning import Spin, spin, timer_resolution_ms
from runner.measure.stopping import (
    LEAST_WINDOW,
    MAXIMUM_QUERIES,
    MAXIMUM_SAMPLES,
    Method,
    StopReason,
    is_steady,
    next_look,
    steady_window,
    stop_reason,
)
from runner.measure.system_counters import Between, Reading, between, clock_hz, counted_stops, reading

if TYPE_CHECKING:
    from runner.platforms.base import CallTimer

__all__ = ["Series", "circumstances_of", "measure", "served", "timed_ms"]

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


_MEMORY_EVERY_S = 0.25
_LEAST_WARMUP = 4
_LOOP_S = 0.05
_NO_METER = Unread("no meter was asked for.")


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


def circumstances_of(series: Mapping[str, Any], observed: Observed | None) -> Circumstances:
    """Return what the verdicts on a series (as a child reported it) rest on beside its samples."""
    conditions = msgspec.convert(series["conditions"], Conditions)
    return Circumstances(**msgspec.structs.asdict(conditions), observed=observed)


def measure(
    call: Callable[[], Any],
    synchronize: Callable[[], None],
    method: Method,
    *,
    meter: Meter | Unread = _NO_METER,
    idle: Energy | None = None,
    watching: Watching | None = None,
    arrivals: Iterator[float] | None = None,
    ranks: Sequence[int] = (),
    timer: CallTimer | None = None,
) -> Series:
    """Measure a call. The caller has run it once already.

    With `arrivals` (s from the start) each call is due at one of them, and timed from then (`runner.measure.measuring`).
    Its energy is what `meter` showed while the samples were taken; `idle` is what it showed at rest.
    `watching` looks at an accelerator meanwhile; `ranks` are processes that do a part of the work. With `timer` the
    calls are made and timed elsewhere, and `call` is not called.
    """
    synchronize()
    loop_before, clock_before = spin(_LOOP_S), clock_hz()
    with _no_collection(), counted_stops() as stops:
        start = reading(ranks)
        warmup, steady = timer.warm_up(method) if timer else _warm_up(call, synchronize, method)
        middle = reading(ranks)
        watching = watching or Watching(None)
        with Sampling(meter, idle=idle) as sampling, watching:
            if timer:
                samples, stopped_by, elapsed_s, memory = timer.series(method)
            elif arrivals is None:
                samples, stopped_by, elapsed_s, memory = _steady_part(call, synchronize, method)
            else:
                samples, stopped_by, elapsed_s, memory = served(call, synchronize, arrivals, method)
        end = reading(ranks)
    match = _Found(between(start, middle), between(middle, end), middle, end)
    conditions = msgspec.structs.replace(
        match.conditions(spin(_LOOP_S), loop_before),
        steady=steady,
        steady_after=len(warmup),
        steady_after_ms=sum(warmup),
        stopped_by=stopped_by,
        due=None if arrivals is None else "arrival",
        stops=len(stops),
        clock_before_hz=clock_before,
        clock_after_hz=clock_hz(),
        timer_resolution_ms=timer_resolution_ms(),
        energy=None if meter is _NO_METER else sampling.energy(),
        device=watching.conditions(),
    )
    if timer:
        conditions = msgspec.structs.replace(conditions, **timer.conditions())
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
    look = 1
    started = perf_counter()
    while len(times) < MAXIMUM_SAMPLES // 4:
        times.append(timed_ms(call, synchronize))
        over = perf_counter() - started >= method.warmup_s and len(times) >= _LEAST_WARMUP
        if len(times) < look and not over:
            continue
        look = next_look(len(times))
        if is_steady(times, steady_window(median(times[-LEAST_WINDOW:]), method)):
            return times, True
        if over:
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


class _Found(msgspec.Struct, frozen=True):
    """What the machine did while the process warmed up, and while the series was taken."""

    before: Between
    during: Between
    start: Reading
    end: Reading

    def conditions(self, loop_after: Spin, loop_before: Spin) -> Conditions:
        wall = sum(sum(loop.times_ms) for loop in (loop_before, loop_after))
        lost = sum(sum(loop.times_ms) * loop.lost_share for loop in (loop_before, loop_after))
        return Conditions(
            utilisation=self.during.own_s / (self.during.wall_s * threads_allowed()),
            other_load_before=self.before.other_load,
            other_load=self.during.other_load,
            waiting=self.during.waiting,
            steal_share=self.during.steal_share,
            quota_share=self.during.quota_share,
            speed_ratio=loop_before.fastest_ms / loop_after.fastest_ms,
            loop_lost_share=lost / wall,
            thermal_events=self.during.thermal_events,
            swap_before_bytes=self.start.swap_bytes,
            swap_after_bytes=self.end.swap_bytes,
            swapped_bytes=self.end.swapped_bytes,
        )
