"""How changes that people marked in public series are scored: F1 and cover, as TCPDBench does (van den Burg and Williams, 2020).

`research.change_detection --tcpd FOLDER` uses it on the 31 series with one value a point of the Turing Change Point Dataset
that its repository holds.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from domain.history.detector import ChangePoint, Segment, detect
from domain.history.split_gains import TREND

__all__ = ["MARGIN", "SERIES", "cover", "f1", "smoothed_changes"]

MARGIN = 5
MOST_POINTS = 150
SERIES = (
    "bank",
    "brent_spot",
    "businv",
    "centralia",
    "children_per_woman",
    "co2_canada",
    "construction",
    "debt_ireland",
    "gdp_argentina",
    "gdp_croatia",
    "gdp_iran",
    "gdp_japan",
    "global_co2",
    "homeruns",
    "jfk_passengers",
    "lga_passengers",
    "nile",
    "ozone",
    "quality_control_1",
    "quality_control_2",
    "quality_control_3",
    "quality_control_4",
    "quality_control_5",
    "rail_lines",
    "seatbelts",
    "shanghai_license",
    "uk_coal_employ",
    "unemployment_nl",
    "us_population",
    "usd_isk",
    "well_log",
)


def smoothed_changes(values: Sequence[float | None]) -> list[int]:
    """Return where a whole series changes; one of more than 150 points is read by medians of blocks.

    A drift counts as its beginning. A change whose level before is a line in the same direction goes on with a trend and does
    not count. A step is where two means fit the points between its neighbours best.
    """
    width = math.ceil(len(values) / MOST_POINTS)
    blocks = [
        [value for value in values[start : start + width] if value is not None]
        for start in range(0, len(values), width)
    ]
    medians = [statistics.median(block) if block else None for block in blocks]
    scale = math.log if all(value is None or value > 0 for value in values) else float
    detection = detect(medians)
    changes = [change for change in detection.changes if not _goes_on(medians, detection.segments, change, scale)]
    edges = [0, *(width * change.index for change in changes), len(values)]
    return [
        width * (change.start + 1)
        if change.kind == "drift"
        else _refined(values, edges[place], edges[place + 2], scale)
        for place, change in enumerate(changes)
    ]


def _goes_on(
    medians: Sequence[float | None], levels: Sequence[Segment], change: ChangePoint, scale: Callable[[float], float]
) -> bool:
    """Return whether the level before a change is a line that goes the same way."""
    before = max((level for level in levels if level.start < change.index), key=lambda level: level.start)
    level = [scale(value) for value in medians[before.start : change.index] if value is not None]
    places = range(len(level))
    try:
        correlation = statistics.correlation(places, level)
    except statistics.StatisticsError:
        return False
    return correlation**2 >= TREND and (correlation > 0) == (change.after > change.before)


def _refined(values: Sequence[float | None], start: int, stop: int, scale: Callable[[float], float]) -> int:
    """Return where two means fit the values from `start` up to `stop` best."""
    places = [place for place in range(start, stop) if values[place] is not None]
    level = [scale(value) for value in values[start:stop] if value is not None]
    total, count, best, first = sum(level), len(level), (-1.0, start), 0.0
    for known in range(1, count):
        first += level[known - 1]
        gain = (first / known - (total - first) / (count - known)) ** 2 * known * (count - known)
        best = max(best, (gain, places[known]))
    return best[1]


def f1(annotations: Sequence[Sequence[int]], places: Sequence[int]) -> float:
    """Return the F1 of change points within a margin: precision beside all annotators, recall averaged over them."""
    marks = [{0, *each} for each in annotations]
    ours = {0, *places}
    precision = len(_matched(set().union(*marks), ours)) / len(ours)
    recall = statistics.fmean(len(_matched(each, ours)) / len(each) for each in marks)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _matched(marks: set[int], ours: set[int]) -> set[int]:
    """Return the marks that have one of ours within the margin, each of ours used once."""
    free, matched = set(ours), set()
    for mark in sorted(marks):
        near = min(
            (place for place in free if abs(place - mark) <= MARGIN), key=lambda at: abs(at - mark), default=None
        )
        if near is not None:
            free.remove(near)
            matched.add(mark)
    return matched


def cover(annotations: Sequence[Sequence[int]], places: Sequence[int], count: int) -> float:
    """Return how well our segments cover those of the annotators, averaged over them."""
    ours = list(_segments(places, count))
    return statistics.fmean(
        sum(len(part) * max(_jaccard(part, each) for each in ours) for part in _segments(marks, count)) / count
        for marks in annotations
    )


def _segments(places: Sequence[int], count: int) -> Iterator[range]:
    edges = sorted({0, count, *(place for place in places if 0 < place < count)})
    return (range(start, stop) for start, stop in itertools.pairwise(edges))


def _jaccard(one: range, other: range) -> float:
    both = max(0, min(one.stop, other.stop) - max(one.start, other.start))
    return both / (len(one) + len(other) - both)
