"""Scenarios as MLPerf Inference means them, and the rules by which a run of one is valid.

Single stream: the next query when the last is done; the figure is the 90th percentile of latency. Offline: all queries
are there from the start; the figure is throughput. Server: queries come by a Poisson process at a target rate, and
latency counts from the moment at which each was due; valid where the 99th percentile is within the bound. A run lasts
600 s and has 100 queries at the least in MLPerf (mlcommons/inference, `mlperf.conf`); both are selectable here, and a
run that was asked for less says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from domain.configuration import Workload
from domain.statistics import SAMPLES_NEEDED, quantile
from runner.measure.stopping import Method

__all__ = ["MLPERF_DURATION_S", "MLPERF_QUERIES", "PERCENTILES", "Rule", "result_of", "scenario_result"]

MLPERF_DURATION_S = 600.0
MLPERF_QUERIES = 100
PERCENTILES = {"single_stream": "p90", "server": "p99"}
"""The percentile that is the figure of a scenario; offline has a rate."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a run of a scenario valid. `target_latency_ms` bounds its percentile; None: nothing bounds it."""

    scenario: str
    min_duration_s: float = 0.0
    min_queries: int = 0
    target_latency_ms: float | None = None
    target_qps: float | None = None


def result_of(rule: Rule, latencies_ms: Sequence[float], duration_s: float) -> dict[str, Any]:
    """Return `result` (`valid` or `invalid`), the `reasons` why it is invalid, and what it was held against.

    `mlperf` says whether duration and number of queries are also those that MLPerf asks for.
    """
    name = PERCENTILES.get(rule.scenario)
    n = len(latencies_ms)
    value = quantile(sorted(latencies_ms), int(name[1:]) / 100) if name and n >= SAMPLES_NEEDED[name] else None
    reasons = []
    if duration_s < rule.min_duration_s:
        reasons.append(f"it lasted {duration_s:.1f} s, less than {rule.min_duration_s:g} s")
    if n < rule.min_queries:
        reasons.append(f"{n} queries, fewer than {rule.min_queries}")
    if name and rule.target_latency_ms is not None:
        if value is None:
            reasons.append(f"{n} queries cannot bound {name}; {SAMPLES_NEEDED[name]} can")
        elif value > rule.target_latency_ms:
            reasons.append(f"{name} of {value:.4g} ms is above {rule.target_latency_ms:g} ms")
    document = {
        "scenario": rule.scenario,
        "result": "invalid" if reasons else "valid",
        "reasons": reasons,
        "queries": n,
        "duration_s": round(duration_s, 3),
        "min_duration_s": rule.min_duration_s,
        "min_queries": rule.min_queries,
        "target_latency_ms": rule.target_latency_ms,
        "target_qps": rule.target_qps,
        "percentile": name,
        "percentile_ms": value,
        "mlperf": duration_s >= MLPERF_DURATION_S and n >= MLPERF_QUERIES,
    }
    return {key: result for key, result in document.items() if result is not None}


def scenario_result(
    workload: Workload, method: Method, latencies_ms: Sequence[float], elapsed_s: float
) -> dict[str, Any] | None:
    """Return the result of a run of a scenario on this machine; None of a plain one that nothing was asked of."""
    min_duration_s = method.min_duration_s or method.min_queries or method.target_latency_ms
    if workload.scenario not in ("offline", "server") and not min_duration_s:
        return None
    rule = Rule(
        scenario=workload.scenario or "single_stream",
        min_duration_s=method.min_duration_s,
        min_queries=method.min_queries,
        target_latency_ms=method.target_latency_ms,
        target_qps=workload.arrival_rate_per_s,
    )
    return result_of(rule, latencies_ms, elapsed_s)
