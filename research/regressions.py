"""How often `assay regressions` alarms where nothing changed, and where something did: `python -m research.regressions`.

Answer: in 0 to 0.4 % of pairs where calls vary by 5 % and runs do not differ; a slowdown of 20 % is seen in 99 to 100 %
(docs/regressions.md).

Series of calls are drawn from laws of noise, summarised as a runner does, and compared as the verb does. Nothing is timed.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from domain.comparison.regression import judged
from domain.figures import Figure
from domain.statistics import latency_summary

__all__ = ["LAWS", "Law", "alarms"]

COLUMN = "latency_p50_ms"
CALLS = 60
ALERTS = (0.1, 0.02)
CHANGES = (0.0, 0.05, 0.2, 0.5)
Draw = Callable[[random.Random, int], list[float]]


class Law(NamedTuple):
    """How calls of a run vary, by how much runs differ (deviation of the logarithm), and how many runs came before."""

    name: str
    draw: Draw
    between_runs: float = 0.0
    earlier: int = 0


def _independent(source: random.Random, n: int) -> list[float]:
    return [math.exp(source.gauss(0, 0.05)) for _ in range(n)]


def _interrupted(source: random.Random, n: int) -> list[float]:
    """One call in twenty takes twice as long."""
    return [value * (2 if source.random() < 0.05 else 1) for value in _independent(source, n)]


def _dependent(source: random.Random, n: int) -> list[float]:
    """Each call is disturbed by nine tenths of what disturbed the one before."""
    found, state = [], source.gauss(0, 0.05)
    for _ in range(n):
        state = 0.9 * state + source.gauss(0, 0.05 * math.sqrt(1 - 0.81))
        found.append(math.exp(state))
    return found


LAWS = (
    Law("calls vary by 5 %, independent", _independent),
    Law("the same, one in twenty takes twice as long", _interrupted),
    Law("calls vary by 5 %, each like the one before", _dependent),
    Law("runs differ by 3 %", _independent, 0.03),
    Law("runs differ by 5 %", _independent, 0.05),
    Law("runs differ by 5 %, five runs known", _independent, 0.05, 4),
    Law("runs differ by 5 %, ten runs known", _independent, 0.05, 9),
    Law("runs differ by 10 %, ten runs known", _independent, 0.10, 9),
)


def alarms(law: Law, change: float, alert: float, pairs: int, seed: int = 1) -> float:
    """Return the share of pairs of runs that alarm as worse where the second is slower by `change`."""
    source = random.Random(f"{law.name} {change} {seed}")
    found = 0
    for _ in range(pairs):
        earlier = [math.exp(source.gauss(0, law.between_runs)) for _ in range(law.earlier)]
        before = _figure(source, law, 1.0, earlier)
        after = _figure(source, law, 1.0 + change, [])
        found += judged(before, after, COLUMN, alert)[0] == "worse"
    return found / pairs


def _figure(source: random.Random, law: Law, level: float, earlier: Sequence[float]) -> Figure:
    shift = level * math.exp(source.gauss(0, law.between_runs)) if law.between_runs else level
    summary = latency_summary([shift * value for value in law.draw(source, CALLS)])
    low, high = (summary.ci95 or {}).get("p50", (None, None))
    assert summary.p50 is not None
    return Figure(value=summary.p50, low=low, high=high, runs=[*earlier, summary.p50] if earlier else [])


def main() -> None:
    """Print the table of docs/regressions.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4000)
    pairs = parser.parse_args().pairs
    print("| noise | alert | " + " | ".join("no change" if not one else f"+{one:.0%}" for one in CHANGES) + " |")
    print("| --- | --- |" + " --- |" * len(CHANGES))
    for law in LAWS:
        for alert in ALERTS:
            shares = [alarms(law, change, alert, pairs) for change in CHANGES]
            print(f"| {law.name} | {alert:.0%} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main()
