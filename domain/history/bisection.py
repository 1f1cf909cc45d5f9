"""Search for the first bad one in a sequence of versions whose figure is noisy.

The first of the sequence is known to be good and the last to be bad. Both are repeated until their 95 % intervals part.
Then a version in the middle is repeated until its interval lies on one side of the line half-way between them, and the
range is halved. At the end the first bad version and the one before it are measured in turn until their intervals part;
where they turn out to be alike, what was decided about them is dropped and they are measured again.

Each version in the middle comes with a fresh run of both ends, and the line follows the newest runs of the ends, so that
a machine that gets slower meanwhile does not turn good versions into bad ones. Values are medians; the noise of one run
is taken from the differences of runs in a row over all versions, so that few runs of each are enough and spikes do not count.

The search does no I/O: `next` says which version to run, `record` takes what came of it. The same records in the same
order give the same search, so a search goes on from its log.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from domain.statistics import median, student_quantile

__all__ = ["Bisection", "BisectionLimits", "Outcome", "Side", "VersionLevel"]

Outcome = Literal["found", "range", "unconfirmed", "no-difference", "inverted", "unmeasurable"]
Side = Literal["good", "bad", "undecided", "skipped"]

_MEDIAN_DIFFERENCE = 0.6745 * math.sqrt(2)
"""The median absolute difference of two normal values, in standard deviations of one."""
_MEDIAN_ERROR = 1.2533
"""The standard error of a median of normal values over that of their mean."""
_OWN_NOISE = 2.0
"""A version whose runs differ by so many times what those of all versions do has a noise of its own."""
_LEAST_NOISE = 1e-9
_END_RUNS = 4
_RECENT = 6
"""The line follows so many of the newest runs of each end."""
_MOST_ODDS = 7.0
_ALIKE = 0.5
"""Where a version makes less than this share of the whole difference, with certainty, it or the one before was misjudged."""


class BisectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often a version is run: at least `repeats` times, `confirmations` times at the end, and at most `most` times.

    `exact`: values are 1 for a check that failed and 0 for one that passed; one failure in `repeats` runs makes a version bad.
    """

    repeats: int = 3
    confirmations: int = 5
    most: int = 25
    exact: bool = False


class VersionLevel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one version: its side, its values in the order of the runs, their median and its 95 % interval."""

    index: int
    side: Side
    values: list[float]
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Bisection:
    """Search for the first bad one of `count` versions, the first of which is good and the last bad."""

    def __init__(
        self, count: int, *, better: Literal["lower", "higher"] = "lower", limits: BisectionLimits | None = None
    ) -> None:
        self.count = count
        self.better = better
        self.limits = limits or BisectionLimits()
        self.runs = 0
        self.outcome: Outcome | None = None
        self._values: dict[int, list[float]] = {}
        self._used_from: dict[int, int] = {}
        self._skipped: set[int] = set()
        self._sides: dict[int, Literal["good", "bad"]] = {}
        self._odds: dict[int, float] = {}
        self._current: int | None = None
        self._begun = 0
        self._anchored: dict[int, int] = {}
        self._pooled: tuple[int, float, int] = (0, math.inf, 0)
        self._ends_apart = False
        self._pair: tuple[int, int] | None = None
        self._pair_from: dict[int, int] = {}
        self._dropped: set[tuple[int, int]] = set()

    def record(self, index: int, value: float | None) -> None:
        """Take the figure of a run, or None where the version cannot be built or measured."""
        if value is None:
            self._skip(index)
            return
        self.runs += 1
        self._values.setdefault(index, []).append(value)
        if not self._ends_apart:
            self._judge_ends()
        elif index == self._current:
            self._judge_current(index)
        elif self._pair is not None:
            self._judge_pair()

    def next(self) -> int | None:
        """Return the version to run next, or None where `outcome` holds the answer."""
        if self.outcome is not None:
            return None
        last = self.count - 1
        if not self._ends_apart:
            return 0 if self._n(0) <= self._n(last) else last
        if self._current is None and self._pair is None:
            self._choose()
        if self._current is not None:
            rounds = 1 + (self._n(self._current) - self._begun) // self.limits.repeats
            stale = [end for end in (0, last) if self._n(end) < self._anchored[end] + rounds]
            return stale[0] if stale and not self.limits.exact else self._current
        if self._pair is not None and self.outcome is None:
            return min(self._pair, key=lambda index: (self._n(index) - self._pair_from[index], index))
        return None

    @property
    def bounds(self) -> tuple[int, int]:
        """The newest version that counts as good, and the first after it that counts as bad."""
        settled = sorted({0, self.count - 1, *self._sides})
        scores = [
            sum(-self._odds_of(index) for index in settled[:place])
            + sum(self._odds_of(index) for index in settled[place:])
            for place in range(1, len(settled))
        ]
        place = max(range(len(scores)), key=scores.__getitem__) + 1
        return settled[place - 1], settled[place]

    @property
    def suspects(self) -> list[int]:
        """The versions of which one is the first bad one, as far as is known."""
        low, high = self.bounds
        return list(range(low + 1, high + 1))

    @property
    def step(self) -> tuple[float, float, float] | None:
        """The change from the version before to the first bad one, with its 95 % interval: a share, 0.1 is 10 % more.

        A difference in place of a share where a value is not above 0; None where it was not measured.
        """
        if self.limits.exact or self.outcome not in ("found", "range", "unconfirmed"):
            return None
        low, high = self._pair or self.bounds
        before, after = (self._interval(self._pair_values(index)) for index in (low, high))
        middle, reach = _difference(before, after)
        changes = [middle * self._sign, (middle - reach) * self._sign, (middle + reach) * self._sign]
        if self.relative:
            changes = [math.expm1(change) for change in changes]
        return changes[0], min(changes), max(changes)

    @property
    def whole(self) -> float | None:
        """The change from the good end to the bad one, as in `step`; None for checks and where no difference is certain."""
        if self.limits.exact or not self._ends_apart:
            return None
        good, bad = (median(self._scaled(self._values[end])) for end in (0, self.count - 1))
        change = self._sign * (bad - good)
        return math.expm1(change) if self.relative else change

    def levels(self) -> list[VersionLevel]:
        """Return what is known of each version that was run or skipped, in the order of the sequence."""
        return [self._level(index) for index in sorted(self._skipped | set(self._values))]

    def left(self) -> int:
        """Return about how many runs are left."""
        if self.outcome is not None:
            return 0
        limits = self.limits
        confirming = 0 if limits.exact else 2 * limits.confirmations
        each = limits.repeats + (0 if limits.exact else 2)
        low, high = self.bounds
        middles = math.ceil(math.log2(high - low)) if high > low else 0
        begun = self._n(self._current) if self._current is not None else 0
        if self._pair is not None:
            return max(1, confirming - sum(self._n(index) - self._pair_from[index] for index in self._pair))
        ends = 0 if self._ends_apart else max(0, 2 * self._least_end_runs - self._n(0) - self._n(self.count - 1))
        return max(1, ends + middles * each - begun + confirming)

    @property
    def _least_end_runs(self) -> int:
        return self.limits.repeats if self.limits.exact else max(_END_RUNS, self.limits.repeats)

    @property
    def _sign(self) -> int:
        return 1 if self.better == "lower" else -1

    @property
    def relative(self) -> bool:
        """Whether changes are shares: all figures are above 0."""
        return not self.limits.exact and all(value > 0 for values in self._values.values() for value in values)

    def _n(self, index: int) -> int:
        return len(self._values.get(index, ()))

    def _odds_of(self, index: int) -> float:
        return {0: -_MOST_ODDS * self.count, self.count - 1: _MOST_ODDS * self.count}.get(
            index, self._odds.get(index, 0)
        )

    def _scaled(self, values: Sequence[float]) -> list[float]:
        """Return values so that more is worse, on a logarithmic scale where all are above 0."""
        return [self._sign * (math.log(value) if self.relative else value) for value in values]

    def _values_of(self, index: int) -> list[float]:
        values = self._values.get(index, [])
        return (
            values[-_RECENT:]
            if index in (0, self.count - 1) and self._ends_apart
            else values[self._used_from.get(index, 0) :]
        )

    def _pair_values(self, index: int) -> list[float]:
        values = self._values.get(index, [])
        fresh = values[self._pair_from.get(index, 0) :]
        return fresh if self._pair is not None and fresh else self._values_of(index)

    def _noise(self, own: Sequence[float]) -> tuple[float, float]:
        """Return the standard deviation of one run and its degrees of freedom."""
        scaled = self._scaled(own)
        pooled, differences = self._pooled_noise()
        if not differences:
            return math.inf, 1
        pooled = max(pooled, _LEAST_NOISE * max(1.0, abs(median(scaled))))
        alone = _deviation(scaled) if len(scaled) > 2 else 0.0
        return (alone, len(scaled) - 1) if alone > _OWN_NOISE * pooled else (pooled, max(2.0, differences / 2))

    def _pooled_noise(self) -> tuple[float, int]:
        """Return the standard deviation of one run of any version, and of how many differences it is made."""
        if self._pooled[0] != self.runs:
            scaled = [self._scaled(values) for values in self._values.values() if len(values) > 1]
            differences = sum(len(values) - 1 for values in scaled)
            self._pooled = self.runs, _deviation(*scaled) if differences else math.inf, differences
        return self._pooled[1:]

    def _interval(self, values: Sequence[float]) -> tuple[float, float, float]:
        """Return the median of values, scaled, and its 95 % interval."""
        centre = median(self._scaled(values))
        deviation, freedom = self._noise(values)
        error = deviation * (_MEDIAN_ERROR if len(values) > 2 else 1.0) / math.sqrt(len(values))
        half = error * student_quantile(freedom)
        return centre, centre - half, centre + half

    def _judge_ends(self) -> None:
        last = self.count - 1
        fewest = min(self._n(0), self._n(last))
        if fewest < self._least_end_runs:
            return
        if self.limits.exact:
            good, bad = max(self._values[0]), max(self._values[last])
            self._ends_apart = bad > good
            self.outcome = None if bad > good else "inverted" if good > bad else "no-difference"
            return
        good_end, bad_end = (self._interval(self._values[end]) for end in (0, last))
        self._ends_apart = good_end[2] < bad_end[1]
        if bad_end[2] < good_end[1]:
            self.outcome = "inverted"
        elif not self._ends_apart and fewest >= self.limits.most:
            self.outcome = "no-difference"

    def _judge_current(self, index: int) -> None:
        values = self._values_of(index)
        if self.limits.exact:
            if max(values) > 0 or len(values) >= self.limits.repeats:
                self._settle(index, _MOST_ODDS if max(values) > 0 else -_MOST_ODDS)
            return
        if len(values) < self.limits.repeats:
            return
        line = sum(self._interval(self._values_of(end))[0] for end in (0, self.count - 1)) / 2
        centre, low, high = self._interval(values)
        if low > line or high < line or len(values) >= self.limits.most:
            errors = 2 * (centre - line) / max(centre - low, _LEAST_NOISE)
            self._settle(index, max(-_MOST_ODDS, min(_MOST_ODDS, 1.7 * errors)))

    def _settle(self, index: int, odds: float) -> None:
        self._odds[index] = odds
        self._sides[index] = "bad" if odds > 0 else "good"
        self._current = None

    def _skip(self, index: int) -> None:
        self._skipped.add(index)
        self._sides.pop(index, None)
        self._odds.pop(index, None)
        if self._current == index:
            self._current = None
        if self._pair is not None and index in self._pair:
            self._pair = None
        if index in (0, self.count - 1):
            self.outcome = "unmeasurable"

    def _choose(self) -> None:
        """Choose the version to measure next, or the pair to confirm, or end with a range."""
        low, high = self.bounds
        middle = (low + high) / 2
        candidates = self._candidates(low, high)
        if candidates:
            self._current = min(candidates, key=lambda index: (abs(index - middle), index))
            self._begun = self._n(self._current)
            self._anchored = {end: self._n(end) for end in (0, self.count - 1)}
        elif self.limits.exact:
            self.outcome = "found" if high - low == 1 else "range"
        else:
            self._pair = low, high
            self._pair_from = {index: self._n(index) for index in self._pair}

    def _candidates(self, low: int, high: int) -> list[int]:
        """Return the versions between two that may be measured next: away from those that were skipped, the more there are.

        What breaks a build often lasts for many commits in a row.
        """
        between = range(low + 1, high)
        skipped = [index for index in between if index in self._skipped]
        for distance in range(len(skipped), 0, -1):
            apart = [index for index in between if all(abs(index - other) >= distance for other in skipped)]
            if apart:
                return apart
        return [index for index in between if index not in self._skipped]

    def _judge_pair(self) -> None:
        assert self._pair is not None
        low, high = self._pair
        fewest = min(self._n(index) - self._pair_from[index] for index in self._pair)
        if fewest < max(2, self.limits.confirmations):
            return
        before, after = (self._interval(self._pair_values(index)) for index in self._pair)
        ends = [self._interval(self._values_of(end))[0] for end in (0, self.count - 1)]
        difference, reach = _difference(before, after)
        middles = [index for index in self._pair if index not in (0, self.count - 1)]
        if difference + reach < _ALIKE * (ends[1] - ends[0]) and self._pair not in self._dropped and middles:
            self._dropped.add(self._pair)
            for index in middles:
                self._used_from[index] = self._n(index)
                del self._sides[index], self._odds[index]
            self._pair = None
        elif before[2] < after[1]:
            self.outcome = "found" if high - low == 1 else "range"
        elif fewest >= self.limits.most:
            self.outcome = "unconfirmed"

    def _level(self, index: int) -> VersionLevel:
        values = self._values.get(index, [])
        if index in self._skipped or not values:
            return VersionLevel(index=index, side="skipped", values=values)
        ends: dict[int, Side] = {0: "good", self.count - 1: "bad"}
        side: Side = ends.get(index) or self._sides.get(index) or "undecided"
        if self.limits.exact:
            return VersionLevel(index=index, side=side, values=values)
        interval = self._interval(
            self._pair_values(index) if self._pair and index in self._pair else self._values_of(index) or values
        )
        figures = [each * self._sign for each in interval]
        figures = [math.exp(each) for each in figures] if self.relative else figures
        return VersionLevel(
            index=index, side=side, values=values, value=figures[0], low=min(figures), high=max(figures)
        )


def _deviation(*series: Sequence[float]) -> float:
    """Return the standard deviation of single values by the median difference of values in a row."""
    differences = [abs(after - before) for values in series for before, after in itertools.pairwise(values)]
    return median(differences) / _MEDIAN_DIFFERENCE


def _difference(before: tuple[float, float, float], after: tuple[float, float, float]) -> tuple[float, float]:
    """Return the difference of two values with intervals, and how far its own interval reaches on both sides."""
    return after[0] - before[0], math.hypot(after[0] - after[1], before[0] - before[1])
