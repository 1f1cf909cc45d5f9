"""Figures of a row: which interval is theirs, what is doubted, and a configuration in words."""

from __future__ import annotations

import math

import msgspec
import pytest

from domain.figures import FIGURES, described, figure_of, interval_of, row_of
from domain.metrics import METRICS
from domain.payloads import MeasurementRecorded

ROW = {
    "model_id": "acme/tiny", "mode": "inference", "batch_size": 8, "sequence_length": 128, "hardware_id": "acme-one",
    "hardware_count": 1, "platform": "cpu", "precision": "fp32", "runtime_name": "torch", "latency_p50_ms": 2.0,
    "latency_p50_ci95_low_ms": 1.9, "latency_p50_ci95_high_ms": 2.2,
}  # fmt: skip


def test_every_metric_has_its_column():
    assert {figure.metric for figure in FIGURES.values()} == set(METRICS)
    assert FIGURES["latency_p50_ms"].interval == ("latency_p50_ci95_low_ms", "latency_p50_ci95_high_ms")
    assert FIGURES["peak_memory_bytes"].steady


def test_an_interval_is_the_columns_own_or_that_of_the_calls():
    assert interval_of(ROW, "latency_p50_ms") == (1.9, 2.2)
    row = {**ROW, "throughput_per_s": 100.0, "tpot_ms": 4.0, "energy_j": 3.0}
    # 2.2 ms instead of 2.0 is a tenth fewer items a second, not a tenth more.
    assert interval_of(row, "throughput_per_s") == pytest.approx((100 / 1.1, 100 / 0.95))
    assert interval_of(row, "tpot_ms") == pytest.approx((3.8, 4.4))
    assert interval_of(row, "energy_j") is None
    assert interval_of({"throughput_per_s": 5.0}, "throughput_per_s") is None


@pytest.mark.parametrize(("n", "half"), [(6, 2.6 * 0.6 / math.sqrt(6)), (5, None), (None, None)])
def test_a_mean_has_the_interval_of_its_deviation_from_six_samples_on(n, half):
    row = {"latency_mean_ms": 10.0, "latency_stddev_ms": 0.6, "latency_n": n}
    assert interval_of(row, "latency_mean_ms") == (None if half is None else pytest.approx((10 - half, 10 + half)))


def test_doubts_are_the_metrics_own_and_else_the_rows():
    judged = {"latency_ms": {"verdict": "suspect", "reasons": ["drifting"]}, "peak_memory_bytes": {"verdict": "valid"}}
    row = {**ROW, "peak_memory_bytes": 100, "verdict": "suspect", "verdict_reasons": '["drifting"]'}
    row["metric_verdicts"] = msgspec.json.encode(judged).decode()
    assert figure_of(row, "latency_p50_ms").doubts == ["drifting"]
    assert figure_of(row, "peak_memory_bytes").doubts == []
    row["metric_verdicts"] = None
    assert figure_of(row, "peak_memory_bytes").doubts == ["drifting"]
    assert figure_of({**ROW, "verdict": None}, "latency_p50_ms").doubts == []


def test_a_row_in_words():
    assert described(ROW) == "acme/tiny inference batch 8 sequence 128 on acme-one cpu fp32 torch"
    more = {**ROW, "hardware_count": 2, "threads": 4, "compiled": True, "batch_size": 1_000_000}
    assert described(more) == (
        "acme/tiny inference batch 1000000 sequence 128 on 2x acme-one cpu fp32 torch compiled 4 threads"
    )


def test_an_events_figures_are_those_of_its_row(build):
    data = build.measurement(1.5)["data"]
    data["metrics"] |= {"throughput_per_s": 10.0, "peak_memory_bytes": 7}
    row = row_of(msgspec.convert(data, MeasurementRecorded))
    assert (row["latency_p50_ms"], row["latency_n"], row["throughput_per_s"], row["peak_memory_bytes"]) == (
        1.5,
        60,
        10.0,
        7,
    )
    assert interval_of(row, "latency_p50_ms") == pytest.approx((1.485, 1.515))
    assert row["verdict"] == "valid"
