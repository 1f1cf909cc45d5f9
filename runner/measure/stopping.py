"""When a series is steady, and when it is long enough: pure rules on lists of times.

Steady: the medians of the last two windows differ by no more than 2 %, or by no more than the noise of the series
(its median absolute deviation), whichever is larger. After Georges, Buytaert and Eeckhout (2007), who take the first
window of calls whose coefficient of variation is at most 2 %; medians, because one interrupted call would spoil a
coefficient of variation for as long as it is in the window. A window has five calls and 50 ms at least; three or two
calls where more would not fit in the budget of warm-up.
Enough: the 95 % interval of the median, widened for calls that depend on each other, is within ±1 % of it at two looks
in a row, after a tenth of the budget at least; or the iterations asked for are there, or the budget is spent. A
percentile that was asked for keeps the series going until the samples support it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Literal

import msgspec

from domain.statistics import DEPENDENCE_SAMPLES, SAMPLES_NEEDED, series_interval

__all__ = [
    "LEAST_WINDOW",
    "MAXIMUM_QUERIES",
    "MAXIMUM_SAMPLES",
    "PERCENTILE_SAMPLES",
    "Method",
    "StopReason",
    "is_steady",
    "next_look",
    "steady_window",
    "stop_reason",
]

PERCENTILE_SAMPLES = {"p50": 10, **SAMPLES_NEEDED}
"""The least samples of a series by the percentile asked for; for the median, enough to see a spread."""
MAXIMUM_SAMPLES = 8000
"""What one samples event can hold."""
MAXIMUM_QUERIES = 500_000
"""What is timed where a least duration or number of queries is asked for; the event then holds the last of them."""
STEADY_TOLERANCE = 0.02
INTERVAL_TARGET = 0.01
LEAST_WINDOW = 5
LONGEST_WINDOW = 500
WINDOW_MS = 50.0
"""Clocks and caches settle in tens of milliseconds, whatever one call takes."""

StopReason = Literal["interval", "iterations", "budget", "samples"]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure one configuration: `budget_s` is wall time of the steady part; warm-up has half as much.

    `min_duration_s` and `min_queries` are the least that a scenario asks for, `target_latency_ms` bounds its percentile.
    """

    budget_s: float = 5.0
    iterations: int | None = None
    percentile: str = "p50"
    interval_target: float = INTERVAL_TARGET
    min_duration_s: float = 0.0
    min_queries: int = 0
    target_latency_ms: float | None = None

    @property
    def minimum_samples(self) -> int:
        """The samples that the percentile asked for needs."""
        return PERCENTILE_SAMPLES[self.percentile]

    @property
    def warmup_s(self) -> float:
        """Wall time that warm-up may take, in s."""
        return self.budget_s / 2


def steady_window(call_ms: float, method: Method) -> int:
    """Return the window with which a series of calls that long can be found steady in the time for warm-up."""
    allowed_ms = method.warmup_s * 1e3
    if 3 * LEAST_WINDOW * call_ms <= allowed_ms:
        wanted = ceil(min(WINDOW_MS, allowed_ms / 4) / max(call_ms, 1e-6))
        return min(max(wanted, LEAST_WINDOW), LONGEST_WINDOW)
    return 3 if 9 * call_ms <= allowed_ms else 2


def is_steady(times: Sequence[float], window: int = LEAST_WINDOW) -> bool:
    """Return whether the last `window` times have the same level as the `window` before them."""
    if len(times) < 2 * window:
        return False
    older, newer = times[-2 * window : -window], times[-window:]
    level = median(newer)
    noise = median(abs(value - level) for value in newer)
    return abs(median(older) - level) <= max(STEADY_TOLERANCE * level, noise)


def stop_reason(times: Sequence[float], elapsed_s: float, method: Method) -> StopReason | None:
    """Return why a steady series of times ends here, or None where it goes on; `elapsed_s` is its wall time."""
    if elapsed_s < method.min_duration_s or len(times) < method.min_queries:
        return "samples" if len(times) >= MAXIMUM_QUERIES else None
    if method.iterations is not None:
        return "iterations" if len(times) >= method.iterations else None
    if len(times) >= MAXIMUM_SAMPLES:
        return "samples"
    if len(times) < method.minimum_samples:
        # A call that takes seconds cannot give ten samples in the budget; three are the least that show a spread.
        overrun = elapsed_s >= method.budget_s and method.percentile == "p50" and len(times) >= 3
        return "budget" if overrun else None
    # A few lucky milliseconds are no steady state: what disturbs a machine comes and goes more slowly.
    if elapsed_s >= method.budget_s / 10 and _narrow(times, method):
        return "interval"
    return "budget" if elapsed_s >= method.budget_s else None


def _narrow(times: Sequence[float], method: Method) -> bool:
    """Return whether the interval is within the target now and was at the last look: one look may be lucky."""
    return _within(times, method) and _within(times[: len(times) - len(times) // 11], method)


def _within(times: Sequence[float], method: Method) -> bool:
    if len(times) < DEPENDENCE_SAMPLES:
        return False
    interval = series_interval(times)
    return interval is not None and interval[1] - interval[0] <= 2 * method.interval_target * median(times)


def next_look(count: int) -> int:
    """Return the number of samples at which the rule is asked again; a tenth more, so that asking costs nothing."""
    return count + max(1, count // 10)
