"""What a run costs: the seconds from the start of its process to its event."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Costs", "run_seconds"]

START_S = 5.0
"""Starting a process, its imports and its checks; the median beside preparing and measuring of 189 runs was 4.7 to 6.4."""
CALLS = 8.0
"""First run, warm-up and samples of a call that is too long for the budget: 1 + 4 + 3."""
PREPARE_S = 3.0
"""Loading, converting and compiling where a platform has measured nothing yet."""
BUDGET_S = 5.0
_STAGES = ("load_ms", "convert_ms", "compile_ms")


def run_seconds(latency_s: float, *, prepare_s: float = PREPARE_S, budget_s: float = BUDGET_S) -> float:
    """Return what one configuration takes: `latency_s` of one call, `budget_s` of steady measuring."""
    return START_S + prepare_s + max(budget_s, CALLS * latency_s)


class Costs:
    """Expected seconds of runs, from what earlier runs of the platform took to prepare."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], budget_s: float = BUDGET_S) -> None:
        """Take rows of the view `measurements`; imported ones tell of no run of ours."""
        self._budget_s = budget_s
        seen: dict[str, list[float]] = {}
        for row in rows:
            stages = [row[name] for name in _STAGES if row.get(name) is not None]
            if row["origin"] == "measured" and stages:
                seen.setdefault(row["platform"], []).append(sum(stages) / 1e3)
        self._prepare_s = {platform: statistics.median(value) for platform, value in seen.items()}

    def seconds(self, platform: str, latency_ms: float | None) -> float:
        """Return the seconds of one run; where no latency is known, of one that fits the budget."""
        prepare_s = self._prepare_s.get(platform, PREPARE_S)
        return run_seconds((latency_ms or 0.0) / 1e3, prepare_s=prepare_s, budget_s=self._budget_s)
