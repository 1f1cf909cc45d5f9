"""Training beside inference, precisions beside fp32, batches: what is said of them and what is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard import differences, evidence, ratios
from dashboard.address import Comparison, parameters, read_comparison
from dashboard.screens.compare import batches, modes, precisions
from dashboard.screens.compare import words as comparison
from dashboard.screens.compare.batches import Line
from presentation import charts, formatting


def row(batch: int = 1, latency: float | None = 10.0, **more: Any) -> dict[str, Any]:
    spread = {"latency_ms_low": latency * 0.99, "latency_ms_high": latency * 1.01} if latency else {}
    rate = {"throughput_per_s": batch * 1000 / latency} if latency else {}
    return {
        "hardware": "h", "hardware_count": 1, "platform": "cpu", "precision": "fp32", "batch_size": batch,
        "basis": "measured", "latency_ms": latency, "peak_memory_bytes": None, "n": 30, "evidence": ["e1"],
        **spread, **rate, **more,
    }  # fmt: skip


def line(*points: dict[str, Any]) -> Line:
    return Line("A", "h · cpu · fp32", list(points))


@pytest.mark.parametrize("what", ["hardware", "models", "modes", "precision", "batch"])
def test_each_kind_of_comparison_is_an_address(what: str) -> None:
    asked = Comparison(what=what, model="m", hw="h", metric="memory", batch=4, as_of=7)
    assert read_comparison(parameters(asked, everything=True)).asked == asked
    assert read_comparison({"model": ["m"]}).asked.what == "hardware"
    assert "must be one of" in read_comparison({"what": ["moods"]}).dropped[0]


def test_a_ratio_has_the_least_and_the_most_that_both_intervals_allow() -> None:
    found = ratios.of(row(latency=20.0), row(latency=10.0), *charts.LATENCY[:3])
    assert found == pytest.approx((2.0, 19.8 / 10.1, 20.2 / 9.9))
    assert ratios.words(found) == "▲ faster"
    assert ratios.words(ratios.Ratio(1.02, 0.98, 1.06)) == "≈ cannot tell"
    assert ratios.words(ratios.Ratio(0.5, None, None)) == "▼ slower, no interval"
    assert ratios.of(row(latency=None), row(), *charts.LATENCY[:3]) == (None, None, None)
    assert ratios.words(ratios.Ratio(None, None, None)) == "—"


def pair(inference: dict[str, Any] | None, training: dict[str, Any] | None, ratio: float | None) -> dict[str, Any]:
    alike = {"hardware": "h", "platform": "cpu", "precision": "fp32", "batch_size": 4}
    return {**alike, "inference": inference, "training": training, "ratio": ratio}


def test_training_is_told_an_item_with_what_a_step_is_made_of() -> None:
    stages = {"forward_ms": 3.0, "loss_ms": None, "backward_ms": 6.0, "optimizer_ms": 1.0}
    both = pair(row(4, 8.0), row(4, 24.0, mode="training", stages=stages), 3.0)
    found = modes.paired([both, pair(row(4, 9.0), None, None)])
    assert [(one.inference["latency_ms"], one.training["latency_ms"]) for one in found] == [(2.0, 6.0)]
    assert "× 3.00 (" in formatting.plain(modes.sentence(found, {"pairs": 1}))
    told = modes.table(found).data.iloc[0]
    assert (told["Forward %"], told["Backward %"], told["n training"]) == (30.0, 60.0, 30)
    assert "Loss %" not in told
    spread = {"pairs": 264, "least": 2.0, "median": 2.5, "most": 3.0}
    assert "× 2.50 the time of inference, the median of 264 pairs" in formatting.plain(modes.sentence(found, spread))
    assert [one["mode"] for one in modes.flat(found) if "mode" in one] == ["training"]
    drawn = charts.modes([(one.name, one.inference, one.training, 3.0) for one in found], picture=True).to_dict()
    words = [
        value["words"]
        for data in drawn["layer"]
        for value in data.get("data", {}).get("values", [])
        if "words" in value
    ]
    assert any(word.startswith("training 6") for word in map(formatting.plain, words))


def test_precisions_stand_beside_fp32_of_their_platform() -> None:
    rows = [
        row(latency=10.0, peak_memory_bytes=100), row(latency=5.0, precision="bf16", peak_memory_bytes=60),
        row(latency=4.0, precision="bf16", platform="openvino"),
        row(latency=9.95, precision="fp16", output_error={"outcome": "failed", "cosine": 0.5}),
    ]  # fmt: skip
    found = {(one["platform"], one["precision"]): one for one in precisions.beside_fp32(rows)}
    assert (found["cpu", "bf16"]["speed_ratio"], found["cpu", "bf16"]["memory_ratio"]) == (2.0, 0.6)
    assert found["openvino", "bf16"]["speed_ratio"] is None
    words = formatting.plain(precisions.sentence(list(found.values())))
    assert words == "bf16 on cpu: × 2.0 faster than fp32, 60.0 % of its memory (● measured); outputs not verified"
    told = precisions.table(list(found.values())).data.set_index(["Platform", "Precision"])
    assert told["Against fp32"]["cpu", "bf16"] == "▲ faster"
    assert told["Against fp32"]["cpu", "fp16"] == "≈ cannot tell"
    assert told["Outputs"]["cpu", "fp16"] == "≠ failed"
    assert told["Outputs"]["cpu", "bf16"] == "not verified"


def test_a_precision_stands_beside_fp32_under_its_own_load() -> None:
    rows = [
        row(latency=10.0), row(latency=40.0, concurrency=8), row(latency=10.0, precision="bf16", concurrency=8),
        row(latency=9.0, precision="fp16", arrival_rate_per_s=4.0),
    ]  # fmt: skip
    found = precisions.beside_fp32(rows)
    told = {one["named"]: one["speed_ratio"] for one in found}
    assert told == {
        "cpu · fp32": 1.0, "cpu · fp32 · 8 at a time": 1.0, "cpu · bf16 · 8 at a time": 4.0,
        "cpu · fp16 · 4 requests/s": None,
    }  # fmt: skip
    assert precisions.sentence(found).startswith("bf16 on cpu · 8 at a time: ")
    shown = precisions.table(found).data
    assert sorted(shown["Load"]) == ["4 requests/s", "8 at a time", "8 at a time", formatting.MISSING]
    assert list(shown).index("Against fp32") == list(shown).index("Speed vs fp32 ×") + 1
    assert "Load" not in precisions.table(precisions.beside_fp32(rows[:1])).data


def test_a_line_stops_scaling_where_no_doubling_helps_any_more() -> None:
    # 100/s, 104/s, 180/s, 185/s: the first doubling brings little, the second much, so it stops at 4.
    found = line(row(1, 10.0), row(2, 2000 / 104), row(4, 4000 / 180), row(8, 8000 / 185, basis="predicted"))
    stop = batches.stop_of(found)
    assert stop is not None
    assert (stop.batch, stop.measured) == (4, False)
    assert stop.gain == pytest.approx(185 / 180 - 1)
    assert formatting.plain(batches.stop_words(found)).endswith("at batch 4: 8 gives 2.8 % more, by estimate")
    assert batches.stop_of(line(row(1, 10.0), row(2, 11.0))) is None
    assert "gives most, 180/s" in formatting.plain(batches.sentence([found]))


def test_no_line_crosses_a_batch_that_it_lacks() -> None:
    found = line(row(1), row(2), row(8))
    assert [(one["batch_size"], other["batch_size"]) for one, other in batches.joined(found, [1, 2, 4, 8])] == [(1, 2)]
    assert len(batches.joined(found, [1, 2, 8])) == 2


def test_lines_and_panels_say_what_was_measured_and_what_was_not() -> None:
    points = [row(1, 10.0, efficiency=1.0), row(2, 12.0, basis="predicted", efficiency=0.8)]
    drawn = charts.Drawn("A", points, [(points[0], points[1])], 1)
    for panel in ("latency", "throughput", "efficiency"):
        told = charts.scaling([drawn], panel, theme="dark").to_dict()
        joins = told["layer"][1 if panel == "efficiency" else 0]["data"]["values"]
        assert [join["basis"] for join in joins] == ["predicted"]
    assert "A stops" in str(charts.scaling([drawn], "throughput").to_dict())
    assert len(charts.scalings([drawn], ["latency", "efficiency"]).to_dict()["concat"]) == 2
    table = batches.table([line(*points)]).data
    assert table["Efficiency %"].tolist() == [100.0, 80.0]
    assert (table["Evidence"][0], table["Evidence"].isna().tolist()) == ("runs?row=e1", [False, True])


def test_ways_to_what_a_row_rests_on() -> None:
    assert evidence.path_of(row()) == "runs?row=e1"
    assert evidence.path_of(row(basis="calibrated", evidence=["e1", "e2"])) is None
    assert evidence.about("models", "acme/a b&c") == "models?id=acme/a+b%26c"


def test_models_are_named_where_they_are_compared() -> None:
    assert charts.name_of(row(subject="acme/tiny")) == "acme/tiny · cpu · fp32 · batch 1"
    drawn = charts.intervals([row(speedup_over_cpu=4.0)], charts.SPEEDUP, beside=1.0).to_dict()
    assert drawn["layer"][0]["data"]["values"] == [{"value": 1.0}]


def test_energy_is_compared_under_its_own_verdict_and_rows_of_other_loads_are_named() -> None:
    found = comparison.distinguished([
        row(energy_per_item_j=0.05, verdict="suspect", energy_verdict="valid"),
        row(energy_per_item_j=0.09, verdict="valid", energy_verdict="suspect", arrival_rate_per_s=4.0, hardware_stated=True),
    ])  # fmt: skip
    shown = comparison.table(found, charts.ENERGY).data
    assert list(shown["Verdict"]) == ["valid", "suspect"]
    assert list(shown["Hardware"]) == ["h", "h (stated)"]
    assert list(shown["Load"]) == [formatting.MISSING, "4 requests/s"]
    assert list(comparison.table(found, charts.LATENCY).data["Verdict"]) == ["suspect", "valid"]
    assert formatting.plain(comparison.sentence(found, charts.ENERGY)).endswith(
        "44.4 % less than h (stated) · cpu · fp32 · batch 1 · 4 requests/s"
    )
    differing = {one.field: dict(one.values) for one in differences.find(found).differs}
    assert differing["Requests a second"] == {formatting.MISSING: 1, "4.0": 1}
    assert differing["Where it ran is"] == {formatting.MISSING: 1, "stated by the operator, not seen": 1}


def test_a_named_device_without_evidence_is_estimated_beside_what_was_measured() -> None:
    asked = Comparison(model="m", hw="nvidia-l4,nvidia-a10g", metric="latency", batch=8)
    seen, guess = row(8, 3.6, hardware="nvidia-l4"), row(8, 8.6, hardware="nvidia-a10g", basis="predicted")
    other = row(8, 1.0, hardware="nvidia-l40s", basis="predicted")
    assert comparison.devices_of(asked) == ["nvidia-l4", "nvidia-a10g"]
    assert comparison.wants_estimates(asked, [seen])
    assert not comparison.wants_estimates(asked, [seen, guess])
    assert not comparison.wants_estimates(Comparison(model="m", hw="nvidia-a10g", basis="measured"), [])
    chosen = comparison.chosen([other, guess, seen], asked, charts.LATENCY)
    assert [one["hardware"] for one in chosen] == ["nvidia-l4", "nvidia-a10g"]


def test_a_device_has_its_best_line_and_several_of_them_another() -> None:
    rows = [row(1, 1.0), row(1, 2.0), row(1, 0.5, hardware_count=8), row(1, 3.0, hardware="other")]
    best = comparison.best_of_each(rows)
    assert [(one["hardware"], one["hardware_count"], one["latency_ms"]) for one in best] == [
        ("h", 1, 1.0), ("h", 8, 0.5), ("other", 1, 3.0),
    ]  # fmt: skip


def test_a_headline_compares_the_same_work_alone() -> None:
    best = row(1, 1.0, sequence_length=128)
    longer = row(1, 4.0, hardware="longer", sequence_length=384)
    alike = row(1, 2.0, hardware="alike", sequence_length=128)
    assert "than alike" in comparison.sentence([best, alike, longer], charts.THROUGHPUT)
    assert "than" not in comparison.sentence([best, longer], charts.THROUGHPUT)
