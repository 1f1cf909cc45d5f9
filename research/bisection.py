"""How often `assay bisect` names the right commit of 32, and in how many commits and runs: `python -m research.bisection`.

Answer: a step of 15 % under 3 % noise with spikes is found in at most 8 commits in 97 % of searches (docs/bisect.md).

The figures of runs are drawn from laws of noise; the search is the one of the verb. Nothing is timed.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from domain.history.bisection import Bisection

__all__ = ["LAWS", "Law", "Search", "search"]

COMMITS = 32
STEPS = (0.05, 0.10, 0.15, 0.30)


class Law(NamedTuple):
    """How runs vary: deviation of the logarithm, share of spikes, deviation between commits, drift of the machine a run."""

    name: str
    deviation: float
    spikes: float = 0.0
    between: float = 0.0
    drift: float = 0.0


LAWS = (
    Law("runs vary by 1 %", 0.01),
    Law("runs vary by 3 %", 0.03),
    Law("3 %, one run in ten takes 20 to 100 % longer", 0.03, spikes=0.1),
    Law("3 %, and commits differ by 1 %", 0.03, between=0.01),
    Law("3 %, one in ten longer, the machine gets slower by 0.3 % a run", 0.03, spikes=0.1, drift=0.003),
    Law("runs vary by 10 %", 0.10),
)


class Search(NamedTuple):
    """What came of one search: its outcome, whether the planted commit was named, commits and runs measured, and the interval's cover."""

    outcome: str
    right: bool
    commits: int
    runs: int
    covered: bool


def search(law: Law, step: float, seed: int, commits: int = COMMITS) -> Search:
    """Plant a step at a random commit and search for it."""
    source = random.Random(seed)
    first_bad = source.randrange(1, commits)
    levels = [source.gauss(0, law.between) + math.log1p(step) * (index >= first_bad) for index in range(commits)]
    bisection = Bisection(commits)
    while (index := bisection.next()) is not None:
        value = levels[index] + source.gauss(0, law.deviation) + law.drift * bisection.runs
        if source.random() < law.spikes:
            value += math.log(source.uniform(1.2, 2.0))
        bisection.record(index, math.exp(value))
    outcome = bisection.outcome or "none"
    change = bisection.step if outcome == "found" else None
    true_step = math.exp(levels[first_bad] - levels[first_bad - 1]) - 1
    return Search(
        outcome=outcome,
        right=outcome == "found" and bisection.suspects == [first_bad],
        commits=len(bisection.levels()),
        runs=bisection.runs,
        covered=change is not None and change[1] <= true_step <= change[2],
    )


def _row(law: Law, step: float, searches: Sequence[Search]) -> str:
    n = len(searches)
    answered = [each for each in searches if each.outcome == "found"]
    right = sum(each.right for each in searches) / n
    within = sum(each.right and each.commits <= 8 for each in searches) / n
    wrong = sum(not each.right for each in answered) / n
    unseen = sum(each.outcome == "no-difference" for each in searches) / n
    cover = sum(each.covered for each in answered if each.right) / max(1, sum(each.right for each in answered))
    return (
        f"| {law.name} | {step:.0%} | {right:.1%} | {within:.1%} | {wrong:.1%} | {unseen:.1%} | {1 - right - wrong - unseen:.1%} | "
        f"{median(each.commits for each in searches):.0f} | {median(each.runs for each in searches):.0f} | {cover:.0%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=1000, help="searches of each row")
    n = parser.parse_args().searches
    print(
        "| noise | step | right | right in ≤ 8 commits | wrong | no difference seen | not confirmed | commits | runs | interval covers |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for law in LAWS:
        for step in STEPS:
            print(_row(law, step, [search(law, step, seed) for seed in range(n)]), flush=True)


if __name__ == "__main__":
    main()
