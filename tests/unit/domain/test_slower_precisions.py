"""Precisions that are slower than fp32: what is compared with what, and what is said."""

from __future__ import annotations

import json

import pytest

from domain.comparison.slower_precisions import slower_precisions, software_words

WEB = {"browser": "chromium", "browser_version": "153.0"}
INT8 = {"quantization": "onnxruntime.quantize_dynamic", "weights": "int8"}


def row(precision, p50, *, spread=0.02, options=None, **over):
    return {
        "event_id": f"{precision}-{p50}",
        "position": 1,
        "model_id": "bert",
        "hardware_id": "here",
        "platform": "webnn",
        "precision": precision,
        "precision_asked": precision,
        "runtime_name": "onnxruntime-web",
        "batch_size": 1,
        "options": options,
        "latency_p50_ms": p50,
        "latency_p50_ci95_low_ms": p50 * (1 - spread),
        "latency_p50_ci95_high_ms": p50 * (1 + spread),
        "verdict": "valid",
        "origin": "measured",
    } | over


def test_a_slower_precision_has_both_figures_their_ratio_and_its_interval():
    (slower,) = slower_precisions(
        [row("fp32", 1.75, options=WEB), row("int8", 8.3, options=json.dumps({**WEB, **INT8}))]
    )
    assert (slower.precision, slower.browser, slower.evidence) == ("int8", "chromium", ["int8-8.3", "fp32-1.75"])
    assert slower.ratio == pytest.approx(8.3 / 1.75)
    assert slower.ratio_low == pytest.approx(8.3 * 0.98 / (1.75 * 1.02))
    assert slower.ratio_high == pytest.approx(8.3 * 1.02 / (1.75 * 0.98))
    for word in ("8.3 ms", "1.75 ms", "4.74", "webnn (onnxruntime-web in chromium)"):
        assert word in slower.sentence
    assert "suspect" not in slower.sentence


@pytest.mark.parametrize(
    "other",
    [
        row("int8", 1.0),
        row("int8", 2.0, spread=0.5),
        row("int8", 2.0, platform="wasm"),
        row("int8", 2.0, runtime_name="onnxruntime"),
        row("int8", 2.0, options={"browser": "firefox"}),
        row("int8", 2.0, hardware_id="there"),
        row("int8", 2.0, batch_size=8),
        row("int8", 2.0, audio_seconds=30.0),
        row("int8", 2.0, threads=4),
        row("int8", 2.0, verdict="invalid"),
        row("int8", 2.0, origin="simulated"),
        row("int8", 2.0, precision_asked="int4"),
        row("int8", 2.0, latency_p50_ci95_low_ms=None),
    ],
)
def test_what_is_faster_undecided_or_other_work_is_not_called_slower(other):
    assert slower_precisions([row("fp32", 1.0), other]) == []


def test_a_valid_row_counts_before_a_newer_suspect_one_and_a_suspect_pair_says_so():
    old, new = row("int8", 2.0), row("int8", 9.0, verdict="suspect", position=2)
    (slower,) = slower_precisions([row("fp32", 1.0), old, new])
    assert (slower.latency_ms, slower.verdict) == (2.0, "valid")
    (slower,) = slower_precisions([row("fp32", 1.0), new])
    assert slower.verdict == "suspect"
    assert "suspect" in slower.sentence


def test_the_worst_ratio_comes_first():
    rows = [row("fp32", 1.0), row("int8", 2.0), row("int4", 3.0)]
    assert [slower.precision for slower in slower_precisions(rows)] == ["int4", "int8"]


def test_software_is_named_where_it_is_not_the_platform():
    assert software_words("openvino", "openvino") == "openvino"
    assert software_words("cpu", "torch") == "cpu (torch)"
    assert software_words("cpu", None) == "cpu"
