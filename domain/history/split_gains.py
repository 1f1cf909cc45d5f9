"""What the detector counts: the gains of splits under three costs, noise, its autocorrelation, and the fit of a ramp.

All take the values up to each point alone, so that what was found in a shorter series is found in a longer one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "MIN_AFTER",
    "MIN_BEFORE",
    "OUTLIER",
    "WINDOW",
    "Gains",
    "dependence_of",
    "kernel_gain",
    "level_of",
    "median",
    "noise_of",
    "prefix_medians",
    "ramp_loss",
    "reach_of",
    "smoothed",
    "split_gains",
]

MIN_BEFORE = 6
MIN_AFTER = 5
"""Points on each side of a split; of those after it, this many must lie nearer to the new level than to the old, and of fewer than
eight as many within the noise of each other: outliers in a row do not."""
CLIP = 3.0
OUTLIER = 3.5
"""In standard deviations of the noise: where values are clipped, and beyond what they are outliers of their level."""
NOISE_FLOOR = 0.005
"""The least noise of a logarithm: one half of a percent."""
TREND = 0.7
"""Autocorrelation is that about a line where the line has more than this share of the squares, so that a drift hides no drift."""
WINDOW = 256
"""The newest points of a level that are looked at."""
_TRIMMED = 0.8
_TRIMMED_VARIANCE = 0.4378
"""The variance of a standard normal value among the smallest 80 % by absolute value."""
_WITHIN_THREE = 0.9733
_KERNEL = 0.91
"""The median squared distance of two normal values, in variances of one."""


class Gains(NamedTuple):
    """The statistics of all splits, one row for each count of known values; columns are counts of points before the split."""

    begin: int
    l2: Floats
    rank: Floats
    medians: Floats
    noise: Floats


def median(values: Floats) -> float:
    """Return the median; `numpy.median` takes three times as long for so few values."""
    ordered = values.copy()
    ordered.sort()
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def level_of(values: Floats, noise: float) -> float:
    """Return the mean of the values without outliers."""

    middle = median(values)
    near = values[abs(values - middle) <= OUTLIER * noise]
    return float(near.mean()) if len(near) else middle


def dependence_of(values: Floats, place: int, noise: float) -> float:
    """Return by how much autocorrelation inflates the variance of a mean, from the residuals of both sides."""
    import numpy as np

    residuals = []
    for side in (values[:place], values[place:]):
        scaled = (side - median(side)) / noise
        times = np.arange(len(side)) - (len(side) - 1) / 2
        line = times * (times @ smoothed(scaled)) / (times @ times)
        near = np.clip(scaled, -CLIP, CLIP)
        if line @ line > TREND * (near @ near):
            near = np.clip(scaled - line, -CLIP, CLIP)
        residuals.append(near - near.mean())
    errors = np.concatenate(residuals)
    squares = float((errors**2).sum())
    first = float((errors[1:] * errors[:-1]).sum()) / squares if squares else 0.0
    lag = min(max(first + (1 + 3 * max(first, 0.0)) / len(errors), 0.0), 0.8)
    return (1 + lag) / (1 - lag)


def smoothed(values: Floats) -> Floats:
    """Return running medians of three."""
    import numpy as np

    middle = np.maximum(
        np.minimum(values[:-2], values[1:-1]), np.minimum(np.maximum(values[:-2], values[1:-1]), values[2:])
    )
    return np.concatenate([middle[:1], middle, middle[-1:]])


def noise_of(values: Floats, known: range, logarithm: bool) -> Floats:
    """Return the noise of the first n values for each n in `known`, from differences of values in a row without the largest."""
    import numpy as np

    first = max(0, known[0] - 1 - WINDOW)
    steps = abs(np.diff(values[first : known[-1]], prepend=values[first] if known[-1] < 2 else ()))
    counts = np.arange(known[0], known[-1] + 1) - 1 - first
    ordered = np.where(np.arange(len(steps)) < counts[:, None], steps, np.inf)
    ordered.sort(axis=1)
    squares = np.where(np.isfinite(ordered), ordered, 0.0) ** 2
    kept = np.maximum((counts * _TRIMMED).astype(int), 1)
    trimmed = np.cumsum(squares, axis=1)[np.arange(len(counts)), kept - 1] / kept / _TRIMMED_VARIANCE
    within = ordered <= CLIP * np.sqrt(trimmed)[:, None]
    # A cumulative sum, unlike a sum, does not depend on how many zeros follow.
    noise = np.sqrt(np.cumsum(squares * within, axis=1)[:, -1] / np.maximum(within.sum(axis=1), 1) / 2 / _WITHIN_THREE)
    least = 1e-9 * abs(median(values[first : known[0]])) + 1e-300
    floored: Floats = np.maximum(noise, NOISE_FLOOR if logarithm else least)
    return floored


def reach_of(noise: Floats, known: range, first: int) -> Floats:
    """Return how far from the median a point is suspect."""
    import numpy as np

    counts = np.arange(known[0], known[-1] + 1) - first
    reach: Floats = OUTLIER * noise * np.sqrt(1 + 1 / counts)
    return reach


def prefix_medians(values: Floats, fewest: int) -> Floats:
    """Return the medians of the first n values, for each n from `fewest` to all."""
    import numpy as np

    counts = np.arange(fewest, len(values) + 1)
    ordered = np.where(np.arange(len(values)) < counts[:, None], values, np.inf)
    ordered.sort(axis=1)
    rows = np.arange(len(counts))
    return (ordered[rows, (counts - 1) // 2] + ordered[rows, counts // 2]) / 2


def split_gains(everything: Floats, begin: int, known: range, logarithm: bool) -> Gains:
    """Return the gains of both costs that need no kernel, for every split after each count of known values."""
    import numpy as np

    values = everything[begin : known[-1]]
    counts = (np.arange(known[0], known[-1] + 1) - begin)[:, None]
    noise, medians = noise_of(everything, known, logarithm), prefix_medians(values, known[0] - begin)
    inside = np.arange(len(values)) < counts
    before = np.arange(1, len(values) + 1)[None, :]
    possible = (before >= MIN_BEFORE) & (counts - before >= MIN_AFTER)
    products = np.where(possible, before * (counts - before), 1)

    clipped = np.clip((values - medians[:, None]) / noise[:, None], -CLIP, CLIP) * inside
    sums = np.cumsum(clipped, axis=1)
    excess = sums * counts - sums[:, -1:] * before
    l2 = np.where(possible, excess**2 / (products * counts), 0.0)

    smaller = (values[:, None] < values) + 0.5 * (values[:, None] == values)
    ranks = (np.cumsum(smaller, axis=0)[counts[:, 0] - 1] - counts / 2) * inside
    rank = np.where(possible, np.cumsum(ranks, axis=1) ** 2 * 12 / (products * (counts + 1)), 0.0)
    return Gains(begin, l2, rank, medians, noise)


def kernel_gain(values: Floats, noise: float) -> tuple[float, int]:
    """Return the largest gain of the kernel's cost, and the count of points before that split."""
    import numpy as np

    kernel = np.exp(-(((values[:, None] - values) / noise) ** 2) / _KERNEL)
    sums = np.pad(kernel.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    count = len(values)
    before = np.arange(MIN_BEFORE, count - MIN_AFTER + 1)
    within = sums[before, before] / before
    after = (sums[count, count] - 2 * sums[before, count] + sums[before, before]) / (count - before)
    gains = within + after - sums[count, count] / count
    best = int(gains.argmax())
    return float(gains[best]), int(before[best])


def ramp_loss(values: Floats) -> float:
    """Return the least loss of a level, a straight ramp and a level, over the places where the ramp begins and ends."""
    import numpy as np

    count = len(values)
    begins, ends = np.meshgrid(np.arange(0, count, 2), np.arange(0, count + 1, 2), indexing="ij")
    apart = ends - begins >= MIN_AFTER
    ramps = np.clip((np.arange(count) - begins[apart][:, None]) / (ends - begins)[apart][:, None], 0, 1)
    if not len(ramps):
        return math.inf
    centred = ramps - ramps.mean(axis=1, keepdims=True)
    slopes = (centred @ (values - values.mean())) / (centred**2).sum(axis=1)
    fits = values.mean() + slopes[:, None] * centred
    return float(((values - fits) ** 2).sum(axis=1).min())
