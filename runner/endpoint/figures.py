"""From exchanges to figures: what a request takes, its first token and the others, what all of them get a second."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from domain.errors import UsageError
from domain.measured import Latency, Metrics
from domain.statistics import latency_summary
from runner.endpoint.exchange import Exchange
from runner.endpoint.load import Course

__all__ = ["Objective", "gaps_ms", "metrics_of", "objective_of", "percentiles", "typical"]

_NAMES = {"ttft": "ttft_ms", "tpot": "tpot_ms", "latency": "latency_ms"}


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """What a request must keep to be good: times in ms; None bounds nothing."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    latency_ms: float | None = None

    def met(self, exchange: Exchange) -> bool:
        """Return whether a request kept all of it; a time that is not known keeps no bound."""
        for name in _NAMES.values():
            bound, value = getattr(self, name), getattr(exchange, name)
            if bound is not None and (value is None or value > bound):
                return False
        return True

    def document(self) -> dict[str, float]:
        """Return the bounds that there are."""
        return {name: bound for name in _NAMES.values() if (bound := getattr(self, name)) is not None}


def objective_of(text: str) -> Objective:
    """Return the objective of `ttft=200,tpot=50,latency=5000` (ms); raises UsageError."""
    matches: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            bound = float(value)
        except ValueError:
            bound = 0.0
        if name not in _NAMES or not 0 < bound < float("inf"):
            raise UsageError(
                f"{part!r} is no objective.", field="slo", remedy="Write ttft=200,tpot=50,latency=5000 (ms)."
            )
        matches[_NAMES[name]] = bound
    return Objective(**matches)


def metrics_of(course: Course, streams: int | None, batch_size: int, objective: Objective | None) -> Metrics:
    """Return the metrics of a course with at least one exchange.

    In a closed loop of `streams` a second has streams ÷ mean latency requests (each stream begins the next as one
    ends); otherwise requests are counted over the time from the first that was due to the end of the last.
    """
    done = course.exchanges
    latencies = [each.latency_ms for each in done]
    a_second = streams / statistics.fmean(latencies) * 1e3 if streams else len(done) / course.elapsed_s
    tokens = statistics.fmean(each.counted for each in done)
    good = sum(objective.met(each) for each in done) / len(done) if objective else None
    return Metrics(
        latency_ms=latency_summary(latencies),
        throughput_per_s=a_second * batch_size,
        tokens_per_s=a_second * tokens if tokens else None,
        ttft_ms=typical([each.ttft_ms for each in done]),
        tpot_ms=typical([each.tpot_ms for each in done]),
        goodput_per_s=a_second * good if good is not None else None,
    )


def typical(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that there are; None where there are none, or where it is 0."""
    matching_values = [value for value in values if value is not None]
    return (statistics.median(matching_values) or None) if matching_values else None


def gaps_ms(exchange: Exchange) -> list[float]:
    """Return the times between the events of one answer: between tokens, where each event is one."""
    return [(later - earlier) / 1e6 for earlier, later in pairwise(exchange.tokens)]


def percentiles(done: Sequence[Exchange]) -> dict[str, dict[str, Any]]:
    """Return mean, percentiles that the samples support, their intervals and n, of TTFT, TPOT and the gaps (`itl_ms`)."""
    series: dict[str, Sequence[float | None]] = {
        "ttft_ms": [each.ttft_ms for each in done],
        "tpot_ms": [each.tpot_ms for each in done],
        "itl_ms": [gap for each in done for gap in gaps_ms(each)],
    }
    matching_values = {name: [value for value in values if value is not None] for name, values in series.items()}
    return {name: _told(latency_summary(values)) for name, values in matching_values.items() if values}


def _told(summary: Latency) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(summary)
    return {name: value for name, value in document.items() if value is not None}
