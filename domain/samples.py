"""What a picture of raw samples needs and no more: points or a band, a histogram, the percentiles that they support.

Times are in ms. Iterations count from 1; the warm-up comes first, so that the steady part begins at `steady_from`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from domain.canonical import digest
from domain.payloads import SamplesRecorded
from domain.statistics import SAMPLES_NEEDED, latency_summary, median, quantile

__all__ = [
    "MOST_BANDS",
    "MOST_BINS",
    "MOST_POINTS",
    "Band",
    "Beyond",
    "Bin",
    "PartMedian",
    "Percentile",
    "Picture",
    "picture",
]

MOST_POINTS = 2000
MOST_BANDS = 500
MOST_BINS = 40
_FAR = 6.0
"""Times the middle half's width above its upper end: what lies further is counted apart, or it would flatten the rest."""
_MEDIAN_NEEDS = 6
"""The fewest samples that bound a median."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """Iterations `first` to `last` of one phase as their smallest, middle and largest time."""

    first: int
    last: int
    low: float
    middle: float
    high: float


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """How many steady samples lie from `low` and below `high`; in the last bin also at `high`."""

    low: float
    high: float
    count: int


class Beyond(msgspec.Struct, frozen=True, kw_only=True):
    """Steady samples above the last bin: how many, above what, and the largest."""

    count: int
    above: float
    largest: float


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A percentile with its 95 % interval, or null where `has` samples are fewer than it `needs`."""

    needs: int
    has: int
    ms: float | None = None
    low: float | None = None
    high: float | None = None


class PartMedian(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a call, such as `forward_ms`: how many times were kept, and their median."""

    n: int
    median_ms: float


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Raw samples as they can be drawn. `points` are all times in order; beyond `MOST_POINTS` there are `bands` instead.

    `intact` says whether the values give the digest that the event names.
    """

    digest: str
    n: int
    intact: bool
    warmup_n: int
    warmup_ms: float
    steady_from: int
    steady_ms: float
    points: list[float] | None
    bands: list[Band] | None
    histogram: list[Bin]
    beyond: Beyond | None
    percentiles: dict[str, Percentile]
    parts: dict[str, PartMedian]


def picture(recorded: SamplesRecorded, most: int = MOST_POINTS) -> Picture:
    """Return what a picture of the samples needs, with at most `most` points. Raises InvalidInput without any sample."""
    warmup, steady = recorded.warmup, recorded.values
    few = len(warmup) + len(steady) <= most
    bins, beyond = _histogram(sorted(steady))
    return Picture(
        digest=recorded.digest,
        n=recorded.n,
        intact=digest(steady) == recorded.digest,
        warmup_n=len(warmup),
        warmup_ms=math.fsum(warmup),
        steady_from=len(warmup) + 1,
        steady_ms=math.fsum(steady),
        points=[*warmup, *steady] if few else None,
        bands=None if few else _bands(warmup, steady, min(most, MOST_BANDS)),
        histogram=bins,
        beyond=beyond,
        percentiles=_percentiles(steady),
        parts=_parts(recorded.parts),
    )


def _bands(warmup: Sequence[float], steady: Sequence[float], most: int) -> list[Band]:
    """Cut each phase into stretches of one length; none has iterations of both."""
    # One less, because each phase may end in a shorter stretch.
    width = math.ceil((len(warmup) + len(steady)) / max(most - 1, 1))
    return [*_stretches(warmup, 1, width), *_stretches(steady, len(warmup) + 1, width)]


def _stretches(values: Sequence[float], begin: int, width: int) -> list[Band]:
    cut = [(at, values[at : at + width]) for at in range(0, len(values), width)]
    return [
        Band(first=begin + at, last=begin + at + len(some) - 1, low=min(some), middle=median(some), high=max(some))
        for at, some in cut
    ]


def _histogram(ordered: Sequence[float]) -> tuple[list[Bin], Beyond | None]:
    """Return bins of one width (Freedman and Diaconis 1981) and what lies too far above for them."""
    lower, upper = quantile(ordered, 0.25), quantile(ordered, 0.75)
    fence = upper + _FAR * (upper - lower)
    far = [value for value in ordered if value > fence] if upper > lower else []
    near = ordered[: len(ordered) - len(far)]
    beyond = Beyond(count=len(far), above=near[-1], largest=far[-1]) if far else None
    return _bins(near, 2 * (upper - lower) / len(ordered) ** (1 / 3)), beyond


def _bins(ordered: Sequence[float], width: float) -> list[Bin]:
    low, high = ordered[0], ordered[-1]
    if high == low:
        return [Bin(low=low, high=high, count=len(ordered))]
    number = min(MOST_BINS, max(1, math.ceil((high - low) / width))) if width > 0 else MOST_BINS
    step = (high - low) / number
    counts = [0] * number
    for value in ordered:
        # What lies on an edge belongs above it, whatever binary fractions make of the edge.
        counts[min(int((value - low) / step + 1e-9), number - 1)] += 1
    return [Bin(low=low + step * at, high=low + step * (at + 1), count=count) for at, count in enumerate(counts)]


def _percentiles(steady: Sequence[float]) -> dict[str, Percentile]:
    document, has = latency_summary(steady), len(steady)
    bounds = document.ci95 or {}
    percentiles = {}
    for name, needs in {"p50": _MEDIAN_NEEDS, **SAMPLES_NEEDED}.items():
        low, high = bounds.get(name, (None, None))
        percentiles[name] = Percentile(needs=needs, has=has, ms=getattr(document, name), low=low, high=high)
    return percentiles


def _parts(parts: Mapping[str, Sequence[float]]) -> dict[str, PartMedian]:
    return {name: PartMedian(n=len(times), median_ms=median(times)) for name, times in parts.items() if times}
