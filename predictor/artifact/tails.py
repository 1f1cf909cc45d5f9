"""The tail of a call's time: how many times its median the 90th, 95th and 99th percentile are.

Learned from rows whose samples support a percentile, as the logarithm of its distance from the median in log time. That
is positive whatever is predicted, and a device whose calls scatter twice as much lies twice as far at each percentile:
so every percentile teaches one scale, and a step of its own says how much farther out the rarer ones lie. Short calls
scatter more, so the scale has a slope on the logarithm of time; beyond that it is that of the device with this software,
shrunk to the software's and that to the platform's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from domain.statistics import SAMPLES_NEEDED
from predictor.features.dataset import Row
from predictor.learning.shrinkage import Nested

__all__ = ["PERCENTILES", "Tail", "Tails", "fit_tails"]

PERCENTILES = ("p90", "p95", "p99")
BETWEEN, WITHIN = 0.5, 0.6
"""Spreads of the scale in log units: of groups about the one around them, of rows about their group."""
STEPS = {
    "p90": 0.0,
    "p95": math.log(math.log(0.5 / 0.05) / math.log(0.5 / 0.1)),
    "p99": math.log(math.log(0.5 / 0.01) / math.log(0.5 / 0.1)),
}
"""How much farther out than the 90th a percentile lies where the excess over the median is exponential, in log units."""
STEP_SPREAD = 0.25
"""How far the step of real calls may be off that; rows with both percentiles weigh against it."""
STEP_WITHIN = 0.4
LEAST = 1e-3
"""A distance from the median below this counts as this: clocks and quantiles are no finer."""
SLOPE_PENALTY = 20.0
_NORMAL = {0.8: 1.2816, 0.9: 1.6449}


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """A percentile over the median with its interval, and how many rows it rests on, of them with this percentile."""

    ratio: float
    low: float
    high: float
    rows: int
    supporting: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How much farther out than the 90th a percentile lies, the spread of that, and how many rows have it."""

    mean: float
    spread: float
    rows: int


class Tails(msgspec.Struct, frozen=True, kw_only=True):
    """The scale by group, how it falls with log time (in ms) from `centre` on, and the steps between percentiles."""

    scale: Nested
    slope: float
    centre: float
    steps: dict[str, Step]

    def of(self, row: Row, latency_ms: float, percentile: str, nominal: float = 0.8) -> Tail:
        """Return percentile over median of a configuration whose median is known or predicted.

        The interval is about the percentile of a whole run, not about one call.
        """
        result, step = self.scale.at(_path(row)), self.steps[percentile]
        middle = result.mean + step.mean + self.slope * (math.log(latency_ms) - self.centre)
        reach = _NORMAL[nominal] * math.hypot(result.spread, self.scale.within, step.spread)
        low, ratio, high = (math.exp(math.exp(middle + sign * reach)) for sign in (-1, 0, 1))
        return Tail(ratio=ratio, low=low, high=high, rows=result.rows, supporting=step.rows)


def fit_tails(rows: Iterable[Row]) -> Tails | None:
    """Return the tails that rows teach, of a row only the percentiles that its samples support; None without any."""
    seen = [(row, distances) for row in rows if (distances := _distances(row))]
    if not seen:
        return None
    steps = {percentile: _step([document for _, document in seen], percentile) for percentile in PERCENTILES}
    log_time = np.array([math.log(row.latency_ms or 1.0) for row, _ in seen])
    scale = np.array(
        [np.mean([distance - steps[name].mean for name, distance in document.items()]) for _, document in seen]
    )
    centre = float(np.mean(log_time))
    about = log_time - centre
    slope = float(about @ (scale - scale.mean())) / (float(about @ about) + SLOPE_PENALTY)
    paths = [_path(row) for row, _ in seen]
    return Tails(
        scale=Nested.fitted(scale - slope * about, paths, between=BETWEEN, within=WITHIN),
        slope=slope,
        centre=centre,
        steps=steps,
    )


def _distances(row: Row) -> dict[str, float]:
    """Return log(log(percentile / median)) by percentile, of those that the row's samples support."""
    matches: dict[str, float] = {}
    if not row.latency_ms or row.is_mean:
        return matches
    for name in PERCENTILES:
        value = getattr(row, f"latency_{name}_ms")
        if value is not None and value >= row.latency_ms and (row.latency_n or 0) >= SAMPLES_NEEDED[name]:
            matches[name] = math.log(max(math.log(value / row.latency_ms), LEAST))
    return matches


def _step(distances: Sequence[dict[str, float]], percentile: str) -> Step:
    beyond = [
        distance[percentile] - distance["p90"] for distance in distances if percentile in distance and "p90" in distance
    ]
    if percentile == "p90" or not beyond:
        spread = 0.0 if percentile == "p90" else STEP_SPREAD
        supporting = sum(percentile in distance for distance in distances)
        return Step(mean=STEPS[percentile], spread=spread, rows=supporting)
    existing, before = len(beyond) / STEP_WITHIN**2, 1 / STEP_SPREAD**2
    mean = (float(np.median(beyond)) * existing + STEPS[percentile] * before) / (existing + before)
    return Step(mean=mean, spread=math.sqrt(1 / (existing + before)), rows=len(beyond))


def _path(row: Row) -> tuple[str, ...]:
    return (row.platform, f"{row.runtime} {row.precision}".strip(), row.hardware)
