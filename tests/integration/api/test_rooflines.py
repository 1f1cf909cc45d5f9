"""What ran on a hardware: under its roof, by family and beside its siblings; and what a model's time goes into."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from domain.errors import AssayError, TraceNeeded

FP32 = {"value": 1e12, "status": "measured", "source": "a test"}
BANDWIDTH = {"value": 1e11, "status": "measured", "source": "a test"}
WORKLOAD = {"mode": "inference", "phase": "forward", "batch_size": 1, "image_size": 224}
OPERATORS = [
    ("aten.addmm", "mm", 4, 1e9, 100_000), ("aten.relu", "elementwise", 3, 0.0, 400_000), ("aten.copy", "copy", 2, 0.0, 10),
]  # fmt: skip


def named(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def posted(client: Any, *events: dict[str, Any]) -> int:
    answer = client.post_events(events)
    assert not answer["rejected"]
    return int(answer["last_position"])


def described(build: Any, hardware: str, **spec: Any) -> dict[str, Any]:
    data = {
        "hardware": {"id": hardware, "kind": "cpu", "count": 1},
        "platforms": [{"platform": "cpu", "available": True, "precisions": ["fp32"]}],
        "spec": {"peak_flops": {"fp32": FP32}, "memory_bandwidth_bytes_per_s": BANDWIDTH, **spec},
    }
    return build.event("assay.hardware.described.v1", data)


def traced(build: Any, model: str) -> dict[str, Any]:
    """4 × 1e9 FLOPs; 4 × 0.2e6 + 3 × 0.8e6 + … elements moved and 4 × 1e5 of weights."""
    operators = [
        {
            "name": name, "class": kind, "count": count, "flops": flops, "read_elements": moved, "write_elements": moved,
            "weight_elements": 100_000 if flops else 0, "inner": None, "kernel": None, "stride": None, "groups": None,
        }
        for name, kind, count, flops, moved in OPERATORS
    ]  # fmt: skip
    totals: dict[str, Any] = {
        name: sum(row[name] * row["count"] for row in operators)
        for name in ("flops", "read_elements", "write_elements", "weight_elements")
    }
    data = {
        "model": {"id": model, "category": "vision", "family": "bert"},
        "workload": WORKLOAD,
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": operators,
        "totals": {**totals, "operators": 9, "parameters": 400_000},
    }
    return build.event("assay.model.traced.v1", data)


def measured(build: Any, model: str, hardware: str, p50: float, batch: int = 1, **parts: Any) -> dict[str, Any]:
    workload = {"mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224}
    event: dict[str, Any] = build.measurement(p50, model=model, hardware=hardware, workload=workload, **parts)
    event["data"]["metrics"]["throughput_per_s"] = batch * 1000 / p50
    return event


FLOPS = 4e9
BYTES = 4.0 * (2 * (4 * 100_000 + 3 * 400_000 + 2 * 10) + 4 * 100_000)


def test_the_best_of_each_model_lies_under_the_roof(client: Any, build: Any) -> None:
    hardware, model = named("acme-roof"), named("acme/roofed")
    position = posted(
        client, described(build, hardware), traced(build, model),
        measured(build, model, hardware, 80.0), slow := measured(build, model, hardware, 10.0, batch=2),
    )  # fmt: skip
    told = client.roofline(hardware, min_position=position)
    (point,) = told["points"]
    assert point["event_id"] == slow["id"]
    assert point["flops_per_s"] == pytest.approx(2 * FLOPS / 10e-3)
    assert point["share"] == pytest.approx(0.8)
    assert point["roof_flops_per_s"] == 1e12
    assert (point["basis"], point["n"], point["batch_size"], point["stands_for"]) == ("measured", 60, 2, 1)
    assert (told["considered"], told["placed"], told["best"], told["left_out"]) == (2, 2, 1, {})
    assert [(roof["precision"], roof["value"], roof["status"]) for roof in told["roofs"]] == [
        ("fp32", 1e12, "measured")
    ]
    assert told["bandwidth_bytes_per_s"]["value"] == 1e11
    assert told["above_count"] == 0
    (short,) = client.roofline(hardware, members=["share", "n", "mood"])["points"]
    assert short == {"share": point["share"], "n": 60}
    assert client.roofline(hardware, platform="cuda", min_position=position)["points"] == []
    assert client.roofline(hardware, as_of=position - 2)["points"] == [], "nothing was measured then"


def test_the_intensity_is_that_of_the_trace(client: Any, build: Any) -> None:
    hardware, model = named("acme-roof"), named("acme/roofed")
    position = posted(client, described(build, hardware), traced(build, model), measured(build, model, hardware, 80.0))
    (point,) = client.roofline(hardware, min_position=position)["points"]
    assert point["flop_per_byte"] == pytest.approx(FLOPS / BYTES)


def test_what_is_over_the_roof_is_listed_and_what_has_no_place_is_counted(client: Any, build: Any) -> None:
    hardware, model, untraced = named("acme-roof"), named("acme/roofed"), named("acme/bare")
    device = {"id": hardware, "kind": "cpu", "count": 2}
    position = posted(
        client, described(build, hardware), traced(build, model), measured(build, model, hardware, 1.0),
        measured(build, untraced, hardware, 1.0), build.measurement(2.0, model=model, hardware=hardware),
        {**(two := measured(build, model, hardware, 1.0)), "data": {**two["data"], "hardware": device}},
    )  # fmt: skip
    told = client.roofline(hardware, min_position=position)
    (above,) = told["above"]
    assert (above["over"], above["share"]) == ("peak", pytest.approx(4.0))
    assert told["points"][0]["over"] == "peak"
    assert (told["above_count"], told["above_by"]) == (1, {"peak": 1})
    assert told["left_out"] == {"not traced at that size": 2, "on several devices at once": 1}


def test_a_hardware_without_figures_has_no_roof_and_says_so(client: Any, build: Any) -> None:
    hardware, model = named("acme-plain"), named("acme/roofed")
    position = posted(client, traced(build, model), measured(build, model, hardware, 1.0))
    told = client.roofline(hardware, min_position=position)
    assert (told["roofs"], told["bandwidth_bytes_per_s"], told["points"]) == ([], None, [])
    assert told["left_out"] == {"peak or bandwidth not known at this precision": 1}
    with pytest.raises(AssayError) as refused:
        client.roofline("nobody-has-this-one")
    assert refused.value.type == "not-found"


def test_coverage_tells_what_was_tried_and_the_fastest_of_each_category(client: Any, build: Any) -> None:
    hardware, other, model = named("acme-tried"), named("acme-other"), named("acme/tried")
    position = posted(
        client, described(build, hardware), traced(build, model), measured(build, model, hardware, 20.0),
        fast := measured(build, model, hardware, 10.0, batch=4), measured(build, model, other, 5.0, batch=4),
    )  # fmt: skip
    told = client.tried(hardware, min_position=position)
    (family,) = told["items"]
    assert (family["family"], family["platform"], family["tried"], family["measured"]) == ("bert", "cpu", 1, 1)
    assert family["models"] > 1 and told["families_tried"] == 1 < told["families"]
    (best,) = told["best"]
    assert (best["model"], best["throughput"], best["unit"]) == (model, 400.0, "items/s")
    assert (best["configurations"], best["models"], best["event_id"]) == (2, 1, fast["id"])
    beside = next(one for one in told["siblings"] if one["id"] == other)
    assert (beside["alike"], beside["shared_models"], beside["shared_configurations"]) == ("models", 1, 1)
    assert beside["speed_ratio"] == pytest.approx(2.0)
    kin = [one for one in told["siblings"] if one["alike"] == "kind"]
    assert kin and all(one["shared_models"] == 0 and one["speed_ratio"] is None for one in kin)
    assert any(one["peak_ratio"] and one["peak_precision"] == "fp32" for one in kin)


def test_operators_have_their_floor_on_a_device_and_their_work_without_one(client: Any, build: Any) -> None:
    hardware, model = named("acme-roof"), named("acme/roofed")
    position = posted(client, described(build, hardware), event := traced(build, model))
    asked = {"hardware": hardware, "platform": "cpu", "precision": "fp32", "min_position": position}
    told = client.operators(model, **asked)
    assert (told["basis"], told["evidence"], told["image_size"]) == ("roofline", event["id"], 224)
    assert [one["name"] for one in told["operators"]] == ["aten.addmm", "aten.relu", "aten.copy"]
    mm = told["operators"][0]
    # 1e9 FLOPs at 1e12 a second, and 2e-6 s for each of four launches.
    assert mm["ms"] == pytest.approx(4 * 1.0 + 4 * 2e-3)
    assert told["latency_ms"] == pytest.approx(sum(one["ms"] for one in told["operators"]))
    assert (mm["calls"], mm["flops"], mm["bound"]) == (4, 4e9, "compute")
    grown = client.operators(model, **asked, batch_size=8, most=1)
    assert [one["name"] for one in grown["operators"]][-1] == "rest"
    bare = client.operators(model, precision="fp16", min_position=position)
    assert (bare["basis"], bare["latency_ms"], bare["operators"][0]["bound"]) == ("traced", None, None)
    unknown = client.operators(model, **{**asked, "precision": "int4"})
    assert unknown["basis"] == "traced" and "precision" in unknown["why_not"]


def test_operators_of_what_was_never_traced_need_a_trace(client: Any, build: Any) -> None:
    model = named("acme/bare")
    position = posted(client, build.measurement(model=model))
    with pytest.raises(TraceNeeded, match="no operator trace") as refused:
        client.operators(model, min_position=position)
    assert f"assay bench {model}" in str(refused.value.remedy)
    with pytest.raises(AssayError, match="no mode"):
        client.operators(model, mode="dreaming")


def test_hardware_is_searched_sorted_and_told_without_its_rows(client: Any, build: Any) -> None:
    hardware = named("acme-found")
    position = posted(client, described(build, hardware), build.measurement(hardware=hardware))
    assert next(row["id"] for row in client.hardware(search=hardware[:-1] + "_", min_position=position)) == hardware
    found = client.hardware(search="rtx4091")[0]
    assert (found["id"], found["match"]["how"]) == ("nvidia-rtx-4090", "typo")
    assert client.hardware(search="Radeon VII", vendor="nvidia") == []
    most = [row["measurements"] for row in client.hardware(sort="measurements", limit=5)]
    assert most == sorted(most, reverse=True) and most[0] > 0
    counted = [row["measurements"] for row in client.models(sort="measurements", limit=5)]
    assert counted == sorted(counted, reverse=True) and counted[0] > 0
    assert client.one_hardware(hardware)["compatibility"]
    brief = client.one_hardware(hardware, compatibility=False)
    assert brief["compatibility"] == [] and brief["hardware"]["id"] == hardware
