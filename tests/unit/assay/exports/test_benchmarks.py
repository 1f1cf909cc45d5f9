"""Benchmark files of other tools, and badges."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from assay.exports.writing import badge_of, benchmark_name, bmf, endpoint, github_action, svg, tool
from domain.errors import NotFound, UsageError

ROW = {
    "configuration": "0123456789abcdef0123456789abcdef", "event_id": "e1", "model_id": "acme/tiny", "mode": "inference",
    "batch_size": 8, "hardware_id": "acme-one", "hardware_count": 1, "platform": "cpu", "precision": "fp32",
    "runtime_name": "torch", "origin": "measured", "verdict": "valid", "latency_p50_ms": 2.0,
    "latency_p50_ci95_low_ms": 1.9, "latency_p50_ci95_high_ms": 2.2, "throughput_per_s": 4000.0, "peak_memory_bytes": 5,
}  # fmt: skip
NAME = "acme/tiny inference batch 8 on acme-one cpu fp32 torch [0123456789abcdef0123456789abcdef]"


def test_a_name_is_readable_and_ends_in_the_key():
    assert benchmark_name(ROW) == NAME
    long = benchmark_name({**ROW, "model_id": "m" * 2000})
    assert len(long) == 1024 and long.endswith("[0123456789abcdef0123456789abcdef]")


def test_bmf_has_values_with_their_intervals_and_no_measure_that_is_missing():
    assert bmf([ROW, {**ROW, "configuration": "x", **dict.fromkeys(("latency_p50_ms", "throughput_per_s", "peak_memory_bytes"))}]) == {
        NAME: {
            "latency_p50_ms": {"value": 2.0, "lower_value": 1.9, "upper_value": 2.2},
            "throughput_per_s": {
                "value": 4000.0, "lower_value": pytest.approx(4000 / 1.1), "upper_value": pytest.approx(4000 / 0.95),
            },
            "peak_memory_bytes": {"value": 5.0},
        }
    }  # fmt: skip
    assert bmf([ROW], ["peak_memory_bytes"]) == {NAME: {"peak_memory_bytes": {"value": 5.0}}}


def test_the_action_has_one_direction_a_file():
    (entry,) = github_action([ROW])
    assert (entry["name"], entry["unit"], entry["value"], entry["range"]) == (NAME, "ms", 2.0, "± 0.15")
    assert entry["extra"].splitlines() == ["origin: measured", "verdict: valid", "event: e1"]
    (memory,) = github_action([ROW], ["peak_memory_bytes"])
    assert memory["name"].endswith("] peak_memory_bytes")
    both = github_action([ROW], ["latency_p50_ms", "peak_memory_bytes"])
    assert [one["name"] for one in both] == [f"{NAME} latency_p50_ms", f"{NAME} peak_memory_bytes"]
    assert "range" not in both[1]
    assert (tool([]), tool(["throughput_per_s"])) == ("customSmallerIsBetter", "customBiggerIsBetter")
    for wrong in (["latency_p50_ms", "throughput_per_s"], ["utilisation"], ["speed"]):
        with pytest.raises(UsageError) as refused:
            github_action([ROW], wrong)
        assert refused.value.field == "metric"


def test_a_badge_is_of_the_best_row_and_says_what_it_rests_on():
    slow = {**ROW, "latency_p50_ms": 3.0, "throughput_per_s": 1.0, "event_id": "e2"}
    fake = {**ROW, "latency_p50_ms": 0.1, "origin": "simulated"}
    badge = badge_of([slow, fake, ROW])
    assert (badge.label, badge.message, badge.evidence) == ("tiny on acme-one", "2.00 ms measured", "e1")
    assert badge_of([slow, ROW], "throughput_per_s").message == "4,000/s measured"
    assert badge_of([ROW], "peak_memory_bytes").message.startswith("0.00500 kB")
    doubted = badge_of([{**ROW, "verdict": "suspect"}], label="ours")
    assert (doubted.label, doubted.message) == ("ours", "2.00 ms measured, suspect")
    assert doubted.colour != badge.colour
    with pytest.raises(NotFound, match="ttft_ms"):
        badge_of([ROW], "ttft_ms")


def test_a_badge_as_a_picture_and_for_shields():
    badge = badge_of([{**ROW, "model_id": 'acme/<&"tiny'}])
    root = ElementTree.fromstring(svg(badge))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ['<&"tiny on acme-one', "2.00 ms measured"]
    assert root.get("aria-label") == '<&"tiny on acme-one: 2.00 ms measured'
    assert "batch 8 on acme-one" in root.find("{http://www.w3.org/2000/svg}title").text
    assert "script" not in svg(badge) and "http" not in svg(badge).replace("http://www.w3.org/2000/svg", "")
    told = endpoint(badge)
    assert (told["schemaVersion"], told["message"], told["color"]) == (1, "2.00 ms measured", "1a7f37")
