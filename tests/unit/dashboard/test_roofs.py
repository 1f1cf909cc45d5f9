from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from dashboard.screens.hardware import roofline as roofs
from domain.answers.device import Roofline, RooflinePoint
from presentation import formatting
from presentation.charts import chart_files
from presentation.charts.roofline_chart import roofline

PEAK, FEED = 1e12, (1e11, "100 GB/s")


def point(**changes: Any) -> dict[str, Any]:
    found = {
        "model": "acme/tiny", "platform": "cuda", "precision": "fp16", "mode": "inference", "batch_size": 8, "basis": "measured",
        "origin": "measured", "n": 61, "verdict": "valid", "runtime": "torch", "latency_ms": 1.2, "latency_is_mean": False,
        "flop_per_byte": 50.0, "flops_per_s": 4e11, "roof_flops_per_s": PEAK, "share": 0.4, "over": None, "stands_for": 1,
    }  # fmt: skip
    return found | changes


def answer(*points: dict[str, Any], **changes: Any) -> Roofline:
    found = {
        "points": list(points), "best": len(points), "placed": len(points), "left_out": {}, "above": [], "above_by": {},
        "above_count": 0, "roofs": [{"precision": "fp16", "value": PEAK, "status": "sourced"}], "reached": [],
        "bandwidth_bytes_per_s": figure(FEED[0]), "reached_bandwidth_bytes_per_s": None,
    }  # fmt: skip
    return msgspec.convert(found | changes, Roofline)


def figure(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "status": "sourced", **more}


def roof_rows() -> list[dict[str, Any]]:
    """The roofs of the answer as the chart takes them."""
    return msgspec.to_builtins(roofs.roofs(answer()))


def plain(value: Any) -> str:
    return formatting.plain(str(value))


def test_precisions_of_one_rate_are_one_roof_and_what_was_reached_stands_with_it_or_alone() -> None:
    rates = [figure(value, precision=name) for name, value in (("fp16", 1e12), ("bf16", 0.995e12), ("fp32", 1e11))]
    reached = [figure(9e10, precision="fp32"), figure(2e11, precision="bf16")]
    found = roofs.roofs(answer(roofs=rates, reached=reached))
    assert [(plain(one.words), one.reached) for one in found] == [
        ("bf16, fp16 1.00 TFLOP/s", False),
        ("fp32 100 GFLOP/s, 90.0 GFLOP/s reached", False),
        ("bf16 200 GFLOP/s reached", True),
    ]


def test_a_bandwidth_that_a_probe_reached_says_so() -> None:
    assert roofs.bandwidth(answer()) == (1e11, formatting.si(1e11, "B/s"))
    told = answer(bandwidth_bytes_per_s=None, reached_bandwidth_bytes_per_s=figure(2.5e10))
    found = roofs.bandwidth(told)
    assert found is not None and plain(found[1]) == "25.0 GB/s reached"
    assert roofs.bandwidth(answer(bandwidth_bytes_per_s=None)) is None


def test_the_answer_is_the_nearest_to_its_roof_that_is_not_over_it() -> None:
    told = answer(point(share=1.3, over="peak", model="acme/wrong"), point(), point(share=0.2))
    assert plain(roofs.sentence(told, "acme-one")) == (
        "acme/tiny · cuda · fp16 · batch 8 reaches 40.0 % of its roof of 1.00 TFLOP/s (● measured)"
    )
    assert "nothing measured" in roofs.sentence(answer(), "acme-one")
    assert "over its roof" in roofs.sentence(answer(point(over="peak")), "acme-one")


def test_what_marks_stand_for_and_what_has_no_place_is_counted() -> None:
    told = answer(point(), best=4, placed=9, left_out={"not one call": 5})
    said = roofs.standing(told)
    assert said.startswith("1 mark for the best of each model")
    assert "of 9 measured configurations" in said and "(4 in all)" in said
    assert "No place under the roof: 5 not one call." in said


def test_points_over_a_limit_are_told_with_what_may_be_behind() -> None:
    said = roofs.over(answer(above_by={"bandwidth": 3, "peak": 1}))
    assert said.startswith("1 over the peak") and "3 over the bandwidth: operators were fused" in said
    table = roofs.above_table([msgspec.convert(point(share=1.5, over="peak"), RooflinePoint)])
    assert (table["Of its roof, %"][0], table["Over the"][0]) == (150.0, "peak")


def layers(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def test_the_roof_is_flat_from_its_ridge_and_the_slope_is_the_bandwidth() -> None:
    spec = roofline([point()], roof_rows(), FEED).to_dict()
    (flat,) = layers(spec, "rule")[0]["data"]["values"]
    assert (flat["x"], flat["y"]) == (pytest.approx(10.0), PEAK)
    start, end = layers(spec, "line")[0]["data"]["values"]
    assert (end["x"], end["y"]) == (pytest.approx(10.0), PEAK)
    assert start["y"] / start["x"] == pytest.approx(FEED[0])
    assert {layer["encoding"]["x"]["scale"]["type"] for layer in layers(spec, "point")} == {"log"}


def test_a_decade_is_as_long_upwards_as_across_so_that_the_slope_is_45_degrees() -> None:
    spec = roofline([point(), point(flops_per_s=1e10)], roof_rows(), FEED).to_dict()
    encoding = layers(spec, "line")[0]["encoding"]
    (low, high), (bottom, top) = (encoding[axis]["scale"]["domain"] for axis in ("x", "y"))
    assert math.log10(high / low) / math.log10(top / bottom) == pytest.approx(690 / 400)


def test_only_what_is_over_its_roof_has_a_ring_and_every_mark_says_its_share() -> None:
    spec = roofline([point(), point(share=1.3, over="peak", stands_for=5)], roof_rows(), FEED).to_dict()
    marks, ring = layers(spec, "point")
    assert ring["transform"] == [{"filter": "datum.over"}]
    drawn = spec["datasets"][marks["data"]["name"]]
    assert [one["over"] for one in drawn] == [False, True]
    assert "40.0 % of its roof of 1.00 TFLOP/s" in plain(drawn[0]["detail"])
    assert drawn[1]["marks"] == "the best of 5 that lie here"
    assert "simulated" not in drawn[0]["name"].lower()


def test_what_is_simulated_says_so_on_every_mark() -> None:
    spec = roofline([point(origin="simulated", basis="imported")], [], None).to_dict()
    (marks, _) = layers(spec, "point")
    assert spec["datasets"][marks["data"]["name"]][0]["name"].endswith("SIMULATED")


def test_too_many_points_are_refused_and_a_picture_needs_no_browser() -> None:
    with pytest.raises(ValueError, match="marks are more than"):
        roofline([point()] * 1100, roof_rows(), FEED)
    assert chart_files.png(roofline([point()], roof_rows(), FEED, theme="dark", picture=True)).startswith(b"\x89PNG")
