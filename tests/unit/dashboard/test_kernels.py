"""The chart and the tables of a device's kernels: marks by basis, roofs by source, what is said and what is counted."""

from __future__ import annotations

from typing import Any

import altair as alt
import msgspec
import pytest

from dashboard.screens.hardware.kernels_view import estimates_table, points_table, sentence, standing
from domain.answers.kernels import DeviceKernels
from presentation import formatting
from presentation.charts.kernels_chart import DEEPEST, ROOF_DASHES, drawn_points, kernels
from presentation.kernel_names import sizes_words
from presentation.palette import PLATFORM_DOMAIN

PEAK, FEED = 1e14, 1e12
GEMM = {"m": 1024, "n": 1024, "k": 1024}


def point(**changes: Any) -> dict[str, Any]:
    return {
        "operator": "gemm", "name": None, "phase": None, "sizes": GEMM, "runtime": "torch", "flops": 2.147e9, "bytes": 6.29e6,
        "flop_per_byte": 341.0, "latency_ms": 0.04, "flops_per_s": 5e13, "bytes_per_s": 1.5e11, "roof_flops_per_s": PEAK,
        "share": 0.5, "over": None, "basis": "imported", "origin": "imported", "verdict": None, "reason": None,
        "event_id": "e-1", "row": 3, "stands_for": 1,
    } | changes  # fmt: skip


def measured(**changes: Any) -> dict[str, Any]:
    return {
        "latency_ms": 0.05, "flops_per_s": 4.3e13, "share": 0.43, "timings": 2, "basis": "measured", "origin": "measured",
        "event_id": "e-2", "ratio": 1.25, "within": False,
    } | changes  # fmt: skip


def estimate(**changes: Any) -> dict[str, Any]:
    return {
        "id": "product-1024", "operator": "gemm", "name": None, "phase": None, "sizes": GEMM, "launch": "graph",
        "flops": 2.147e9, "bytes": 6.29e6, "flop_per_byte": 341.0, "latency_ms": 0.04, "latency_ms_low": 0.035,
        "latency_ms_high": 0.045, "flops_per_s": 5.4e13, "flops_per_s_low": 4.8e13, "flops_per_s_high": 6.1e13,
        "roof_flops_per_s": PEAK, "share": 0.54, "basis": "calibrated", "measured": None,
    } | changes  # fmt: skip


def roof(source: str = "specified", **changes: Any) -> dict[str, Any]:
    return {"source": source, "flops_per_s": PEAK, "bandwidth_bytes_per_s": FEED, "status": "sourced", **changes}


def answer(**changes: Any) -> DeviceKernels:
    document = {
        "hardware": "acme-gpu", "platform": "cuda", "precision": "fp16", "choices": [], "roofs": [roof()],
        "points": [point()], "estimates": [estimate(measured=measured())], "considered": 900, "sampled": 10, "placed": 9,
        "left_out": {}, "above_count": 0, "notes": ["product: corrected."], "position": 7, "predictor": "sha256:1",
    }  # fmt: skip
    return msgspec.convert(document | changes, DeviceKernels)


def layers(document: DeviceKernels, mark: str, **more: Any) -> list[dict[str, Any]]:
    """The layers of one kind of mark."""
    spec = kernels(document, **more).to_dict(validate=True)
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]


def values(layer: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = layer["data"]["values"]
    return rows


def test_measured_is_filled_where_we_measured_and_estimates_are_hollow_with_their_interval() -> None:
    document = answer()
    points, estimates, pairs = layers(document, "point")
    assert [(row["basis"], row["fill"]) for row in values(points)] == [("imported", 0.0)]
    assert [(row["basis"], row["fill"]) for row in values(estimates)] == [("calibrated", 0.0)]
    assert [(row["basis"], row["fill"], row["y"]) for row in values(pairs)] == [("measured", 1.0, 4.3e13)]
    assert values(pairs)[0]["x"] == values(estimates)[0]["x"]
    # A measurement is as large as the estimate that it stands beside, other points are smaller.
    assert pairs["mark"]["size"] == estimates["mark"]["size"] > points["mark"]["size"]
    interval = layers(document, "rule")[0]
    assert (interval["encoding"]["y"]["field"], interval["encoding"]["y2"]["field"]) == ("low", "high")
    assert (values(interval)[0]["low"], values(interval)[0]["high"]) == (4.8e13, 6.1e13)
    assert points["encoding"]["stroke"]["scale"]["domain"] == list(PLATFORM_DOMAIN)
    assert "range" not in points["encoding"]["stroke"]["scale"]
    assert points["encoding"]["x"]["scale"]["type"] == points["encoding"]["y"]["scale"]["type"] == "log"


def test_an_estimate_without_an_interval_is_a_tick_without_a_bar() -> None:
    bare = estimate(
        basis="roofline", latency_ms_low=None, latency_ms_high=None, flops_per_s_low=None, flops_per_s_high=None
    )
    document = answer(points=[], estimates=[bare])
    assert layers(document, "point") == []
    (tick,) = layers(document, "tick")
    assert values(tick)[0]["basis"] == "roofline"
    assert not [layer for layer in layers(document, "rule") if "y2" in layer["encoding"]]
    assert "no interval" in values(tick)[0]["rests"]


def test_each_roof_bends_at_its_ridge_and_has_its_dash_and_name() -> None:
    own = roof("kernels", flops_per_s=5e13, bandwidth_bytes_per_s=8e11, kernels=300, floor_us=3.0)
    document = answer(roofs=[roof(), roof("sustained", flops_per_s=8e13, bandwidth_bytes_per_s=None), own])
    (line,) = layers(document, "line")
    corners = {source: [row for row in values(line) if row["source"] == source] for source in ROOF_DASHES}
    assert [row["x"] for row in corners["specified"]][1] == pytest.approx(PEAK / FEED)
    # What a roof does not say is as specified.
    assert [row["x"] for row in corners["sustained"]][1] == pytest.approx(8e13 / FEED)
    assert [row["x"] for row in corners["kernels"]][1] == pytest.approx(5e13 / 8e11)
    for rows in corners.values():
        assert rows[0]["y"] / rows[0]["x"] == pytest.approx(rows[1]["y"] / rows[1]["x"])
        assert rows[1]["y"] == rows[2]["y"]
    words = [formatting.plain(values(layer)[0]["words"]) for layer in layers(document, "text")]
    assert words == [
        "specified 100 TFLOP/s, 1.00 TB/s", "sustained 80.0 TFLOP/s", "as 300 kernels say 50.0 TFLOP/s, 800 GB/s",
    ]  # fmt: skip
    samples = [layer["mark"]["strokeDash"] for layer in layers(document, "rule") if "strokeDash" in layer["mark"]]
    assert samples == list(ROOF_DASHES.values())


def test_a_point_over_the_roof_has_a_ring_and_tiny_kernels_lie_below_the_picture() -> None:
    tiny = point(flops_per_s=PEAK * DEEPEST / 10, row=4)
    document = answer(points=[point(over="bandwidth", share=1.2), tiny], above_count=1)
    assert [item.row for item in drawn_points(document)] == [3]
    rings = [layer for layer in layers(document, "point") if layer["mark"].get("filled") is False]
    assert [len(values(layer)) for layer in rings] == [1]
    said = standing(document)
    assert "1 mark of tiny kernels" in said
    assert "1 over the roof" in said
    # An estimate that lies as low brings them back.
    low = estimate(flops_per_s=1e8, flops_per_s_low=9e7, flops_per_s_high=1.1e8)
    assert len(drawn_points(answer(points=[point(), tiny], estimates=[low]))) == 2


def test_a_picture_without_roofs_points_or_estimates_is_still_a_chart() -> None:
    assert kernels(answer(roofs=[], points=[], estimates=[])).to_dict(validate=True)["layer"]
    pictured = kernels(answer(), theme="dark", picture=True)
    assert isinstance(pictured, alt.LayerChart)
    assert pictured.to_dict()["background"] == "#0E1117"


def test_the_sentence_counts_what_was_measured_and_what_lies_within() -> None:
    pairs = [estimate(measured=measured()), estimate(measured=measured(within=True, ratio=1.05)), estimate()]
    said = formatting.plain(sentence(answer(estimates=pairs)))
    assert "2 of 3 standard kernels were measured, 1 of 2 within" in said
    assert "15.0 %" in said
    assert "no kernel was measured; 1 estimate" in sentence(answer(points=[], placed=0, estimates=[estimate()]))
    bare = measured(within=None)
    assert "within" not in sentence(answer(estimates=[estimate(measured=bare)]))


def test_the_tables_have_the_raw_figures_in_microseconds() -> None:
    table = estimates_table(answer(estimates=[estimate(measured=measured()), estimate(id="other")]).estimates)
    row, other = table.to_dict("records")
    assert (row["Estimate µs"], row["Low µs"], row["High µs"]) == (40.0, 35.0, 45.0)
    assert (row["Measured µs"], row["÷ estimate"], row["Interval"]) == (50.0, 1.25, "✕ outside")
    assert row["Measured is"] == "● measured"
    assert other["Measured is"] == other["Interval"] == formatting.MISSING
    points = points_table(answer(points=[point(share=0.2, row=1), point()]).points).to_dict("records")
    assert [row["Of its roof, %"] for row in points] == [50.0, 20.0]
    assert (points[0]["Time µs"], points[0]["Event"]) == (40.0, "e-1")


@pytest.mark.parametrize(
    ("operator", "sizes", "words"),
    [
        ("gemm", {"m": 1, "n": 2, "k": 3}, "1×2×3"),
        ("bmm", {"batch": 4, "m": 1, "n": 2, "k": 3}, "4 of 1×2×3"),
        ("attention", {"batch": 1, "query_tokens": 1, "heads": 8, "head_dim": 64, "cached_tokens": 9}, "1×8×1×64 after 9"),
        ("norm", {"rows": 5, "row_size": 6}, "5×6"),
        ("other", {"elements": 7}, "elements 7"),
    ],
)  # fmt: skip
def test_sizes_are_written_shortly(operator: str, sizes: dict[str, int], words: str) -> None:
    assert sizes_words(operator, sizes) == words
