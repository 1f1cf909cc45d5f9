"""MLPerf's scenarios on this machine: a real model in a real child, and what its row says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.campaign.bench import run_plan
from runner.campaign.plan import Sweep, make_plan
from runner.measure.stopping import Method


@pytest.mark.torture
def test_a_server_run_is_timed_from_arrivals_and_held_to_its_rule(tmp_path: Path) -> None:
    plan = make_plan(
        Sweep(models=("prajjwal1/bert-tiny",), platforms=("cpu",), sequence_lengths=(16,), scenario="server", target_qps=(40.0,)),
        weights="random",
        method=Method(iterations=60, target_latency_ms=1e-3),
    )  # fmt: skip
    events: list[dict[str, Any]] = []
    assert run_plan(plan, events.append, cache=tmp_path).done == 1
    (row,) = [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    assert row["workload"]["scenario"] == "server"
    assert row["workload"]["arrival_rate_per_s"] == 40
    assert row["conditions"]["due"] == "arrival"
    # What is done is what arrived, or less: never one over the time of a call.
    assert row["metrics"]["throughput_per_s"] < 80
    assert "roofline_share" not in row["metrics"]
    result = row["observed"]["details"]["scenario"]
    assert result["result"] == "invalid"
    assert result["reasons"] == ["60 queries cannot bound p99; 459 can"]
    assert result["queries"] == row["samples"]["n"] == 60
