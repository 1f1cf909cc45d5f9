"""The load: so many requests under way at a time, or requests that come when they come, until the rule says enough.

Closed loop: only requests that begin while all streams are busy are measured, and the load is kept up until the last of
them is through; what is sent to keep it up is not counted. Open loop: each request is due at a moment fixed before, and
is measured from then, however late the client or the endpoint is.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from time import perf_counter_ns, process_time
from typing import cast

import msgspec

from domain.statistics import quantile
from runner.endpoint.driver import Driver
from runner.endpoint.exchange import Exchange
from runner.endpoint.faults import EndpointFault, gone
from runner.endpoint.link import StampedLoop
from runner.measure.stopping import Method, next_look, stop_reason

__all__ = ["Course", "Stop", "closed_loop", "late_ms", "open_loop"]

_IN_A_ROW = 5
_PAUSE_S = 0.1
_MOST_UNDER_WAY = 4096
_SPIN_NS = 1_500_000
_WARM_CALLS = 3


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """When it is enough: the rule of every series, and the least time and number of queries; `timeout_s` bounds all."""

    method: Method
    min_duration_s: float = 0.0
    min_queries: int = 0
    timeout_s: float = 600.0

    def reason(self, latencies_ms: list[float], elapsed_s: float, least: int) -> str | None:
        """Return why a closed loop ends here, or None where it goes on."""
        if elapsed_s >= self.timeout_s:
            return "timeout"
        if elapsed_s < self.min_duration_s or len(latencies_ms) < max(self.min_queries, least):
            return None
        return stop_reason(latencies_ms, elapsed_s, self.method)

    def least(self, streams: int) -> int:
        """Return the fewest requests of a closed loop: two of each stream, or as many as were asked for."""
        return self.method.iterations or 2 * streams

    def complete(self, due_s: float, count: int) -> bool:
        """Return whether the arrivals of an open loop are enough: so many, the last due so long after the start."""
        if self.method.iterations is not None:
            return count >= max(self.method.iterations, self.min_queries) and due_s >= self.min_duration_s
        long_enough = due_s >= max(self.method.budget_s, self.min_duration_s)
        return long_enough and count >= max(self.min_queries, self.method.minimum_samples)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What happened: the exchanges that are measured, in the order in which they ended or were due, and the client.

    `faults` are those of requests that would have been measured. `late_ms` is how long the client needs, at the 99th
    percentile of its time, before it looks at what came; `cpu_share` is the share of one core that it used. `stamped` says
    that the kernel stamped arrivals.
    """

    exchanges: list[Exchange]
    warmup_ms: list[float]
    faults: list[EndpointFault]
    elapsed_s: float
    stopped_by: str
    late_ms: float
    dispatch_late_ms: float | None
    cpu_share: float
    stamped: bool = False


class _Client:
    """What the client itself does from one moment to another."""

    def __init__(self) -> None:
        self._stamps = cast("StampedLoop", asyncio.get_running_loop()).stamps
        self.restart()

    def restart(self) -> None:
        del self._stamps.busy[:]
        self.began = perf_counter_ns()
        self._cpu = process_time()

    def elapsed_s(self) -> float:
        return (perf_counter_ns() - self.began) / 1e9

    def cpu_share(self) -> float:
        return (process_time() - self._cpu) / max(self.elapsed_s(), 1e-9)

    def late_ms(self) -> float:
        return late_ms(list(self._stamps.busy), self.elapsed_s())


def late_ms(busy_ns: list[int], elapsed_s: float) -> float:
    """Return how late the client looks, at the 99th percentile over time, in ms.

    `busy_ns` are the spells for which it worked without looking. What comes at any moment waits for the rest of the
    spell that it falls into, and not at all outside of one.
    """
    allowed, total = 0.01 * elapsed_s * 1e9, 0.0
    spells = sorted(busy_ns, reverse=True)
    for count, (spell, shorter) in enumerate(zip(spells, [*spells[1:], 0], strict=False), 1):
        total += spell
        late = (total - allowed) / count
        if late >= shorter:
            return late / 1e6
    return 0.0


class _Closed:
    """A closed loop under way."""

    def __init__(self, driver: Driver, streams: int, stop: Stop) -> None:
        self._driver = driver
        self._streams = streams
        self._stop = stop
        self._client = _Client()
        self._cold = streams
        self._awaited = 0
        self._in_a_row = 0
        self._look = 1
        self._over = asyncio.Event()
        self._broken: EndpointFault | None = None
        self._stopped_by: str | None = None
        self._began_s = perf_counter_ns() / 1e9
        self.done: list[Exchange] = []
        self.warmup: list[float] = []
        self.faults: list[EndpointFault] = []

    async def run(self) -> Course:
        tasks = [asyncio.create_task(self._work()) for _ in range(self._streams)]
        try:
            async with asyncio.timeout(self._stop.timeout_s):
                await self._over.wait()
        except TimeoutError:
            self._stopped_by = "timeout"
        finally:
            elapsed, late, cpu = self._client.elapsed_s(), self._client.late_ms(), self._client.cpu_share()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._broken:
            raise self._broken
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return Course(
            exchanges=self.done,
            warmup_ms=self.warmup,
            faults=self.faults,
            elapsed_s=elapsed,
            stopped_by=self._stopped_by or "budget",
            late_ms=late,
            dispatch_late_ms=None,
            cpu_share=cpu,
            stamped=self._driver.stamped,
        )

    async def _work(self) -> None:
        try:
            warm = False
            while not self._over.is_set():
                counts = self._cold == 0 and self._stopped_by is None
                self._awaited += counts
                exchange = await self._driver.once()
                self._awaited -= counts
                if exchange.fault is not None:
                    await self._failed(cast("EndpointFault", exchange.fault), counts=counts)
                    continue
                self._in_a_row = 0
                if counts:
                    self._keep(exchange)
                elif self._cold:
                    self.warmup.append(exchange.latency_ms)
                    if not warm:
                        warm = True
                        self._warmed()
        except BaseException:
            self._over.set()
            raise

    def _warmed(self) -> None:
        self._cold -= 1
        if self._cold == 0:
            self._client.restart()

    def _keep(self, exchange: Exchange) -> None:
        self.done.append(exchange)
        self._ask_the_rule()
        if self._stopped_by is not None and self._awaited == 0:
            self._over.set()

    def _ask_the_rule(self) -> None:
        elapsed = self._client.elapsed_s()
        if self._stopped_by is not None or (len(self.done) < self._look and elapsed < self._stop.method.budget_s):
            return
        times = [each.latency_ms for each in self.done]
        self._stopped_by = self._stop.reason(times, elapsed, self._stop.least(self._streams))
        self._look = next_look(len(times))

    async def _failed(self, fault: EndpointFault, *, counts: bool) -> None:
        self._in_a_row += 1
        if counts:
            self.faults.append(fault)
        if fault.final or self._in_a_row >= max(_IN_A_ROW, self._streams):
            self._broken = fault if fault.final else gone(self._in_a_row, fault)
            self._over.set()
        elif self._stopped_by is not None and self._awaited == 0:
            self._over.set()
        else:
            await asyncio.sleep(_PAUSE_S)


async def closed_loop(driver: Driver, streams: int, stop: Stop) -> Course:
    """Keep so many requests under way and return what happened; raises EndpointFault where the endpoint went away."""
    with _no_collection():
        return await _Closed(driver, streams, stop).run()


async def open_loop(driver: Driver, arrivals: Iterator[float], stop: Stop, *, at_once: int | None = None) -> Course:
    """Send requests when they are due (s from the start) and return what happened; raises EndpointFault.

    `at_once` bounds how many are under way, which offline needs: there all are due at the start.
    """
    with _no_collection():
        return await _Open(driver, stop, at_once).run(arrivals)


class _Open:
    """An open loop under way."""

    def __init__(self, driver: Driver, stop: Stop, at_once: int | None) -> None:
        self._driver = driver
        self._stop = stop
        self._gate = asyncio.Semaphore(at_once or _MOST_UNDER_WAY)
        self._bounded = at_once is not None
        self._in_a_row = 0
        self._broken: EndpointFault | None = None

    async def run(self, arrivals: Iterator[float]) -> Course:
        warmup = [await self._warm() for _ in range(_WARM_CALLS)]
        client = _Client()
        tasks: list[asyncio.Task[Exchange]] = []
        stopped_by = "iterations" if self._stop.method.iterations else "budget"
        try:
            async with asyncio.timeout(self._stop.timeout_s):
                for due_s in arrivals:
                    if self._broken or self._stop.complete(due_s, len(tasks)):
                        break
                    await self._send(client.began + int(due_s * 1e9), tasks)
                await asyncio.gather(*tasks)
        except TimeoutError:
            stopped_by = "timeout"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._broken:
            raise self._broken
        ended = [task.result() for task in tasks if not task.cancelled()]
        good = [each for each in ended if each.fault is None]
        lags = sorted((each.sent - each.arrived) / 1e6 for each in good)
        return Course(
            exchanges=good,
            warmup_ms=warmup,
            faults=[cast("EndpointFault", each.fault) for each in ended if each.fault is not None],
            elapsed_s=(max((each.ended for each in good), default=client.began) - client.began) / 1e9,
            stopped_by=stopped_by,
            late_ms=client.late_ms(),
            dispatch_late_ms=None if self._bounded or not lags else quantile(lags, 0.99),
            cpu_share=client.cpu_share(),
            stamped=self._driver.stamped,
        )

    async def _warm(self) -> float:
        exchange = await self._driver.once()
        if exchange.fault is not None:
            raise exchange.fault
        return exchange.latency_ms

    async def _send(self, due: int, tasks: list[asyncio.Task[Exchange]]) -> None:
        request = self._driver.ready()
        await _until(due)
        if self._bounded:
            await self._gate.acquire()
        elif self._gate.locked():
            self._broken = EndpointFault(
                "Overloaded",
                f"{_MOST_UNDER_WAY} requests are under way and none is left.",
                "The endpoint cannot keep up with this rate: ask for fewer a second.",
            )
            return
        else:
            await self._gate.acquire()
        tasks.append(asyncio.create_task(self._one(due, request)))

    async def _one(self, due: int, request: bytes) -> Exchange:
        try:
            exchange = await self._driver.once(due, request)
        finally:
            self._gate.release()
        fault = cast("EndpointFault | None", exchange.fault)
        self._in_a_row = self._in_a_row + 1 if fault else 0
        if fault and (fault.final or self._in_a_row >= _IN_A_ROW):
            self._broken = fault if fault.final else gone(self._in_a_row, fault)
        return exchange


async def _until(moment: int) -> None:
    """Wait until a reading of the clock; the end of it by asking, because sleeps are as coarse as a millisecond."""
    while (left := moment - perf_counter_ns()) > 0:
        await asyncio.sleep((left - _SPIN_NS) / 1e9 if left > 2 * _SPIN_NS else 0)


class _no_collection:  # noqa: N801
    """Keeps the garbage collector out of the times."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
