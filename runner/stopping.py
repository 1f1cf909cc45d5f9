"""When a series is steady, and when it is long enough: pure rules on lists of times.

Steady: the medians of the last two windows differ by no more than 2 %, or by no more than the noise of the series
(its median absolute deviation), whichever is larger. The window is five samples; three or two where more would not fit in the budget of warm-up.
Enough: the 95 % interval of the median is within ±1 % of it after a tenth of the budget at least, or the iterations
asked for are there, or the budget is spent. A percentile that was asked for keeps the series going until the
samples support it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from domain.statistics import SAMPLES_NEEDED, median_interval

__all__ = [
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
STEADY_TOLERANCE = 0.02
INTERVAL_TARGET = 0.01

StopReason = Literal["interval", "iterations", "budget", "samples"]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure one configuration: `budget_s` is wall time of the steady part; warm-up has half as much."""

    budget_s: float = 5.0
    iterations: int | None = None
    percentile: str = "p50"
    interval_target: float = INTERVAL_TARGET

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
    fitting = (window for window in (5, 3) if 3 * window * call_ms <= method.warmup_s * 1e3)
    return next(fitting, 2)


def is_steady(times: Sequence[float], window: int = 5) -> bool:
    """Return whether the last `window` times have the same level as the `window` before them."""
    if len(times) < 2 * window:
        return False
    older, newer = times[-2 * window : -window], times[-window:]
    level = median(newer)
    noise = median(abs(value - level) for value in newer)
    return abs(median(older) - level) <= max(STEADY_TOLERANCE * level, noise)


def stop_reason(times: Sequence[float], elapsed_s: float, method: Method) -> StopReason | None:
    """Return why a steady series of times ends here, or None where it goes on; `elapsed_s` is its wall time."""
    if method.iterations is not None:
        return "iterations" if len(times) >= method.iterations else None
    if len(times) >= MAXIMUM_SAMPLES:
        return "samples"
    if len(times) < method.minimum_samples:
        # A call that takes seconds cannot give ten samples in the budget; three are the least that show a spread.
        overrun = elapsed_s >= method.budget_s and method.percentile == "p50" and len(times) >= 3
        return "budget" if overrun else None
    interval = median_interval(sorted(times))
    # A few lucky milliseconds are no steady state: what disturbs a machine comes and goes more slowly.
    if interval is not None and elapsed_s >= method.budget_s / 10:
        low, high = interval
        if high - low <= 2 * method.interval_target * median(times):
            return "interval"
    return "budget" if elapsed_s >= method.budget_s else None


def next_look(count: int) -> int:
    """Return the number of samples at which the rule is asked again; a tenth more, so that asking costs nothing."""
    return count + max(1, count // 10)
