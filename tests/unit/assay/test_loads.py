"""Loads in words: how requests came, what a scenario came to, and whose word the hardware is."""

from __future__ import annotations

from presentation import formatting, loads

SERVER = {
    "scenario": "server", "result": "invalid", "reasons": ["p99 of 31 ms is above 15 ms"], "queries": 512,
    "duration_s": 128.0, "target_latency_ms": 15.0, "percentile": "p99", "percentile_ms": 31.0, "mlperf": False,
}  # fmt: skip


def told(**data):
    return {name: formatting.plain(words) for name, words in loads.lines(data)}


def test_a_scenario_at_an_endpoint_is_told_with_its_rule_its_load_and_whose_word_the_hardware_is():
    details = {"scenario": SERVER, "api": "openai", "requests": 512, "failed_requests": 2}
    found = told(
        workload={"scenario": "server", "arrival_rate_per_s": 4.0}, observed={"device": "stated", "details": details},
        provenance={"source": "assay-runner 0.1"},
    )  # fmt: skip
    assert found == {
        "Scenario": "server: they arrive by themselves",
        "Requests": "4 requests/s",
        "By its rules": "invalid: p99 of 31 ms is above 15 ms; 512 queries in 128 s; shorter than MLPerf asks",
        "Made by": "assay-runner 0.1, over openai; 512 requests, 2 failed",
        "Hardware": "stated by the operator, not seen",
    }


def test_a_plain_row_of_this_machine_has_its_scenario_alone():
    assert told(workload={"scenario": "single_stream"}, observed={"device": "cuda:0"}) == {
        "Scenario": "single stream: one after another"
    }


def test_a_rate_is_never_taken_for_a_number_of_streams():
    assert loads.arrivals({"arrival_rate_per_s": 4.0, "concurrency": None}) == "4 requests/s"
    assert loads.arrivals({"concurrency": 8}) == "8 at a time"
    assert loads.arrivals({"batch_size": 1}) is None
    named = [{"batch_size": 1, "arrival_rate_per_s": 4.0}, {"batch_size": 8}, {"concurrency": 8}, {}]
    assert [loads.batch_words(row) for row in named] == [
        "batch 1 · 4 requests/s",
        "batch 8",
        "8 at a time",
        "batch unknown",
    ]


def test_stated_hardware_says_so_wherever_it_is_named():
    for row in ({"device": "stated"}, {"hardware_stated": True}, {"observed": {"device": "stated"}}):
        assert loads.hardware_words(row, "nvidia-l4") == "nvidia-l4 (stated)"
    assert loads.hardware_words({"device": "cuda:0", "hardware_stated": False}, "nvidia-l4") == "nvidia-l4"
