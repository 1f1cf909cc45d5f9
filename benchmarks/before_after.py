"""Two sets of results side by side: what each line was before and is now, and which lines fell beyond noise."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.lines import Line

__all__ = ["Change", "Result", "compared", "kept_results", "table"]

TOLERANCE = 0.05
"""A line falls where it is worse by more than this share."""
SIMILAR = 0.1
"""Numbers in the names of one line may differ by this share between two runs: a rate that was posted, a mean size."""
_RESAMPLED = 2000
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class _Machine(msgspec.Struct, frozen=True):
    processor: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one benchmark has kept of a run."""

    benchmark: str
    machine: _Machine
    failed: bool = False
    lines: list[Line]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One line before and after. `better` is how many times better it is now (worse below 1), with its 95 % interval.

    `ratio` is the same of what the line comes to beside its peer, where it has one.
    """

    before: Line
    after: Line
    better: float
    low: float
    high: float
    ratio: float | None

    @property
    def verdict(self) -> str:
        """`fell` where the whole interval is worse by more than the tolerance, `as its peer` where the ratio is not."""
        if self.high >= 1 - TOLERANCE:
            return ""
        return "fell" if self.ratio is None or self.ratio < 1 - TOLERANCE else "as its peer"


def kept_results(path: Path) -> dict[str, Result]:
    """Return the results in a file, or in those of a folder, by benchmark. Raises FileNotFoundError where there are none."""
    results = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        document = msgspec.json.decode(file.read_bytes())
        # Other programs keep lists and tables of their own beside these.
        if isinstance(document, dict) and {"benchmark", "lines"} <= document.keys():
            results[document["benchmark"]] = msgspec.convert(document, Result)
    if not results:
        raise FileNotFoundError(f"{path} has no results of python -m benchmarks")
    return results


def compared(before: Sequence[Line], after: Sequence[Line]) -> tuple[list[Change], list[Line]]:
    """Return the lines that both have, in the order of `after`, and those that only one of them has."""
    rest, changes, alone = list(before), [], []
    for line in after:
        match = next((old for old in rest if _name(old) == _name(line)), None)
        match = match or next((old for old in rest if _similar(old, line)), None)
        if match is None:
            alone.append(line)
        else:
            rest.remove(match)
            changes.append(_change(match, line))
    return changes, [*alone, *rest]


def table(before: dict[str, Result], after: dict[str, Result]) -> tuple[str, bool]:
    """Return the table as Markdown with what stands in no line of it, and whether a line fell."""
    rows = ["| what | before | after | change, + is better | of the ratio | |", "| --- | --- | --- | --- | --- | --- |"]
    notes, changes = [], list[Change]()
    for name, result in after.items():
        if name not in before:
            continue
        here, alone = compared(before[name].lines, result.lines)
        changes += here
        rows += map(_row, here)
        notes += [f"- only in one of them: {line.what}" for line in alone]
        notes += [f"- {name} failed" for kept in (before[name], result) if kept.failed]
        if before[name].machine != result.machine:
            notes.append(
                f"- {name} ran on another machine: {before[name].machine.processor}, {result.machine.processor}"
            )
    notes += [f"- only in one of them: {name}" for name in sorted(before.keys() ^ after.keys())]
    fell = sum(change.verdict == "fell" for change in changes)
    summary = f"{fell} of {len(changes)} lines fell by more than {TOLERANCE:.0%} beyond the noise of their samples."
    return "\n".join([*rows, "", summary, "", *notes]).rstrip() + "\n", fell > 0


def _row(change: Change) -> str:
    before, after = (line.text().split(" | ") for line in (change.before, change.after))
    interval = "" if change.low == change.high else f" ({change.low - 1:+.1%} to {change.high - 1:+.1%})"
    ratio = "–" if change.ratio is None else f"{change.ratio - 1:+.1%}"
    verdict = f"**{change.verdict}**" if change.verdict == "fell" else change.verdict
    return f"| {after[0]} | {before[1]} | {after[1]} | {change.better - 1:+.1%}{interval} | {ratio} | {verdict} |"


def _name(line: Line) -> tuple[str, str, str]:
    return line.what, line.against, line.unit


def _similar(before: Line, after: Line) -> bool:
    """Return whether the names of two lines are equal but for numbers that differ a little."""
    names = ["\n".join(_name(line)) for line in (before, after)]
    if _NUMBER.sub("#", names[0]) != _NUMBER.sub("#", names[1]):
        return False
    numbers = ([float(text.replace(",", "")) for text in _NUMBER.findall(name)] for name in names)
    return all(abs(old - new) <= SIMILAR * max(old, new) for old, new in zip(*numbers, strict=True))


def _change(before: Line, after: Line) -> Change:
    rises = after.unit.endswith("/s")
    # A plain line may show a quantile or the largest sample in place of the median.
    shown = [statistics.median(line.ours) if line.ratio else line.value for line in (before, after)]
    better = _better(shown[0], shown[1], rises)
    middle = _better(statistics.median(before.ours), statistics.median(after.ours), rises)
    chance = np.random.default_rng(1)
    old, new = (np.median(chance.choice(line.ours, (_RESAMPLED, len(line.ours))), axis=1) for line in (before, after))
    if old.all() and new.all():
        low, high = np.quantile(new / old if rises else old / new, (0.025, 0.975)) * (better / middle)
    else:
        low = high = better
    ratio = None
    if before.peer and after.peer:
        ratio = _better(before.value, after.value, after.limit is None or not after.limit.most)
    return Change(before=before, after=after, better=better, low=float(low), high=float(high), ratio=ratio)


def _better(before: float, after: float, rises: bool) -> float:
    """Return how many times better `after` is; nothing is as good as nothing, and without end better than something."""
    upper, lower = (after, before) if rises else (before, after)
    return upper / lower if lower else 1.0 if not upper else math.inf
