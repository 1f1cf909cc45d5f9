"""Two states of knowledge, configuration by configuration: what got worse, what got better, and what is undecided.

A change alarms where three things hold: it is larger than the threshold, the 95 % intervals of the two sides are apart,
and neither side's figure is doubted. The threshold is of the ratio in the worse direction, so that twice as slow and half
as fast are the same change. Intervals of one run say nothing of what differs from run to run (memory layout, clocks,
neighbours): where either side has four runs of the configuration or more, both intervals reach `RUN_DEVIATIONS` run-to-run
deviations around their values at least. That deviation is taken from the differences of runs in a row, by their median, so
that one true change among them does not hide the next.

A row is compared with the row of the same configuration; where that has none, with the newest that differs in nothing but
the runtime's version. Rows that both sides have in common were not measured anew and are only counted.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from domain.comparison.comparison_sides import NewestMeasurement, NewestOutcome, Side
from domain.comparison.thresholds import MEASURING, NO_THRESHOLDS, Thresholds
from domain.errors import UsageError
from domain.figures import FIGURES, Figure
from domain.statistics import median

__all__ = [
    "ALERT",
    "Change",
    "EnvironmentChange",
    "Report",
    "Turn",
    "change_of",
    "compare",
    "is_same",
    "judged",
    "parts_changed",
    "run_deviation",
    "version_key",
]

ALERT = 0.1
RUNS_NEEDED = 4
RUN_DEVIATIONS = 2.0
"""Two intervals of ±2 deviations are apart where two runs differ by 4, and those differ by 1.4 by chance; docs/regressions.md
has the rates of false and true alarms."""
_MEDIAN_DIFFERENCE = 0.6745 * math.sqrt(2)
"""The median absolute difference of two normal values, in standard deviations of one."""
_MOST_REACH = 700.0
"""Near the logarithm of the largest number."""
FIRST_OF = ("latency_p50_ms", "latency_mean_ms", "throughput_per_s", "tokens_per_s")
"""Different words for how fast the calls were: the first that both sides have is compared."""
ALSO = ("ttft_ms", "tpot_ms", "peak_memory_bytes", "device_memory_bytes")
State = Literal["worse", "better", "same", "unclear"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one configuration on both sides: `change` is candidate over baseline less one, low to high of it.

    `suspect` are the events of rows that nobody can rely on, suspect or without an interval, where they alone keep the
    figure from being worse. `alert` is the threshold of this figure, `alike` the configuration without versions.
    """

    title: str
    configuration: str
    column: str
    unit: str
    state: State
    before: Figure
    after: Figure
    change: float
    low: float | None
    high: float | None
    why: str | None
    evidence: list[str]
    suspect: list[str] = []
    alert: float = ALERT
    alike: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One case that came out in another way than it did; `test` is None for measuring."""

    title: str
    configuration: str
    test: str | None
    state: Literal["worse", "better", "other"]
    before: str
    after: str
    message: str | None
    evidence: list[str]
    alike: str = ""


class EnvironmentChange(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the environment that is not what it was, and under how many compared configurations."""

    hardware: str
    part: str
    before: str | None
    after: str | None
    configurations: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a comparison; lists are in the order of the candidate, changes the worst first.

    `new`, `gone`: configurations of one side alone. `not_anew`: of how many the candidate knows no newer row than the
    baseline. `other_origin`: measured on one side and imported on the other, which is not compared. `ignored`: what a rule
    of the thresholds leaves out, with its reason. `unmatched`: rules that match nothing the candidate has.
    """

    baseline: str
    candidate: str
    baseline_position: int | None
    candidate_position: int | None
    alert: float
    compared: int
    environments: list[EnvironmentChange]
    turns: list[Turn]
    changes: list[Change]
    new: list[str]
    gone: list[str]
    other_origin: list[str]
    not_anew: int
    baseline_hardware: list[str] = []
    candidate_hardware: list[str] = []
    ignored: list[str] = []
    unmatched: list[str] = []

    @property
    def undecided(self) -> list[Change]:
        """The figures that would be worse if their rows were not suspect."""
        return [change for change in self.changes if change.suspect]

    @property
    def worse(self) -> bool:
        """Whether anything got worse."""
        states: list[str] = [turn.state for turn in self.turns] + [change.state for change in self.changes]
        return "worse" in states


def run_deviation(runs: Sequence[float]) -> float | None:
    """Return the standard deviation of the logarithm from run to run, or None below four runs.

    From the median of the absolute differences of runs in a row: a single step among them does not raise it.
    """
    if len(runs) < RUNS_NEEDED or min(runs) <= 0:
        return None
    steps = [abs(_log_ratio(before, after)) for before, after in itertools.pairwise(runs)]
    return median(steps) / _MEDIAN_DIFFERENCE


def change_of(before: float, after: float) -> float:
    """Return how much larger `after` is, as a share of `before`: 0 where that is 0, and no more than a number can hold."""
    return min(after / before - 1, sys.float_info.max) if before else 0.0


def _log_ratio(before: float, after: float) -> float:
    """Return the logarithm of after over before, also where that ratio is beyond what a number can hold."""
    ratio = after / before
    return math.log(ratio) if sys.float_info.min < ratio < math.inf else math.log(after) - math.log(before)


def is_same(before: float, after: float, alert: float = ALERT) -> bool:
    """Whether the values alone say that nothing changed: then `judged` says `same`, whatever their intervals."""
    if before <= 0 or after <= 0:
        return before == after
    return abs(_log_ratio(before, after)) <= math.log1p(alert)


def judged(
    before: Figure, after: Figure, column: str, alert: float = ALERT, *, strict: bool = False
) -> tuple[State, str | None, tuple[float, float] | None]:
    """Return the state of a figure, why it is unclear, and the interval of the change (candidate over baseline less one).

    With `strict` a doubted figure counts like any other, and where no interval is known the values alone decide.
    """
    shape = FIGURES[column]
    item, other = _widened(before, after)
    between = (change_of(item[1], other[0]), change_of(item[0], other[1])) if item and other else None
    same = is_same(before.value, after.value, alert)
    if before.value <= 0 or after.value <= 0:
        return ("same" if same else "unclear"), "a ratio with 0 says nothing", between
    if same:
        return "same", None, between
    worse = _log_ratio(before.value, after.value) * (1 if shape.better == "lower" else -1)
    if item and other:
        if item[0] <= other[1] and other[0] <= item[1]:
            return "unclear", "the intervals overlap", between
    elif not (shape.steady or strict):
        return "unclear", f"the {'baseline' if item is None else 'candidate'} has no interval", between
    doubts = [
        f"{name}: {side.doubts[0]}" + (f" and {len(side.doubts) - 1} more" if len(side.doubts) > 1 else "")
        for name, side in (("baseline", before), ("candidate", after))
        if side.doubts
    ]
    if doubts and not strict:
        return "unclear", "; ".join(doubts), between
    return ("worse" if worse > 0 else "better"), None, between


def _widened(before: Figure, after: Figure) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return both intervals, reaching as far as runs are known to differ; the spread of one side speaks for both."""
    existing = [result for side in (before, after) if (result := run_deviation(side.runs)) is not None]
    reach = min(RUN_DEVIATIONS * max(existing), _MOST_REACH) if existing else None

    def widened(side: Figure) -> tuple[float, float] | None:
        ends = [] if side.low is None or side.high is None else [side.low, side.high]
        if reach is not None and side.value > 0:
            ends += [side.value * math.exp(-reach), side.value * math.exp(reach)]
        return (min(ends), max(ends)) if ends and min(ends) > 0 else None

    return widened(before), widened(after)


def compare(
    baseline: Side,
    candidate: Side,
    *,
    alert: float = ALERT,
    columns: Sequence[str] = (),
    strict: bool = False,
    thresholds: Thresholds = NO_THRESHOLDS,
) -> Report:
    """Return what the candidate measured anew beside what the baseline has.

    `columns`: which figures; by default how fast the calls were, the times to and per token, and memory. UsageError for
    one that is no figure or has no better direction. `thresholds` replace `alert` where one of their rules matches.
    UsageError too where the baseline is for hardware of which the candidate has nothing.
    """
    _require_hardware(baseline, candidate)
    for column in columns:
        if column not in FIGURES or FIGURES[column].better == "neither":
            raise UsageError(
                f"{column!r} cannot be compared.",
                field="metric",
                remedy=f"One of {', '.join(name for name, each in FIGURES.items() if each.better != 'neither')}.",
            )
    event_ids = {row.event_id for row in baseline.measured}
    before = _Known(baseline.measured)
    pairs = [(before.find(row), row) for row in candidate.measured if row.event_id not in event_ids]
    same_origin = [(value, row) for value, row in pairs if value is not None and value.origin == row.origin]
    judge = _Judge(thresholds, alert, strict)
    turns, case_pairs = _turns(baseline, candidate, judge)
    present = {name for row in candidate.measured for name in (row.key, row.alike, row.event_id)}
    present |= {name for case in candidate.cases for name in (case.key, case.alike)}
    tried = {case.alike for case in baseline.cases if case.test is None}
    changes = [change for value, row in same_origin for change in _changes(value, row, columns, judge)]
    return Report(
        baseline=baseline.name,
        candidate=candidate.name,
        baseline_position=baseline.position,
        candidate_position=candidate.position,
        alert=alert,
        compared=len(same_origin) + len(case_pairs),
        environments=_environments([*same_origin, *case_pairs], baseline, candidate),
        turns=turns,
        changes=sorted(changes, key=_severity),
        new=[row.title for value, row in pairs if value is None and row.alike not in tried],
        gone=[row.title for row in baseline.measured if not {row.key, row.alike, row.event_id} & present],
        other_origin=[row.title for value, row in pairs if value is not None and value.origin != row.origin],
        not_anew=len(candidate.measured) - len(pairs),
        baseline_hardware=_hardware(baseline),
        candidate_hardware=_hardware(candidate),
        ignored=judge.ignored,
        unmatched=list(thresholds.unmatched(_metrics(candidate))) if thresholds.rules else [],
    )


def _hardware(side: Side) -> list[str]:
    return sorted({row.hardware for row in side.measured} | {case.hardware for case in side.cases})


def _require_hardware(baseline: Side, candidate: Side) -> None:
    hardware = _hardware(candidate)
    if baseline.for_hardware is not None and hardware and baseline.for_hardware not in hardware:
        raise UsageError(
            f"the baseline {baseline.name} is for {baseline.for_hardware}, and the candidate is of {', '.join(hardware)}.",
            field="baseline",
            remedy="Name a baseline of that hardware: `assay baseline list` has them.",
        )


def _metrics(side: Side) -> list[tuple[NewestMeasurement | NewestOutcome, str]]:
    figures = [(row, column) for row in side.measured for column in row.figures]
    return [*figures, *((case, case.test or MEASURING) for case in side.cases)]


class _Judge:
    """The threshold of each figure, and what is left out by a rule."""

    def __init__(self, thresholds: Thresholds, alert: float, strict: bool) -> None:
        self._thresholds = thresholds
        self._alert = alert
        self.strict = strict
        self.ignored: list[str] = []

    def alert(self, row: NewestMeasurement | NewestOutcome, metric: str) -> float | None:
        """Return the threshold of a metric, or None, which is noted, where a rule ignores it."""
        rule = self._thresholds.rule_for(row, metric)
        if rule is None or rule.alert is not None:
            return self._alert if rule is None or rule.alert is None else rule.alert
        self.ignored.append(f"{row.title} {metric}" + (f": {rule.reason}" if rule.reason else ""))
        return None


class _Known:
    """Finds the row of a configuration, else the newest that differs in the runtime's version alone."""

    def __init__(self, rows: Iterable[NewestMeasurement]) -> None:
        self._by_key: dict[str, NewestMeasurement] = {}
        self._alike: dict[str, NewestMeasurement] = {}
        for row in rows:
            self._by_key[row.key] = self._alike[row.alike] = row

    def find(self, row: NewestMeasurement) -> NewestMeasurement | None:
        return self._by_key.get(row.key) or self._alike.get(row.alike)


def _changes(
    before: NewestMeasurement, after: NewestMeasurement, columns: Sequence[str], judge: _Judge
) -> Iterator[Change]:
    shared = [name for name in (columns or (*FIRST_OF, *ALSO)) if name in before.figures and name in after.figures]
    if not columns:
        speeds = [name for name in shared if name in FIRST_OF]
        shared = [*speeds[:1], *(name for name in shared if name in ALSO)]
    for column in shared:
        figure, other = before.figures[column], after.figures[column]
        alert = judge.alert(after, column)
        if alert is None:
            continue
        state, why, between = judged(figure, other, column, alert, strict=judge.strict)
        low, high = between or (None, None)
        undecided = state == "unclear" and judged(figure, other, column, alert, strict=True)[0] == "worse"
        doubted = [row.event_id for row, side in ((before, figure), (after, other)) if side.doubts or side.low is None]
        yield Change(
            title=after.title,
            configuration=after.key,
            column=column,
            unit=FIGURES[column].unit,
            state=state,
            before=figure,
            after=other,
            change=change_of(figure.value, other.value),
            low=low,
            high=high,
            why=why if state == "unclear" else None,
            evidence=[before.event_id, after.event_id],
            suspect=doubted if undecided else [],
            alert=alert,
            alike=after.alike,
        )


def _severity(change: Change) -> tuple[int, float, str]:
    sign = -1 if FIGURES[change.column].better == "lower" else 1
    return ("worse", "unclear", "better", "same").index(change.state), sign * change.change, change.title


def _turns(
    baseline: Side, candidate: Side, judge: _Judge
) -> tuple[list[Turn], list[tuple[NewestOutcome, NewestOutcome]]]:
    """Return the cases that came out otherwise, and all pairs of cases that the candidate tried anew."""
    cases = {(case.alike, case.test): case for case in baseline.cases}
    turns: list[Turn] = []
    pairs: list[tuple[NewestOutcome, NewestOutcome]] = []
    for case in candidate.cases:
        before = cases.get((case.alike, case.test))
        if before is None or before.event_id == case.event_id or "skipped" in (before.outcome, case.outcome):
            continue
        if case.test is None and before.outcome == case.outcome == "passed":
            # Both were measured: their figures tell.
            continue
        pairs.append((before, case))
        if before.outcome == case.outcome and (before.outcome == "passed" or before.stage == case.stage):
            continue
        if judge.alert(case, case.test or MEASURING) is None:
            continue
        state: Literal["worse", "better", "other"] = "other"
        if "passed" in (before.outcome, case.outcome):
            state = "worse" if before.outcome == "passed" else "better"
        turns.append(
            Turn(
                title=case.title,
                configuration=case.key,
                test=case.test,
                state=state,
                before=_outcome(before),
                after=_outcome(case),
                message=(case.message or "").partition("\n")[0] or None,
                evidence=[before.event_id, case.event_id],
                alike=case.alike,
            )
        )
    return sorted(turns, key=lambda turn: ("worse", "other", "better").index(turn.state)), pairs


def _outcome(case: NewestOutcome) -> str:
    return case.outcome if case.outcome == "passed" or not case.stage else f"{case.outcome} at {case.stage}"


def _environments(
    pairs: Sequence[tuple[NewestMeasurement | NewestOutcome, NewestMeasurement | NewestOutcome]],
    baseline: Side,
    candidate: Side,
) -> list[EnvironmentChange]:
    counted: dict[tuple[str, str, str | None, str | None], set[str]] = {}
    for before, after in pairs:
        parts = list(
            parts_changed(before.environment, after.environment, baseline.environments, candidate.environments)
        )
        if (
            isinstance(before, NewestMeasurement)
            and isinstance(after, NewestMeasurement)
            and before.runtime != after.runtime
        ):
            parts.append(("runtime", before.runtime, after.runtime))
        for part, old, new in parts:
            counted.setdefault((after.hardware, part, old, new), set()).add(after.key)
    return [
        EnvironmentChange(hardware=hardware, part=part, before=old, after=new, configurations=len(keys))
        for (hardware, part, old, new), keys in counted.items()
    ]


def parts_changed(
    before: str | None, after: str | None, old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the parts in which two environments differ, as name, before and after.

    Environments are named by fingerprint, `old` and `new` hold their contents; where these are not known, the fingerprints
    are told.
    """
    if before == after:
        return
    item, other = old.get(before or ""), new.get(after or "")
    if not item or not other:
        yield "fingerprint", before, after
        return
    flat, also = _flat(item), _flat(other)
    for name in sorted(flat.keys() | also.keys()):
        if flat.get(name) != also.get(name):
            yield name, flat.get(name), also.get(name)


def _flat(environment: Mapping[str, Any]) -> dict[str, str]:
    result = {name: str(value) for name, value in environment.items() if name != "libraries" and value is not None}
    return result | {f"library {name}": str(value) for name, value in (environment.get("libraries") or {}).items()}


def version_key(version: str | None) -> tuple[tuple[int, int, str], ...]:
    """Return what orders versions as people count them: `8.4` before `10.1`; one that is not said stands first."""
    parts = re.findall(r"\d+|[a-z]+", (version or "").casefold())
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
