"""Changes in a series of values: steps and drifts that a vote of three costs confirms.

The series is read once, from its first value to its last, as it would be if each value had just been appended. After each
value, three costs look for the best split of the current level: `l2` (clipped values in units of noise), `rank` (Wilcoxon)
and `rbf` (a Gaussian kernel whose bandwidth is the median distance under that noise). A split is confirmed where two costs
exceed their penalties at about the same place, the two sides differ by more than a minimum effect, and the difference is
large beside its standard error. A confirmed split begins a new level. So no value that is appended later can move or remove
a change that was confirmed, and the change of a shorter series is the change of the longer one.

All settings are fixed. They were chosen on simulated noise alone; docs/regressions.md has the rates of false and true alarms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from domain.history.split_gains import (
    MIN_AFTER,
    MIN_BEFORE,
    OUTLIER,
    WINDOW,
    Gains,
    dependence_of,
    kernel_gain,
    level_of,
    median,
    noise_of,
    prefix_medians,
    ramp_loss,
    reach_of,
    smoothed,
    split_gains,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["ChangePoint", "Detection", "Segment", "detect"]

MIN_EFFECT = 0.02
"""Smaller changes are never confirmed, as a share of the level before."""
FEWEST = 8
"""A level with fewer points has no prediction interval, and a change that fewer points confirm needs them close together."""
PENALTIES = {"l2": 17.0, "rank": 11.0, "rbf": 3.4}
EVIDENCE = 17.5
FEW_POINTS = 20.0
"""Needed of the squared difference of levels over its squared standard error: EVIDENCE, times 1 + FEW_POINTS / points before."""
SMALL, SMALL_FACTOR = 1.4, 2.0
"""Differences below `SMALL` standard deviations of the noise need `SMALL_FACTOR` times that evidence."""
CLEAR = 4.0
"""A change with this many times the evidence needed is clear: autocorrelation does not raise the penalties of the votes."""
DEPENDENCE_WEIGHT = 0.9
VOTE_DEPENDENCE = 0.5
"""How much of the inflation by autocorrelation applies to the evidence, and of that to the penalties of `rank` and `rbf`."""
TOLERANCE = 3
"""Two costs agree where their splits are no more points apart."""
DRIFT_WINDOW = 30
DRIFT_FIT = 1.15
"""Changes of one direction with fewer points between them are one drift where a ramp fits this well beside the steps."""
NEARLY = 6.0
"""Splits whose `l2` gain is less than this below the best are as likely."""
_ROWS = 64
_Z95 = 1.96


class ChangePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A confirmed change, by positions in the series.

    It happened after `start` and no later than `end`; `index` is the first point of the new level, and `confirmed_at` the
    point that made it certain. `effect` is after over before less one with a 95 % interval, None where `before` is 0.
    """

    index: int
    start: int
    end: int
    confirmed_at: int
    before: float
    after: float
    effect: float | None
    low: float | None
    high: float | None
    kind: Literal["step", "drift"]
    votes: tuple[str, ...]


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A level: points from `start` up to `stop`, which is not part of it, and the 95 % interval of its values."""

    start: int
    stop: int
    value: float
    low: float
    high: float


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """Changes in their order, levels, points outside the prediction interval of those before, and the interval of the next."""

    changes: tuple[ChangePoint, ...] = ()
    segments: tuple[Segment, ...] = ()
    suspect: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None


class _Split(NamedTuple):
    """A confirmed split of the level that begins at `begin`; `seen` counts the values that were known then."""

    begin: int
    first: int
    start: int
    end: int
    seen: int
    upward: bool
    votes: tuple[str, ...]
    noise: float
    dependence: float


def detect(values: Sequence[float | None], restarts: Sequence[int] = (), *, logarithm: bool | None = None) -> Detection:
    """Return the changes of a series, its levels and its suspect points.

    Missing values (None, NaN) are passed over. `restarts` are positions at which a new level begins without a change: a
    change whose range holds one is not reported. With `logarithm`, values are compared by their ratios and those that are
    not positive are suspect; without, by their differences. By default, where all values are positive.
    """
    import numpy as np

    numbers = np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)
    usable = np.isfinite(numbers)
    if logarithm is None:
        logarithm = bool(usable.any() and (numbers[usable] > 0).all())
    if logarithm:
        usable &= numbers > 0
    places = np.flatnonzero(usable)
    unusable = [int(place) for place in np.flatnonzero(~usable & ~np.isnan(numbers))]
    if not len(places):
        return Detection(suspect=tuple(unusable))
    scale = _Scale.of(numbers[places], logarithm)
    with np.errstate(all="ignore"):
        series = _Series(scale.inward(numbers[places]), scale)
        starts = sorted({int(np.searchsorted(places, place)) for place in restarts})
        splits, begins = series.levels([start for start in starts if 0 < start < len(places)])
        outliers = series.outliers(begins)
        return Detection(
            changes=tuple(_placed(change, places) for change in series.changes(splits, begins)),
            segments=tuple(_segments(series, begins, places)),
            suspect=tuple(sorted([*unusable, *(int(places[index]) for index in outliers)])),
            interval=series.next_interval(begins[-1]),
        )


class _Scale(NamedTuple):
    """How values become what is compared: logarithms, or values over a power of two, so that squares stay finite."""

    logarithm: bool
    exponent: int

    @staticmethod
    def of(numbers: Floats, logarithm: bool) -> _Scale:
        largest = float(abs(numbers).max())
        return _Scale(logarithm, math.frexp(largest)[1])

    def inward(self, numbers: Floats) -> Floats:
        import numpy as np

        return np.log(numbers) if self.logarithm else np.ldexp(numbers, -self.exponent)

    def outward(self, value: float) -> float:
        if self.logarithm:
            return math.exp(min(value, 709.78))
        try:
            return math.ldexp(value, self.exponent)
        except OverflowError:
            return math.copysign(1.7976931348623157e308, value)

    def effect(self, before: float, after: float, error: float) -> tuple[float, float, float] | None:
        """Return the effect and its interval, each as a share of the level before."""
        ends = (after - before, after - before - _Z95 * error, after - before + _Z95 * error)
        if self.logarithm:
            effect, low, high = (math.expm1(min(end, 709.0)) for end in ends)
            return effect, low, high
        if not before or not all(math.isfinite(end / before) for end in ends):
            return None
        effect, low, high = (end / abs(before) for end in ends)
        return effect, low, high


class _Series:
    """Values on the scale on which they are compared, and what is found among them."""

    def __init__(self, values: Floats, scale: _Scale) -> None:
        self.values = values
        self.scale = scale

    def levels(self, restarts: Sequence[int]) -> tuple[list[_Split], list[int]]:
        """Return the confirmed splits, and the first points of all levels."""
        splits: list[_Split] = []
        begins, waiting, seen = [0], list(restarts), 0
        while True:
            begin = begins[-1]
            waiting = [start for start in waiting if start > begin]
            split = self._next(begin, seen, len(self.values))
            if waiting and (split is None or split.seen > waiting[0]):
                if split and split.start < waiting[0] <= split.end:
                    waiting.pop(0)
                    begins.append(split.first)
                    seen = split.seen
                    continue
                split = self._next(begin, seen, waiting[0])
                if split is None:
                    begins.append(waiting.pop(0))
                    continue
            if split is None:
                return splits, begins
            splits.append(split)
            begins.append(split.first)
            seen = split.seen

    def changes(self, splits: Sequence[_Split], begins: Sequence[int]) -> Iterator[ChangePoint]:
        """Yield the changes of the splits; those of one drift are one change."""
        stops = dict(itertools.pairwise([*begins, len(self.values)]))
        drifts: list[list[_Split]] = []
        for split in splits:
            if drifts and drifts[-1][-1].first == split.begin and self._drifting([*drifts[-1], split]):
                drifts[-1].append(split)
            else:
                drifts.append([split])
        for group in drifts:
            first, last = group[0], group[-1]
            sides = (self.values[first.begin : first.first], self.values[last.first : stops[last.first]])
            before, after = (level_of(side[-WINDOW:], first.noise) for side in sides)
            error = first.noise * math.sqrt(first.dependence * sum(1 / len(side) for side in sides))
            effect, low, high = self.scale.effect(before, after, error) or (None, None, None)
            yield ChangePoint(
                index=first.first,
                start=first.start,
                end=last.end,
                confirmed_at=first.seen - 1,
                before=self.scale.outward(before),
                after=self.scale.outward(after),
                effect=effect,
                low=low,
                high=high,
                kind="step" if len(group) == 1 else "drift",
                votes=first.votes,
            )

    def outliers(self, begins: Sequence[int]) -> Iterator[int]:
        """Yield the points that lie outside the prediction interval of the points before them in their level."""
        for begin, stop in itertools.pairwise([*begins, len(self.values)]):
            for low in range(begin + FEWEST, stop, _ROWS):
                known = range(low, min(low + _ROWS, stop))
                first = max(begin, low - WINDOW)
                medians = prefix_medians(self.values[first : known[-1]], low - first)
                far = abs(self.values[low : known[-1] + 1] - medians) > reach_of(
                    noise_of(self.values, known, self.scale.logarithm), known, first
                )
                yield from (int(index) + low for index in far.nonzero()[0])

    def interval(self, begin: int, stop: int) -> tuple[float, float, float]:
        """Return the value of a level, and the ends of the 95 % interval of a point of it."""
        level = self.values[begin:stop][-WINDOW:]
        noise = float(noise_of(self.values, range(stop, stop + 1), self.scale.logarithm)[0])
        middle = level_of(level, noise)
        reach = _Z95 * noise * math.sqrt(1 + 1 / len(level))
        return middle, middle - reach, middle + reach

    def next_interval(self, begin: int) -> tuple[float, float] | None:
        """Return the interval outside of which the next point is suspect."""

        count = len(self.values)
        if count - begin < FEWEST:
            return None
        first = max(begin, count - WINDOW)
        middle = median(self.values[first:])
        reach = float(
            reach_of(
                noise_of(self.values, range(count, count + 1), self.scale.logarithm), range(count, count + 1), first
            )[0]
        )
        return self.scale.outward(middle - reach), self.scale.outward(middle + reach)

    def _next(self, begin: int, seen: int, stop: int) -> _Split | None:
        """Return the first split of the level at `begin` that more than `seen` and at most `stop` values confirm."""
        for low in range(max(begin + MIN_BEFORE + MIN_AFTER, seen + 1), stop + 1, _ROWS):
            known = range(low, min(low + _ROWS, stop + 1))
            rows = split_gains(self.values, max(begin, low - WINDOW), known, self.scale.logarithm)
            possible = rows.l2.max(axis=1) >= PENALTIES["l2"]
            for row in (possible | (rows.rank.max(axis=1) >= PENALTIES["rank"])).nonzero()[0]:
                split = self._confirmed(rows, int(row), known[int(row)])
                if split is not None:
                    return split._replace(begin=begin)
        return None

    def _confirmed(self, rows: Gains, row: int, seen: int) -> _Split | None:
        """Return the split that `seen` values confirm, if two costs find one and the evidence is enough."""
        noise, values = float(rows.noise[row]), self.values[rows.begin : seen]
        best = {"l2": int(rows.l2[row].argmax()) + 1, "rank": int(rows.rank[row].argmax()) + 1}
        inflation = 1 + DEPENDENCE_WEIGHT * (dependence_of(values, best["l2"], noise) - 1)
        # The gains of few points are bounded, so the penalties of a change beyond doubt are not raised.
        evidence = {place: self._evidence(values, place, noise, inflation) for place in set(best.values())}
        raised = 1.0 if max(map(abs, evidence.values())) >= CLEAR else inflation
        limits = dict.fromkeys(PENALTIES, 1 + VOTE_DEPENDENCE * (raised - 1)) | {"l2": raised * (1 + 6 / len(values))}
        gains = {"l2": float(rows.l2[row, best["l2"] - 1]), "rank": float(rows.rank[row, best["rank"] - 1])}
        votes = {name: best[name] for name in best if gains[name] >= PENALTIES[name] * limits[name]}
        if votes and _agreed(votes) is None:
            if all(abs(evidence[place]) < 1 for place in votes.values()):
                return None
            gain, place = kernel_gain(values, noise)
            if gain >= PENALTIES["rbf"] * limits["rbf"]:
                votes["rbf"] = place
        agreed = _agreed(votes)
        if agreed is None:
            return None
        place, names = agreed
        share = evidence[place] if place in evidence else self._evidence(values, place, noise, inflation)
        if abs(share) < 1:
            return None
        likely = (rows.l2[row] > 0) & (rows.l2[row] >= rows.l2[row, place - 1] - NEARLY * inflation)
        near = [place, *(likely.nonzero()[0] + 1).tolist()]
        index = rows.begin + place
        start, end = rows.begin + min(near) - 1, rows.begin + max(near)
        return _Split(rows.begin, index, start, end, seen, share > 0, names, noise, inflation)

    def _evidence(self, values: Floats, place: int, noise: float, inflation: float) -> float:
        """Return the evidence that the level changes at `place` as a multiple of what is needed, below 0 where it falls.

        0 where the change is too small, or where too few points lie at the new level.
        """
        sides = values[:place], values[place:]
        before, after = (level_of(side, noise) for side in sides)
        if abs(after - before) < (math.log1p(MIN_EFFECT) if self.scale.logarithm else MIN_EFFECT * abs(before)):
            return 0.0
        moved = int(((sides[1] > (before + after) / 2) == (after > before)).sum())
        together = int((abs(sides[1] - median(sides[1])) <= OUTLIER * noise).sum())
        if moved < max(MIN_AFTER, 0.7 * len(sides[1])) or (together < MIN_AFTER and len(sides[1]) < FEWEST):
            return 0.0
        difference = min(abs(after - before) / noise, 1e100)
        evidence = difference**2 * place * len(sides[1]) / len(values) / inflation
        needed = EVIDENCE * (1 + FEW_POINTS / place) * (1 if difference >= SMALL else SMALL_FACTOR)
        return math.copysign(evidence / needed, after - before)

    def _drifting(self, splits: Sequence[_Split]) -> bool:
        """Return whether a ramp fits consecutive splits of one direction about as well as their steps."""
        import numpy as np

        first, before, last = splits[0], splits[-2], splits[-1]
        if before.upward != last.upward or last.first - before.first > DRIFT_WINDOW:
            return False
        begin = max(first.begin, first.first - DRIFT_WINDOW)
        values = self.values[begin : last.seen]
        edges = [0, *(split.first - begin for split in splits), len(values)]
        steps = np.concatenate(
            [
                np.full(stop - start, level_of(values[start:stop], last.noise))
                for start, stop in itertools.pairwise(edges)
            ]
        )
        near = smoothed(values)
        return ramp_loss(near) <= DRIFT_FIT * float(((near - steps) ** 2).sum()) + last.noise**2


def _placed(change: ChangePoint, places: Any) -> ChangePoint:
    """Return a change by positions in the series as it was given."""
    names = ("index", "start", "end", "confirmed_at")
    return msgspec.structs.replace(change, **{name: int(places[getattr(change, name)]) for name in names})


def _segments(series: _Series, begins: Sequence[int], places: Any) -> Iterator[Segment]:
    for begin, stop in itertools.pairwise([*begins, len(series.values)]):
        value, low, high = (series.scale.outward(end) for end in series.interval(begin, stop))
        yield Segment(start=int(places[begin]), stop=int(places[stop - 1]) + 1, value=value, low=low, high=high)


def _agreed(votes: dict[str, int]) -> tuple[int, tuple[str, ...]] | None:
    """Return where two votes agree best, with the names of all that agree there."""
    ordered = sorted((place, name) for name, place in votes.items())
    pairs = [(after[0] - before[0], (before[0] + after[0]) // 2) for before, after in itertools.pairwise(ordered)]
    if not pairs or min(pairs)[0] > TOLERANCE:
        return None
    place = min(pairs)[1]
    return place, tuple(sorted(name for at, name in ordered if abs(at - place) <= TOLERANCE))
