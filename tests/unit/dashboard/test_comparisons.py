"""Training beside inference, precisions beside fp32, batches: what is said of them and what is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard import differences, evidence, ratios
from dashboard.address import Comparison, parameters, read_comparison
from dashboard.screens.compare import batches, likeness, modes, precisions, subjects
from dashboard.screens.compare import words as comparison
from dashboard.screens.compare.batches import Line
from dashboard.tables.result_table import Column
from presentation import charts, formatting


def row(batch: int = 1, latency: float | None = 10.0, **more: Any) -> dict[str, Any]:
    spread = {"latency_ms_low": latency * 0.99, "latency_ms_high": latency * 1.01} if latency else {}
    rate = {"throughput_per_s": batch * 1000 / latency} if latency else {}
    return {
        "hardware": "h", "hardware_count": 1, "platform": "cpu", "precision": "fp32", "batch_size": batch,
        "basis": "measured", "latency_ms": latency, "peak_memory_bytes": None, "n": 30, "evidence": ["e1"],
        **spread, **rate, **more,
    }  # fmt: skip


def told(columns: list[Column]) -> dict[str, list[Any]]:
    """The raw values of a table by their heads."""
    return {column.head: list(column.values) for column in columns}


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
    shown = told(modes.columns(found))
    assert (shown["Forward"], shown["Backward"], shown["n"]) == ([0.3], [0.6], [30])
    assert "Loss" not in shown
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
    assert words == "bf16 on cpu: × 2.0 faster than fp32, 60.0 % of its memory (measured); outputs not verified"
    shown = told(precisions.columns(list(found.values())))
    against = dict(zip(shown["Precision"], shown["Against fp32"], strict=True))
    outputs = dict(zip(shown["Precision"], shown["Outputs"], strict=True))
    assert (against["cpu · bf16"], against["cpu · fp16"]) == ("▲ faster", "≈ cannot tell")
    assert (outputs["cpu · fp16"], outputs["cpu · bf16"]) == ("≠ failed", "not verified")


def test_a_precision_stands_beside_fp32_under_its_own_load() -> None:
    rows = [
        row(latency=10.0), row(latency=40.0, concurrency=8), row(latency=10.0, precision="bf16", concurrency=8),
        row(latency=9.0, precision="fp16", arrival_rate_per_s=4.0),
    ]  # fmt: skip
    found = precisions.beside_fp32(rows)
    ratio = {one["named"]: one["speed_ratio"] for one in found}
    assert ratio == {
        "cpu · fp32": 1.0, "cpu · fp32 · 8 at a time": 1.0, "cpu · bf16 · 8 at a time": 4.0,
        "cpu · fp16 · 4 requests/s": None,
    }  # fmt: skip
    assert precisions.sentence(found).startswith("bf16 on cpu · 8 at a time: ")
    assert sorted(told(precisions.columns(found))["Precision"]) == sorted(ratio)


def test_a_precision_stands_beside_fp32_of_its_own_runtime_and_browser() -> None:
    web = {"platform": "wasm", "runtime": "onnxruntime-web 1.30.0"}
    rows = [
        row(latency=1.0, runtime="onnxruntime 1.23"), row(latency=2.0, precision="int8", runtime="onnxruntime 1.23"),
        row(latency=4.0, runtime="torch 2.9"), row(latency=1.0, precision="int8", runtime="torch 2.9"),
        row(latency=4.0, **web, browser="chromium"), row(latency=5.0, precision="int8", **web, browser="firefox"),
    ]  # fmt: skip
    ratio = {one["named"]: one["speed_ratio"] for one in precisions.beside_fp32(rows) if one["precision"] == "int8"}
    assert ratio == {"cpu · onnxruntime · int8": 0.5, "cpu · torch · int8": 4.0, "wasm · firefox · int8": None}


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
        drawing = charts.scaling([drawn], panel, theme="dark").to_dict()
        joins = drawing["layer"][1 if panel == "efficiency" else 0]["data"]["values"]
        assert [join["basis"] for join in joins] == ["predicted"]
    assert "A stops" in str(charts.scaling([drawn], "throughput").to_dict())
    assert len(charts.scalings([drawn], ["latency", "efficiency"]).to_dict()["concat"]) == 2
    columns = {column.head: column for column in batches.columns([line(*points)])}
    assert list(columns["Efficiency"].values) == [1.0, 0.8]
    assert (list(columns["Source"].values), columns["Source"].links) == (
        ["measured", "estimate"],
        ["runs?row=e1", None],
    )


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
    shown = told(comparison.columns(found, charts.ENERGY))
    assert shown["Verdict"] == ["valid", "suspect"]
    assert shown["Hardware"] == ["h", "h (stated)"]
    assert shown["Load"] == [None, "4 requests/s"]
    assert told(comparison.columns(found, charts.LATENCY))["Verdict"] == ["suspect", "valid"]
    # Another load and a device that nobody saw: other work, which no headline compares.
    assert shown["Other work"][1] == "≠ 4 requests/s, stated by the operator, not seen"
    assert "less than" not in comparison.sentence(found, charts.ENERGY)
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
    for other in ({"precision": "int8"}, {"batch_size": 8}, {"concurrency": 4}, {"hardware_count": 8}):
        assert "than" not in comparison.sentence([best, row(1, 2.0, sequence_length=128, **other)], charts.THROUGHPUT)


def test_throughput_of_several_devices_is_compared_for_each_of_them() -> None:
    eight = row(1, 1.0, hardware="eight", hardware_count=8, throughput_per_s=8000.0)
    twenty = row(1, 1.0, hardware="twenty", hardware_count=20, throughput_per_s=16000.0)
    one = row(1, 1.0, hardware="one", throughput_per_s=900.0)
    rows, metric = likeness.per_device([eight, twenty, one], charts.THROUGHPUT)
    assert [comparison.figure(each, metric) for each in rows] == [1000.0, 800.0, 900.0]
    assert metric.title == "Throughput per device"
    rows.sort(key=lambda each: -comparison.figure(each, metric))
    assert "11 % faster than one" in formatting.plain(comparison.sentence(rows, metric))
    assert told(comparison.columns(rows, metric))["Other work"] == [None, "≠ 1 device", "≠ 20 devices"]
    assert likeness.differing(rows) == ["number of devices"]
    # A latency is of the whole machine: no headline compares eight devices with one.
    assert likeness.per_device(rows, charts.LATENCY)[1] is charts.LATENCY
    assert "than" not in comparison.sentence([eight, row(1, 9.0, hardware="one")], charts.LATENCY)


def test_one_click_makes_unlike_rows_the_same_work() -> None:
    rows = [
        row(64, precision="int8"), row(8, precision="fp16"), row(8, precision="fp16", hardware="g"), row(1, precision="int8"),
    ]  # fmt: skip
    whole = {"precision": [{"precision": "fp16", "rows": 9}, {"precision": "int8", "rows": 3}]}
    alike = likeness.same_workload(Comparison(model="m"), rows, whole)
    assert alike is not None
    assert (alike.precision, alike.batch, alike.length) == (("fp16",), 8, None)
    assert likeness.same_workload(alike, rows[1:3], whole) is None


def known_names() -> subjects.Names:
    models = {
        "google-bert/bert-base-uncased": ("bert-base",),
        "acme/bert-large": (),
        "timm/resnet50": (),
        "acme/resnet50": (),
    }
    hardware = {"nvidia-l4": ("NVIDIA L4",), "nvidia-a10g": ("NVIDIA A10G",)}
    return subjects.named(models, hardware)


def test_what_is_typed_is_read_in_one_line() -> None:
    typed = subjects.read("BERT-base, L4 vs A10G, fp16, batch 8", known_names())
    assert (typed.models, typed.hardware) == (("google-bert/bert-base-uncased",), ("nvidia-l4", "nvidia-a10g"))
    assert (typed.precision, typed.batch, typed.unknown) == (("fp16",), 8, ())
    same = subjects.read("bert-base-uncased on l4 and nvidia a10g at fp16 bs8 length 128", known_names())
    assert same == typed._replace(length=128)


def test_a_part_of_a_name_is_offered_and_never_taken() -> None:
    typed = subjects.read("bert on L4", known_names())
    assert (typed.models, typed.hardware) == ((), ("nvidia-l4",))
    ((text, models, _),) = typed.unknown
    assert (text, set(models)) == ("bert", {"google-bert/bert-base-uncased", "acme/bert-large"})
    # Nor is one of two that a text names alike.
    assert subjects.read("resnet50", known_names()).models == ()


def test_hardware_alone_is_compared_by_its_models() -> None:
    alone = subjects.of_subjects(Comparison(hw="nvidia-l4"))
    assert (alone.what, alone.hw) == ("models", "nvidia-l4")
    both = subjects.with_typed(
        alone, subjects.Typed(models=("m",), hardware=("nvidia-a10g",), precision=("fp16",), batch=8)
    )
    assert (both.what, both.model, both.hw, both.precision, both.batch) == (
        "hardware", "m", "nvidia-l4,nvidia-a10g", ("fp16",), 8,
    )  # fmt: skip
    assert subjects.of_subjects(Comparison(what="modes", model="m", hw="h")).what == "modes"
