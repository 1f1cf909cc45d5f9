"""The rules of MLPerf's scenarios, on latencies whose percentiles are known."""

from __future__ import annotations

import pytest

from runner.measure.scenarios import Rule, result_of

HUNDREDTHS = [float(value) for value in range(1, 1001)]


def test_a_server_run_is_valid_where_its_percentile_is_within_the_bound() -> None:
    found = result_of(Rule(scenario="server", target_latency_ms=991.0, target_qps=10.0), HUNDREDTHS, 100.0)
    assert found["result"] == "valid"
    assert found["percentile"] == "p99"
    assert found["percentile_ms"] == pytest.approx(990.01)
    assert found["target_qps"] == 10.0


@pytest.mark.parametrize(
    ("rule", "duration_s", "reason"),
    [
        (Rule(scenario="server", target_latency_ms=990.0), 100.0, "p99 of 990 ms is above 990 ms"),
        (Rule(scenario="server", min_duration_s=120.0), 100.0, "lasted 100.0 s, less than 120 s"),
        (Rule(scenario="offline", min_queries=1001), 100.0, "1000 queries, fewer than 1001"),
        (Rule(scenario="single_stream", target_latency_ms=900.0), 100.0, "p90"),
    ],
)
def test_each_rule_that_is_not_kept_is_named(rule: Rule, duration_s: float, reason: str) -> None:
    found = result_of(rule, HUNDREDTHS, duration_s)
    assert found["result"] == "invalid"
    assert reason in found["reasons"][0]


def test_too_few_queries_bound_no_percentile() -> None:
    found = result_of(Rule(scenario="server", target_latency_ms=1e6), HUNDREDTHS[:458], 100.0)
    assert found["result"] == "invalid"
    assert "458 queries cannot bound p99; 459 can" in found["reasons"]
    assert "percentile_ms" not in found


def test_a_shorter_run_than_mlperf_asks_for_says_so() -> None:
    assert result_of(Rule(scenario="offline"), HUNDREDTHS, 599.0)["mlperf"] is False
    assert result_of(Rule(scenario="offline"), HUNDREDTHS, 600.0)["mlperf"] is True
    assert result_of(Rule(scenario="offline"), HUNDREDTHS[:99], 600.0)["mlperf"] is False
