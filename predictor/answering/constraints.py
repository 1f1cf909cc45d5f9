"""What an answer has to meet, and how likely an option meets it.

An estimate has an interval, so that a limit within it is neither met nor missed but met with a probability
(`predictor.choosing.chance`, where docs/choices.md says what such promises are worth). A measurement is as sure as its repeats: the interval of its median, and the
spread from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

from domain.vocabulary import asked_name
from predictor.answering.option import Option
from predictor.answering.question import LIMITS, Question
from predictor.choosing.chance import chance_below

__all__ = ["SEEN", "Constraint", "Figure", "constraints_of", "memory", "spread_of", "throughput"]

RUN_TO_RUN = 0.02
"""Spread of the same configuration from run to run on a quiet machine, in log units; a judgement from `assay noise`."""
REPORTED = 0.05
"""The same of a figure that came without an interval."""
UNCHECKED = 2.0
"""An interval that no measurement has checked counts as this much wider; a judgement."""
_NORMAL = NormalDist()
_OF_80, _OF_95 = 2 * _NORMAL.inv_cdf(0.9), 2 * _NORMAL.inv_cdf(0.975)
SEEN = ("measured", "imported")
"""The bases of figures that somebody saw."""


class Figure(NamedTuple):
    """A value with the interval of its option, in the unit of its constraint; None is not known."""

    value: float | None
    low: float | None = None
    high: float | None = None
    exact: bool = False
    """Whether it is no estimate: a price, a rating."""


class Constraint(NamedTuple):
    """One limit of a question: a field, its value and unit, and the figure of an option that it bounds."""

    name: str
    limit: float
    unit: str
    of: Callable[[Option], Figure]

    @property
    def at_least(self) -> bool:
        """Whether the figure must reach the limit; else it must stay under it."""
        return self.name.startswith("min_")

    def probability(self, option: Option) -> float | None:
        """Return how likely the option meets the limit; None where that is not known."""
        return self.chance(option, self.of(option))

    def chance(self, option: Option, figure: Figure) -> float | None:
        """Return the probability for the option's figure, which is at hand."""
        if figure.value is None:
            return None
        met = figure.value >= self.limit if self.at_least else figure.value <= self.limit
        if figure.exact:
            return float(met)
        if figure.value <= 0:
            return float(met)
        if option.basis in SEEN:
            room = math.log(self.limit / figure.value) / seen_spread(figure)
            return _NORMAL.cdf(-room if self.at_least else room)
        timed = self.name.endswith(("latency_ms", "throughput_per_s"))
        wider = 1.0 if option.covered or (timed and (option.slow_host or option.bounded)) else UNCHECKED
        under = chance_below(figure.value, figure.low, figure.high, self.limit, wider=wider)
        return under if under is None or not self.at_least else 1 - under

    def excess(self, option: Option) -> float:
        """Return how many times over the limit the figure is, 1 where it is within; infinite where it is not known."""
        return self.over(self.of(option).value)

    def over(self, value: float | None) -> float:
        """Return the same of a value that is at hand."""
        if value is None or (self.at_least and value <= 0):
            return math.inf
        if self.limit <= 0:
            return 1.0 if value <= self.limit else math.inf
        return max(1.0, self.limit / value if self.at_least else value / self.limit)

    def describe(self, option: Option) -> str:
        """Return the figure against the limit in words."""
        if self.name == "max_quality_loss_pt":
            return _quality_told(option, self.limit)
        figure = self.of(option)
        if figure.value is None:
            return "the figure is not known"
        return f"{figure.value:.4g} {self.unit} against {self.limit:g}"


def seen_spread(figure: Figure) -> float:
    """Return the standard deviation of the log of a figure that somebody saw."""
    if figure.low is None or figure.high is None or not 0 < figure.low <= figure.high:
        return REPORTED
    return math.hypot(RUN_TO_RUN, math.log(figure.high / figure.low) / _OF_95)


def spread_of(option: Option, figure: Figure) -> float | None:
    """Return the standard deviation of the log of a figure; None for an estimate that has no interval."""
    if option.basis in SEEN:
        return seen_spread(figure)
    if figure.low is None or figure.high is None or not 0 < figure.low <= figure.high:
        return None
    spread = max(math.log(figure.high / figure.low) / _OF_80, RUN_TO_RUN)
    return spread if option.covered or option.slow_host or option.bounded else UNCHECKED * spread


def constraints_of(question: Question) -> list[Constraint]:
    """Return the limits of a checked question, in the order of LIMITS."""
    limits = {name: getattr(question, name) for name in LIMITS}
    return [Constraint(name, float(limit), *_OF[name]) for name, limit in limits.items() if limit is not None]


def throughput(option: Option) -> Figure:
    """Return items a second; its interval is that of the latency, turned over."""
    rate, latency = option.throughput_per_s, option.latency_ms
    if not rate or not latency or not option.low_ms or not option.high_ms:
        return Figure(rate)
    return Figure(rate, rate * latency / option.high_ms, rate * latency / option.low_ms)


def memory(option: Option) -> Figure:
    """Return megabytes of one device at the peak."""
    return Figure(_mb(option.peak_memory_bytes), _mb(option.memory_low_bytes), _mb(option.memory_high_bytes))


def _quality_loss(option: Option) -> Figure:
    """Return the upper end of the loss in points: what the data do not rule out counts."""
    if option.is_reference:
        return Figure(0.0, exact=True)
    loss = option.quality
    return Figure(None) if loss is None or loss.unit != "pt" else Figure(loss.high, exact=True)


def _quality_told(option: Option, limit: float) -> str:
    loss = option.quality
    if loss is None:
        if made := option.variant:
            return f"its quality was never evaluated: assay compress {made.base} --recipe {made.recipe} --eval DATA"
        platform = asked_name(option.platform, (option.runtime or "").lower())
        how = f"--precision {option.precision} --platform {platform} --eval DATA"
        return f"its quality was never evaluated: assay compress MODEL {how}"
    if loss.unit != "pt":
        return f"its loss is known in {loss.unit} of {loss.metric} alone: {loss.text()}"
    needed = loss.examples_needed(limit)
    if needed is None:
        return f"it loses {loss.text()} against {limit:g}"
    return f"it loses {loss.text()}: too few examples to show {limit:g}, about {needed:,} would be needed"


def _mb(value: float | None) -> float | None:
    return None if value is None else value / 1e6


_OF: dict[str, tuple[str, Callable[[Option], Figure]]] = {
    "max_latency_ms": ("ms", lambda item: Figure(item.latency_ms, item.low_ms, item.high_ms)),
    "max_ttft_ms": ("ms", lambda item: Figure(item.ttft_ms, item.ttft_low_ms, item.ttft_high_ms)),
    "max_tpot_ms": ("ms", lambda item: Figure(item.tpot_ms, item.tpot_low_ms, item.tpot_high_ms)),
    "min_throughput_per_s": ("items/s", throughput),
    "min_tokens_per_s": (
        "tokens/s",
        lambda item: Figure(item.tokens_per_s, item.tokens_low_per_s, item.tokens_high_per_s),
    ),
    "max_memory_mb": ("MB", memory),
    "max_power_w": ("W", lambda item: Figure(item.rated_power_w, exact=True)),
    "max_usd_per_hour": ("USD/h", lambda item: Figure(item.usd_per_hour, exact=True)),
    "max_quality_loss_pt": ("pt", _quality_loss),
    "max_size_mb": ("MB", lambda item: Figure(_mb(item.size_bytes), exact=True)),
}
