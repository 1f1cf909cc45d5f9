"""From options to a decision: devices at hand, the front, what would do, what is not told apart, what to measure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.canonical import canonical
from domain.errors import UnknownHardware, UsageError
from predictor.answering.question import Device, PredictQuestion, Question

MODEL = "acme/net"
GPU, OTHER = "nvidia-rtx-4090", "nvidia-rtx-3090"


@pytest.fixture
def measured(build: Any) -> Any:
    def made(p50: float, hardware: str = GPU, platform: str = "cuda", batch: int = 1, memory: float = 1e9) -> Any:
        event = build.measurement(p50, model=MODEL, hardware=hardware, platform=platform, precision="fp32")
        event["data"]["workload"] = {
            "mode": "inference", "scenario": "single_stream", "batch_size": batch, "image_size": 224,
        }  # fmt: skip
        event["data"]["metrics"]["peak_memory_bytes"] = int(memory)
        return event

    return made


@pytest.fixture
def traced(build: Any, make_trace: Any) -> Any:
    return build.event("assay.model.traced.v1", make_trace(MODEL, "net", "vision", 3))


def ask(service: Any, **asked: Any) -> dict[str, Any]:
    return service.answers.recommend(Question(**{"model": MODEL, "platform": "cuda", **asked}))


def test_of_the_devices_at_hand_the_fastest_that_has_room_is_used(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0), measured(3.0, OTHER, memory=4e9))
    devices = [Device(hardware=OTHER, name="cuda:1"), Device(hardware=GPU, name="cuda:0")]
    found = ask(service, devices=devices)["at_hand"]
    assert (found["use"], [one["name"] for one in found["order"]], found["left_out"]) == (
        "cuda:0", ["cuda:0", "cuda:1"], [],
    )  # fmt: skip
    assert [one["latency_ms"] for one in found["order"]] == [2.0, 3.0]
    full = [Device(hardware=GPU, name="cuda:0", free_memory_mb=500), devices[0]]
    found = ask(service, devices=full)["at_hand"]
    assert (found["use"], found["left_out"][0]["name"]) == ("cuda:1", "cuda:0")
    assert "1000 MB against 500" in found["left_out"][0]["why"]
    other = [Device(hardware=GPU, name="cuda:0", platforms=["openvino"]), devices[0]]
    assert ask(service, devices=other)["at_hand"]["use"] == "cuda:1"
    assert ask(service)["at_hand"] is None


def test_devices_at_hand_go_by_any_of_their_names(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0))
    assert ask(service, devices=[Device(hardware="rtx4090")])["at_hand"]["use"] == "rtx4090"
    with pytest.raises(UnknownHardware) as caught:
        ask(service, devices=[Device(hardware="rtx409")])
    assert GPU in str(caught.value.remedy)


def test_the_front_is_told_whole_and_marked_in_the_ranking(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0), measured(3.0, batch=8), measured(9.0, batch=16), measured(40.0, batch=32))
    answer = ask(service, hardware=[GPU], batch_sizes=[1, 8, 16, 32], top=2, providers=["nobody"], per_hardware=False)
    assert answer["front"]["axes"] == ["latency", "throughput"]
    assert [(one["batch_size"], one["rank"]) for one in answer["front"]["options"]] == [(1, 1), (8, 2)]
    assert [one["on_front"] for one in answer["ranked"]] == [True, True]
    assert answer["ranked"][0]["why_above_next"].startswith(
        "33% less latency than the next (better with a probability of 100%)"
    )


def test_contradicting_limits_are_named_with_what_would_do(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0), measured(8.0, batch=32))
    answer = ask(service, hardware=[GPU], batch_sizes=[1, 32], max_latency_ms=4.0, min_throughput_per_s=2000.0)
    assert answer["ranked"] == []
    would = {one["constraint"]: one for one in answer["within_reach"]}
    assert would["max_latency_ms"]["would_do"] == pytest.approx(8.0, abs=0.01)
    assert would["max_latency_ms"]["batch_size"] == 32
    assert would["min_throughput_per_s"]["would_do"] == pytest.approx(500, abs=1)
    assert would["min_throughput_per_s"]["batch_size"] == 1
    again = ask(
        service, hardware=[GPU], batch_sizes=[1, 32], min_throughput_per_s=2000.0,
        max_latency_ms=would["max_latency_ms"]["would_do"],
    )  # fmt: skip
    assert [one["batch_size"] for one in again["ranked"]] == [32]
    assert again["within_reach"] == []


def test_what_would_do_does_for_an_estimate_as_well(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    asked = {"hardware": [GPU], "precision": "fp32", "batch_sizes": [1], "confidence": 0.9}
    (would,) = ask(service, **asked, max_latency_ms=1e-6)["within_reach"]
    (found,) = ask(service, **asked, max_latency_ms=would["would_do"])["ranked"]
    assert 0.9 <= found["meets"][0]["probability"] < 0.92
    assert ask(service, **asked, max_latency_ms=would["would_do"] * 0.98)["ranked"] == []


def test_what_nothing_tells_apart_is_not_recommended(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    twins = ["nvidia-l40", "nvidia-l40s"]
    # No row near such a batch trained, so that no measurement supports either interval.
    answer = ask(service, hardware=twins, precision="fp32", batch_sizes=[32768])
    first = answer["ranked"][0]["hardware"]
    (second,) = {*twins} - {first}
    assert answer["abstained"].startswith(f"{first} cannot be told from {second}")
    assert "Measure first: assay bench acme/net --platform cuda" in answer["abstained"]
    assert ask(service, hardware=[first], precision="fp32", batch_sizes=[32768])["abstained"] is None
    # Where both intervals are what others like them were off, the better one is recommended, and the tie is marked.
    near = ask(service, hardware=twins, precision="fp32", batch_sizes=[8])
    assert near["abstained"] is None and near["ranked"][1]["tied_with"] == 1


def test_what_is_measured_first_is_what_stands_first_unmeasured(
    service: Any, told: Any, traced: Any, measured: Any
) -> None:
    told(traced)
    first = ask(service, hardware=[GPU, OTHER], precision="fp32", batch_sizes=[1])["suggestions"]
    assert "what stands first rests on predicted" in first[0]["why"]
    assert 0 < first[0]["probability"] < 1
    told(measured(1e-4))
    after = ask(service, hardware=[GPU, OTHER], precision="fp32", batch_sizes=[1])
    assert after["ranked"][0]["basis"] == "measured"
    assert after["suggestions"] == []


def test_of_each_hardware_the_best_configuration_alone(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0), measured(3.0, batch=8), measured(2.5, OTHER), measured(9.0, OTHER, batch=8))
    answer = ask(service, hardware=[GPU, OTHER], batch_sizes=[1, 8], per_hardware=True)
    assert [(one["hardware"], one["batch_size"]) for one in answer["ranked"]] == [(GPU, 1), (OTHER, 1)]
    assert answer["met"] == 4
    best = ask(service, hardware=[GPU, OTHER], batch_sizes=[1, 8], per_hardware=True, objective="throughput")
    assert [(one["hardware"], one["batch_size"]) for one in best["ranked"]] == [(GPU, 8), (OTHER, 8)]


def test_devices_side_by_side_multiply_throughput_and_price_alone(
    service: Any, told: Any, traced: Any, build: Any
) -> None:
    told(traced)
    one, four = (
        ask(service, hardware=[GPU], precision="fp32", batch_sizes=[8], count=count)["ranked"][0] for count in (None, 4)
    )
    assert four["throughput_per_s"] == pytest.approx(4 * one["throughput_per_s"], rel=1e-4)
    assert four["latency_ms"] == one["latency_ms"]
    assert four["hardware_count"] == 4
    assert four["rated_power_w"] == 4 * one["rated_power_w"]
    assert "side by side" in four["why"]


def test_eager_and_compiled_stand_beside_each_other(service: Any, told: Any, traced: Any) -> None:
    told(traced)
    asked = {"hardware": [GPU], "precision": "amp-fp16", "batch_sizes": [32], "per_hardware": False}
    both = ask(service, **asked)["ranked"]
    assert {one["compiled"] for one in both} == {True, False}
    assert [one["compiled"] for one in ask(service, **asked, compiled=True)["ranked"]] == [True]
    assert len(ask(service, **asked, compiled="usual")["ranked"]) == 1
    commands = {one["compiled"]: one["command"] for one in both}
    assert "--compiled" in commands[True]
    assert "--compiled" not in commands[False]


def test_a_precision_is_told_with_what_it_costs_in_outputs(service: Any, told: Any, measured: Any, build: Any) -> None:
    test = build.test(model=MODEL, platform="cuda")
    test["data"]["execution"]["precision"] = "fp32"
    test["data"]["checks"] = {
        "outputs": [{"cosine": 0.99999, "max_absolute": 0.002}, {"cosine": 0.999, "max_absolute": 0.1}]
    }
    told(measured(2.0), test)
    error = ask(service, hardware=[GPU])["ranked"][0]["output_error"]
    assert (error["cosine"], error["max_absolute"]) == (0.999, 0.1)
    assert error["evidence"] == test["id"]


def test_the_answer_says_how_likely_each_limit_is_met(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced, measured(2.0))
    answer = ask(service, hardware=[GPU, OTHER], max_latency_ms=1000.0, precision="fp32", batch_sizes=[1])
    for entry in answer["ranked"]:
        (met,) = entry["meets"]
        assert (met["constraint"], met["limit"], met["value"]) == ("max_latency_ms", 1000.0, entry["latency_ms"])
        assert met["probability"] >= 0.8
    assert json.dumps(answer) == json.dumps(
        ask(service, hardware=[GPU, OTHER], max_latency_ms=1000.0, precision="fp32", batch_sizes=[1])
    )


def test_hardware_of_a_vendor_and_prices_of_a_region(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced, measured(2.0))
    intel = ask(service, vendors="Intel", platform=[], top=1000, hardware="all")
    assert intel["ranked"]
    assert {one["hardware"].split("-")[0] for one in intel["ranked"]} == {"intel"}
    with pytest.raises(UsageError) as caught:
        ask(service, vendors=["intl"])
    assert caught.value.field == "vendors"
    assert "intel" in caught.value.remedy
    here = ask(service, hardware=["nvidia-l4"], precision="fp16", regions=["us-east-1"], count=2)["ranked"][0]
    assert (here["price"]["provider"], here["price"]["region"], here["price"]["spot"]) == ("aws", "us-east-1", False)
    assert here["usd_per_hour"] == pytest.approx(here["price"]["machines"] * here["price"]["usd_per_hour_each"])
    assert here["price"]["machines"] * here["price"]["devices_each"] >= 2
    assert here["price"]["date"]
    whole = ask(service, hardware=["aws:g6.12xlarge"], precision="fp16", batch_sizes=[8])["ranked"][0]
    assert (whole["hardware"], whole["hardware_count"], whole["price"]["instance"]) == ("nvidia-l4", 4, "g6.12xlarge")
    assert whole["price"]["machines"] == 1
    nowhere = ask(service, hardware=["nvidia-l4"], regions=["moon-1"], objective="cost")
    assert nowhere["excluded"][0]["rule"] == "no price"


def test_any_node_gives_the_same_answer_byte_for_byte(
    service: Any, told: Any, traced: Any, measured: Any, tmp_path_factory: Any
) -> None:
    told(traced)
    told(measured(2.0))
    told(measured(3.0, OTHER, batch=8))
    other = type(service)(service.database, tmp_path_factory.mktemp("node"))
    try:
        # This node reads the whole log at once; the first saw it piece by piece.
        assert other.catch_up() == service.projection.position
        for asked in (
            {"platform": [], "top": 100}, {"objective": {"latency": 1.0, "cost": 1.0}, "platform": []},
            {"max_latency_ms": 1.0, "hardware": [GPU, OTHER]}, {"devices": [Device(hardware=GPU), Device(hardware=OTHER)]},
        ):  # fmt: skip
            one, two = (canonical(ask(node, **asked)) for node in (service, other))
            assert one == two
    finally:
        other.projection.stop()


def test_what_was_asked_before_changes_no_answer(service: Any, told: Any, traced: Any, measured: Any) -> None:
    told(traced)
    told(measured(2.0))
    devices = [Device(hardware=GPU), Device(hardware=OTHER)]
    both: dict[str, Any] = {"hardware": [GPU, OTHER]}
    questions: list[dict[str, Any]] = [
        both, both | {"max_latency_ms": 1.0}, both | {"objective": "throughput", "max_latency_ms": 9.0},
        {"devices": devices}, {"devices": devices, "max_memory_mb": 1.0}, both | {"batch_sizes": [1, 64]},
        both | {"precision": "fp16"}, both | {"compiled": True}, both | {"mode": "training"}, both | {"percentile": "p99"},
        both | {"count": 2}, {"hardware": [OTHER]}, both | {"platform": []}, both,
        {"hardware": [GPU], "precision": "fp32", "batch_sizes": [1], "compiled": "usual"},
    ]  # fmt: skip
    predict = PredictQuestion(model=MODEL, hardware=GPU, platform="cuda", precision="fp32", batch_size=1)
    seen = service.answers.predict(predict)
    for asked in questions:
        one = ask(service, **asked)
        anew = service.another_answerer().recommend(Question(**{"model": MODEL, "platform": "cuda", **asked}))
        assert canonical(one) == canonical(anew)
    assert canonical(service.answers.predict(predict)) == canonical(seen)
    assert seen["measured"]["latency_ms"] == 2.0
    assert seen["basis"] not in ("measured", "imported")


def test_a_device_has_one_place_unless_all_configurations_are_asked(service: Any, told: Any, measured: Any) -> None:
    told(measured(2.0), measured(3.0, batch=8), measured(1.0, OTHER), measured(9.0, OTHER, batch=8))
    asked = {"hardware": [GPU, OTHER], "batch_sizes": [1, 8], "precision": "fp32", "compiled": "usual"}
    assert [row["hardware"] for row in ask(service, **asked)["ranked"]] == [OTHER, GPU]
    every = ask(service, **asked, per_hardware=False)["ranked"]
    assert [(row["hardware"], row["latency_ms"]) for row in every if row["basis"] == "measured"] == [
        (OTHER, 1.0), (GPU, 2.0), (GPU, 3.0), (OTHER, 9.0),
    ]  # fmt: skip
