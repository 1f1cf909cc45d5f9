"""Promise against delivery: whether a served model is as fast as its recommendation said, window by window.

The promise is about the model's own calls at one workload. Requests wait, are joined into larger batches, and share the
machine with others, so only calls of the promised batch that ran alone are compared with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import psutil

from domain.configuration import Execution, Hardware, Model, Workload
from domain.endpoints.events import DeliveryObserved, Promise
from domain.statistics import dependence, latency_summary, median, quantile_interval
from runner.campaign.event_payloads import provenance

__all__ = ["FEWEST_CALLS", "Delivery", "Judgement", "RunningCalls", "Served", "judge"]

FEWEST_CALLS = 100
"""Fewer calls of the promised workload in a window decide nothing."""
FEWEST_INDEPENDENT = 25
"""So many independent calls the series must be worth: where calls depend on each other more, the window is too short."""
WINDOW_S = 300.0
_KEPT_CALLS = 8192
_BUSY = 0.75
"""Processes that want to run, for each processor, from which on a machine is called busy."""
Verdict = Literal["kept", "broken", "undecided"]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and under which promise; `workload` is that of the promise."""

    endpoint: str
    server: str
    model: Model
    workload: Workload
    execution: Execution
    hardware: Hardware
    promise: Promise | None = None


def judge(
    promise: Promise, calls: list[float], *, other: int = 0, shared: int = 0, load: float | None = None
) -> Judgement:
    """Return whether the median of calls of the promised workload (ms, in the order made) keeps a promise.

    Kept: its 95 % interval, widened by how much calls depend on each other, ends at or below the promised upper bound.
    Broken: it begins above. Undecided: too few calls, or the bound lies within the interval. `other` calls had another
    batch or length, `shared` ones ran beside others; `load` is the number of processes that want to run for each processor.
    """
    dependent = dependence(calls) if calls else 1.0
    worth = len(calls) / dependent
    interval = quantile_interval(sorted(calls), 0.5, dependent)
    if len(calls) < FEWEST_CALLS or worth < FEWEST_INDEPENDENT or interval is None:
        return Judgement(verdict="undecided", reason=_too_few(len(calls), worth, other, shared))
    low, high = interval
    said = f"p50 {median(calls):.3g} ms [{low:.3g}–{high:.3g}], promised {promise.latency_ms:.3g} ms"
    said += f" [{promise.low:.3g}–{promise.high:.3g}]"
    if low > promise.high:
        busy = f", while the machine was busy ({load:.1f} processes for each processor)" if (load or 0) > _BUSY else ""
        return Judgement(verdict="broken", reason=f"Slower than promised{busy}: {said}.")
    if high <= promise.high:
        how = "Faster than promised" if high < promise.low else "As promised"
        return Judgement(verdict="kept", reason=f"{how}: {said}.")
    return Judgement(verdict="undecided", reason=f"The promised bound lies within what was measured: {said}.")


def _too_few(calls: int, worth: float, other: int, shared: int) -> str:
    if calls >= FEWEST_CALLS:
        return f"Too few: {calls} calls depend on each other so much that they are worth {worth:.0f}, not {FEWEST_INDEPENDENT}."
    if other > max(shared, calls):
        return f"Other batch: {other} calls had another batch or length than promised, {calls} had it; {FEWEST_CALLS} decide."
    if shared > calls:
        return f"Load: {shared} calls ran beside others, {calls} alone as promised; {FEWEST_CALLS} decide."
    return f"Too few: {calls} calls of the promised workload, {FEWEST_CALLS} decide."


class _Series:
    """Times in the order they came; when there are too many, every second one is dropped and every second one is taken."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._seen = 0
        self._stride = 1

    def add(self, value: float) -> None:
        if self._seen % self._stride == 0:
            self.values.append(value)
            if len(self.values) >= _KEPT_CALLS:
                self.values = self.values[::2]
                self._stride *= 2
        self._seen += 1


class _Window:
    def __init__(self, since: datetime) -> None:
        self.since = since
        self.calls, self.requests = _Series(), _Series()
        self.requested = self.failed = self.items = self.other = self.shared = 0

    def snapshot(self) -> _Window:
        same = copy(self)
        same.calls, same.requests = copy(self.calls), copy(self.requests)
        same.calls.values, same.requests.values = list(self.calls.values), list(self.requests.values)
        return same


class RunningCalls:
    """Counts the calls that run on a machine, and says of each whether it ran alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = self._begun = 0

    def begin(self) -> int | None:
        """Take note of a call that begins; return what `end` needs, None where another one runs already."""
        with self._lock:
            self._running += 1
            self._begun += 1
            return self._begun if self._running == 1 else None

    def end(self, begun: int | None) -> bool:
        """Take note that a call has ended; return whether no other one ran beside it."""
        with self._lock:
            self._running -= 1
            return begun == self._begun


class Delivery:
    """Collects what one endpoint delivers, and hands one `DeliveryObserved` to `on_window` for each window with requests.

    Any thread may call it. A window ends with the first `roll` after `window_s`; `close` ends the last one.
    """

    def __init__(
        self,
        served: Served,
        on_window: Callable[[DeliveryObserved], None],
        *,
        window_s: float = WINDOW_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._served, self._on_window, self._now = served, on_window, now
        self._length = timedelta(seconds=window_s)
        # Held for a few list operations only: the verdict is computed outside.
        self._lock = threading.Lock()
        self._window = _Window(now())
        self._last: DeliveryObserved | None = None

    def called(self, latency_ms: float, batch_size: int, *, length: int | None = None, alone: bool = True) -> None:
        """Record one call of the model: its items, and how many tokens each has where that is free.

        `alone` says that no other call of this machine's endpoints ran beside it.
        """
        expected = self._served.workload.sequence_length or length
        promised = self._served.workload.batch_size or 1
        with self._lock:
            window = self._window
            window.items += batch_size
            if batch_size != promised or length not in (None, expected):
                window.other += 1
            elif not alone:
                window.shared += 1
            else:
                window.calls.add(latency_ms)

    def answered(self, request_ms: float) -> None:
        """Record one request that was answered, with its waiting."""
        with self._lock:
            self._window.requested += 1
            self._window.requests.add(request_ms)

    def failed(self) -> None:
        """Record one request that was not answered."""
        with self._lock:
            self._window.requested += 1
            self._window.failed += 1

    def roll(self) -> None:
        """End the window if it is over; call it every few seconds, so that a quiet endpoint reports too."""
        now = self._now()
        with self._lock:
            if now - self._window.since < self._length:
                return
            ended, self._window = self._window, _Window(now)
        self._tell(ended, now)

    def close(self) -> None:
        """End the last window, when the endpoint is removed or goes to another platform."""
        now = self._now()
        with self._lock:
            ended, self._window = self._window, _Window(now)
        self._tell(ended, now)

    def so_far(self) -> DeliveryObserved | None:
        """Return what the window that runs has so far; the last one where it has no request, None without any."""
        with self._lock:
            window = self._window.snapshot()
        return self._observed(window, self._now()) or self._last

    def _tell(self, window: _Window, until: datetime) -> None:
        if observed := self._observed(window, until):
            self._last = observed
            self._on_window(observed)

    def _observed(self, window: _Window, until: datetime) -> DeliveryObserved | None:
        if not window.requested:
            return None
        served, calls = self._served, window.calls.values
        if served.promise is None:
            judgement = Judgement(verdict="undecided", reason="Nothing was promised for this endpoint.")
        else:
            judgement = judge(served.promise, calls, other=window.other, shared=window.shared, load=_load())
        seconds = (until - window.since).total_seconds()
        return DeliveryObserved(
            endpoint=served.endpoint,
            server=served.server,
            model=served.model,
            workload=served.workload,
            execution=served.execution,
            hardware=served.hardware,
            since=window.since,
            until=until,
            requests=window.requested,
            failures=window.failed,
            verdict=judgement.verdict,
            latency_ms=latency_summary(calls) if calls else None,
            request_ms=latency_summary(window.requests.values) if window.requests.values else None,
            throughput_per_s=window.items / seconds if seconds > 0 else None,
            promise=served.promise,
            reason=judgement.reason,
            provenance=provenance(),
        )


def _load() -> float | None:
    try:
        return float(psutil.getloadavg()[0]) / (psutil.cpu_count() or 1)
    except (AttributeError, OSError):
        return None
