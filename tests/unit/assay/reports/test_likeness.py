from __future__ import annotations

from typing import Any

import pytest

from presentation.reports import likeness


def test_over_the_cpu_takes_the_cpu_of_the_same_hardware(row: Any) -> None:
    rows = [row(20.0), row(5.0, hardware_id="acme-fast"), row(4.0, platform="openvino")]
    (pair,) = likeness.over_cpu(rows)
    assert (pair["factor"], pair["baseline"], pair["own_cpu"]) == (5.0, "acme-one · cpu · fp32", True)


def test_over_the_cpu_takes_the_fastest_cpu_where_the_hardware_has_none(row: Any) -> None:
    rows = [row(20.0), row(8.0, hardware_id="acme-fast"), row(2.0, hardware_id="acme-gpu", platform="cuda")]
    (pair,) = likeness.over_cpu(rows)
    assert (pair["factor"], pair["baseline_hardware"], pair["own_cpu"]) == (4.0, "acme-fast", False)
    assert pair["evidence"] == rows[2]["evidence"] + rows[1]["evidence"]


@pytest.mark.parametrize(
    "unlike",
    [{"batch_size": 8}, {"sequence_length": 64}, {"precision": "fp16"}, {"mode": "training"}, {"model_id": "acme/other"},
     {"scenario": "offline"}, {"image_size": 224}],
)  # fmt: skip
def test_unlike_work_is_never_compared(row: Any, unlike: dict[str, Any]) -> None:
    assert likeness.over_cpu([row(20.0), row(2.0, platform="cuda", **unlike)]) == []
    assert likeness.contests([row(20.0), row(2.0, platform="cuda", **unlike)]) == [] or "precision" in unlike
    assert likeness.rivals([row(20.0), row(2.0, hardware_id="acme-gpu", platform="cuda", **unlike)]) == []


def test_a_compiled_cpu_is_no_baseline_and_has_one(row: Any) -> None:
    (pair,) = likeness.over_cpu([row(20.0), row(10.0, compiled=True)])
    assert (pair["factor"], pair["differs"]) == (2.0, "compiled yes / no")
    assert likeness.over_cpu([row(10.0, compiled=True), row(5.0, platform="openvino")]) == []


def test_the_interval_of_a_ratio_spans_both_sides_and_is_missing_without_one_of_them(row: Any) -> None:
    found = likeness.ratio(row(5.0), row(10.0))
    assert found["factor"] == 2.0
    assert found["factor_low"] == pytest.approx(9.9 / 5.05)
    assert found["factor_high"] == pytest.approx(10.1 / 4.95)
    bare = row(5.0, latency_p50_ci95_low_ms=None, latency_p50_ci95_high_ms=None)
    assert likeness.ratio(bare, row(10.0)) == {"factor": 2.0, "factor_low": None, "factor_high": None}


def test_throughput_stands_in_where_a_latency_is_unknown(row: Any) -> None:
    only = row(None, latency_mean_ms=None, throughput_per_s=400.0)
    assert likeness.ratio(only, row(10.0))["factor"] == 4.0
    assert likeness.ratio(row(None, latency_mean_ms=None, throughput_per_s=None), row(10.0))["factor"] is None


def test_what_differs_is_named_with_both_values(row: Any) -> None:
    imported = row(5.0, origin="imported", threads=None, runtime_version="2.4")
    assert (
        likeness.differing(imported, row()) == "version 2.4 / 2.13.0, threads not said / 2, origin imported / measured"
    )


def test_fp32_is_the_baseline_only_with_the_same_software(row: Any) -> None:
    pair = likeness.over_fp32([row(10.0), row(5.0, precision="bf16", peak_memory_bytes=250_000_000)])[0]
    assert (pair["factor"], pair["memory_ratio"], pair["baseline_precision"]) == (2.0, 0.5, "fp32")
    for other in ({"runtime_version": "2.4"}, {"threads": 8}, {"compiled": True}, {"platform": "openvino"}):
        assert likeness.over_fp32([row(10.0), row(5.0, precision="bf16", **other)]) == []


def test_how_weights_were_quantised_follows_from_the_precision_and_hides_no_baseline(row: Any) -> None:
    chromium, quantised = (
        {"browser": "chromium"},
        {"browser": "chromium", "quantization": "onnxruntime.quantize_dynamic"},
    )
    (pair,) = likeness.over_fp32([row(1.75, options=chromium), row(8.3, precision="int8", options=quantised)])
    assert (pair["factor"], pair["differs"]) == (pytest.approx(1.75 / 8.3), None)
    other = row(8.3, precision="int8", options={**quantised, "browser": "firefox"})
    assert likeness.over_fp32([row(1.75, options=chromium), other]) == []


def test_a_training_step_is_counted_in_inference_calls(row: Any) -> None:
    step = row(30.0, mode="training", scenario=None, optimizer="adamw")
    (pair,) = likeness.training_over_inference([row(10.0), step])
    assert pair["factor"] == pytest.approx(3.0)
    assert pair["factor_low"] < 3.0 < pair["factor_high"]
    assert pair["mode"] == "training"
    assert likeness.training_over_inference([row(10.0, batch_size=4), step]) == []


def test_scaling_follows_one_configuration_over_its_batches(row: Any) -> None:
    rows = [
        row(10.0, batch_size=1),
        row(20.0, batch_size=4),
        row(40.0, batch_size=16),
        row(99.0, batch_size=8, threads=8),
    ]
    (series,) = likeness.scaling(rows)
    assert (series["batch_from"], series["batch_to"], series["best_batch"]) == (1, 16, 16)
    assert series["gain"] == pytest.approx(4.0)
    assert series["efficiency"] == pytest.approx(0.25)
    assert [point["batch_size"] for point in series["points"]] == [1, 4, 16]


def test_a_contest_has_the_fastest_row_of_each_way_in_order(row: Any) -> None:
    rows = [row(20.0), row(15.0, threads=8), row(4.0, platform="openvino"), row(9.0, precision="bf16")]
    (contest,) = likeness.contests(rows)
    assert [one["latency_ms"] for one in contest] == [4.0, 9.0, 15.0]
    ((best, wins),) = likeness.winners([contest])
    assert (best["platform"], wins) == ("openvino", 1)


def test_rivals_join_the_ratios_of_all_that_both_ran(row: Any) -> None:
    gpu = {"hardware_id": "acme-gpu", "platform": "cuda"}
    rows = [row(20.0), row(10.0, **gpu), row(80.0, model_id="acme/large"), row(10.0, model_id="acme/large", **gpu)]
    (pair,) = likeness.rivals(rows)
    assert (pair["hardware"], pair["other"], pair["pairs"], pair["models"]) == ("acme-gpu", "acme-one", 2, 2)
    assert pair["factor"] == pytest.approx(4.0)
    assert (pair["smallest"], pair["largest"], pair["faster_in"]) == (2.0, 8.0, 2)


def test_the_geometric_mean_says_of_how_many_and_leaves_out_what_is_unknown() -> None:
    joined = likeness.geometric([2.0, 8.0, None])
    assert (joined["factor"], joined["smallest"], joined["largest"], joined["pairs"]) == (
        pytest.approx(4.0),
        2.0,
        8.0,
        2,
    )
    assert likeness.geometric([None])["factor"] is None
