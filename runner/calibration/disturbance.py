"""Whether other work on the machine decided a kernel's time, so that it says nothing of the device."""

from __future__ import annotations

from collections.abc import Sequence

from domain.conditions import Conditions
from domain.statistics import median

__all__ = ["REASON", "disturbed"]

SPREAD = 1.5
"""A median so many times the least time is of the work beside it, where there was some."""
SLICE_MS = 3.0
"""Where the process has to share its processors, a call of theirs that takes longer is interrupted every time."""
LOOP_LOST, WAITING, OTHER_LOAD = 0.2, 0.5, 0.2
"""From these on it shares them: the share of a fixed loop's time that it had none, its threads that waited for one on
average; and from the last on other work may have disturbed it: the share of the processors that it kept busy."""
REASON = (
    f"other work had the processors: the median is {SPREAD:g} times the least time or more, or longer than the {SLICE_MS:g} ms "
    "between two interruptions"
)


def disturbed(samples_ms: Sequence[float], conditions: Conditions, kind: str | None) -> bool:
    """Return whether a series on a device of this kind is of other work; long calls are only where a processor makes them."""
    shared = (conditions.loop_lost_share or 0.0) > LOOP_LOST or (conditions.waiting or 0.0) > WAITING
    busy = shared or (conditions.other_load or 0.0) > OTHER_LOAD
    middle = median(samples_ms)
    return (busy and middle > SPREAD * min(samples_ms)) or (shared and kind == "cpu" and middle > SLICE_MS)
