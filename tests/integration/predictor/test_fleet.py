"""Fleets asked of a real log and its projection, with the shipped predictor and prices of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.errors import ImpossibleConstraint, TraceNeeded, UnknownHardware, UnknownModel, UsageError
from predictor.fleet.question import FleetQuestion, Load, Own

SMALL, LARGE = "nvidia-l4", "nvidia-rtx-4090"
MODELS = ["acme/net", "acme/other"]


@pytest.fixture
def priced(build: Any) -> Any:
    def made(hardware: str, usd: float, count: int = 1, **more: Any) -> Any:
        data = {"hardware": {"id": hardware, "kind": "gpu", "count": count}, "provider": "tester", "usd_per_hour": usd}
        return build.event("assay.price.published.v1", {**data, "date": "2026-11-01", **more})

    return made


@pytest.fixture
def measured(build: Any) -> Any:
    """A measurement with its memory: `rate` items a second at batch 8."""

    def made(model: str, hardware: str, rate: float, memory: float = 2e9, precision: str = "fp16") -> Any:
        p50 = 8 / rate * 1e3
        event = build.measurement(p50, model=model, hardware=hardware, platform="cuda", precision=precision)
        workload = {"mode": "inference", "scenario": "single_stream", "batch_size": 8, "image_size": 224}
        event["data"] |= {"workload": workload}
        event["data"]["metrics"] |= {
            "peak_memory_bytes": int(memory),
            "device_memory_bytes": int(memory),
            "throughput_per_s": None,
        }
        event["data"]["metrics"]["latency_ms"] = {"p50": p50, "mean": p50, "n": 61, "ci95": {"p50": [p50, p50]}}
        return event

    return made


@pytest.fixture
def world(told: Any, priced: Any, measured: Any) -> None:
    """Two models, measured on two devices: the larger is thrice as fast and costs twice as much."""
    told(
        priced(SMALL, 1.0), priced(LARGE, 2.0),
        *(measured(model, SMALL, 100.0) for model in MODELS), *(measured(model, LARGE, 300.0) for model in MODELS),
    )  # fmt: skip


def ask(service: Any, rates: list[float], **asked: Any) -> dict[str, Any]:
    limits = asked.pop("limits", {})
    loads = [Load(model=model, items_per_s=rate, batch_sizes=[8], precision="fp16", **limits)
             for model, rate in zip(MODELS, rates, strict=False)]  # fmt: skip
    given = {"providers": ["tester"], "utilisation": 1.0, **asked}
    answer: dict[str, Any] = service.answers.fleet(FleetQuestion(loads=loads, **given))
    return answer


@pytest.mark.usefixtures("world")
def test_two_models_share_the_machine_that_costs_least_for_both(service: Any) -> None:
    answer = ask(service, [60.0, 30.0])
    assert answer["feasible"]
    assert answer["usd_per_hour"] == 1.0
    assert answer["usd_per_month"] == 730.0
    (machine,) = answer["machines"]
    assert (machine["hardware"], machine["count"], machine["price"]["provider"]) == (SMALL, 1, "tester")
    assert machine["price"]["basis"].startswith("published by tester")
    (place,) = machine["places"]
    assert place["utilisation"] == pytest.approx(0.9)
    assert place["memory_bytes"] == 4e9
    assert [(run["model"], run["rate"], run["basis"]) for run in place["runs"]] == [
        (MODELS[0], 60.0, "measured"), (MODELS[1], 30.0, "measured"),
    ]  # fmt: skip
    assert all(run["evidence"] for run in place["runs"])
    # 0.1 of the device is left: 10 items a second more of either.
    assert [load["could_serve"] for load in answer["loads"]] == pytest.approx([70.0, 40.0])
    assert answer["proof"]["proven"]
    assert answer["greedy_usd_per_hour"] >= answer["usd_per_hour"]
    ways = {one["what"]: one["usd_per_hour"] for one in answer["alternatives"]}
    assert ways == {"no two models on one device": 2.0, f"only {LARGE}": 2.0}
    assert answer["unknown"] == []
    # Measured without spread: the ends of the intervals are one.
    assert set(answer["ends"].values()) == {1.0}


@pytest.mark.usefixtures("world")
def test_the_larger_machine_is_taken_where_it_is_cheaper_an_item(service: Any) -> None:
    answer = ask(service, [290.0])
    assert answer["usd_per_hour"] == 2.0
    assert [(one["hardware"], one["count"]) for one in answer["machines"]] == [(LARGE, 1)]
    # 390 items a second: 300 of them on the large, the rest on a small one; at 0.7 it takes more.
    assert ask(service, [390.0])["usd_per_hour"] == 3.0
    assert ask(service, [390.0], utilisation=0.7)["usd_per_hour"] == 4.0


@pytest.mark.usefixtures("world")
def test_the_same_question_has_the_same_bytes(service: Any) -> None:
    one, two = (json.dumps(ask(service, [390.0, 120.0])) for _ in range(2))
    assert one == two
    assert json.loads(one)["id"] != ask(service, [390.0, 121.0])["id"]


def test_memory_keeps_models_apart(service: Any, told: Any, priced: Any, measured: Any) -> None:
    told(priced(SMALL, 1.0), *(measured(model, SMALL, 100.0, memory=12e9) for model in MODELS))
    answer = ask(service, [10.0, 10.0])
    # Of 24 GB a tenth stays free.
    assert answer["usd_per_hour"] == 2.0
    assert [place["memory_bytes"] for one in answer["machines"] for place in one["places"]] == [12e9, 12e9]
    assert ask(service, [10.0, 10.0], memory_headroom=0.0)["usd_per_hour"] == (1.0 if room(SMALL) >= 24e9 else 2.0)


def room(hardware: str) -> float:
    from domain.catalogues.hardware import require

    figure = require(hardware).memory_bytes
    assert figure is not None
    return float(figure.value)


def test_what_does_not_fit_anywhere_is_named_with_the_closest(
    service: Any, told: Any, priced: Any, measured: Any
) -> None:
    told(priced(SMALL, 1.0), measured(MODELS[0], SMALL, 100.0, memory=0.95 * room(SMALL)))
    answer = ask(service, [10.0])
    assert not answer["feasible"]
    (unmet,) = answer["unmet"]
    assert unmet["model"] == MODELS[0]
    assert f"batch 8 on {SMALL}" in unmet["why"]
    assert "1.06 times over" in unmet["why"]
    assert answer["machines"] == []


@pytest.mark.usefixtures("world")
def test_a_limit_that_nothing_meets_is_told(service: Any) -> None:
    answer = ask(service, [10.0, 10.0], limits={"max_latency_ms": 5.0})
    assert not answer["feasible"]
    assert [one["load"] for one in answer["unmet"]] == [0, 1]
    assert "max_latency_ms" in answer["unmet"][0]["why"]


@pytest.mark.usefixtures("world")
def test_own_machines_come_at_their_own_cost_and_there_are_only_so_many(service: Any) -> None:
    own = {SMALL: Own(count=2, usd_per_hour=0.1)}
    answer = ask(service, [150.0], own=own)
    assert answer["usd_per_hour"] == pytest.approx(0.2)
    assert answer["machines"][0]["price"]["basis"] == "said in the question"
    mixed = ask(service, [250.0], own=own)
    assert mixed["usd_per_hour"] == pytest.approx(1.2)
    none = ask(service, [250.0], own=own, hardware="own")
    assert not none["feasible"]
    assert none["unmet"][0]["served_share"] == pytest.approx(0.8)
    assert none["unmet"][0]["machines_needed"] == 3
    free = ask(service, [50.0], own={SMALL: 1}, hardware="own")
    assert free["usd_per_hour"] == 0.0
    assert "counted as nothing" in free["unknown"][0]["what"]


def test_an_instance_type_is_that_machine_alone(service: Any, told: Any, measured: Any) -> None:
    told(measured(MODELS[0], "nvidia-a10g", 100.0))
    asked = {"providers": [], "own": {}}
    one = ask(service, [10.0], hardware=["aws:g5.4xlarge"], **asked)
    assert [machine["price"]["instance"] for machine in one["machines"]] == ["g5.4xlarge"]
    assert one["machines"][0]["price"]["basis"].startswith("packaged price list")
    cheaper = ask(service, [10.0], hardware=["nvidia-a10g"], **asked)
    assert cheaper["usd_per_hour"] < one["usd_per_hour"]
    nowhere = ask(service, [10.0], hardware=["aws:g5.4xlarge"], providers=["gcp"])
    assert not nowhere["feasible"]
    assert nowhere["excluded"][-1]["rule"] == "no price"


@pytest.mark.usefixtures("world")
def test_fewer_machines_than_it_takes_cannot_be_had(service: Any) -> None:
    answer = ask(service, [390.0], max_machines=1)
    assert not answer["feasible"]
    assert answer["unmet"][0]["why"].startswith("The machines that there are serve 77% of the loads")
    assert "2 machines, for 3 USD/h" in answer["unmet"][0]["why"]


def test_a_prediction_counts_at_its_pessimistic_end_and_is_told_as_not_known(
    service: Any, told: Any, priced: Any, build: Any, make_trace: Any
) -> None:
    told(priced(LARGE, 2.0), build.event("assay.model.traced.v1", make_trace(MODELS[0], "net", "vision", 3)))
    answer = ask(service, [100.0], utilisation=0.7)
    run = answer["machines"][0]["places"][0]["runs"][0]
    entry = run["latency_ms"] / run["latency_ms_high"] * run["throughput_per_s"]
    assert run["most"] == pytest.approx(entry, rel=1e-4)
    assert run["most"] < run["most_expected"]
    ends = answer["ends"]
    assert ends["optimistic"] <= ends["expected"] <= ends["pessimistic"] == answer["usd_per_hour"]
    assert any(": speed is " in one["what"] and one["command"].startswith("assay bench") for one in answer["unknown"])


BAD: list[tuple[dict[str, Any], type, str]] = [
    ({"loads": []}, UsageError, "loads"),
    ({"loads": [Load(model="acme/net")]}, UsageError, "loads[0].items_per_s"),
    ({"loads": [Load(model="acme/net", items_per_s=1, requests_per_s=1)]}, UsageError, "loads[0].requests_per_s"),
    ({"loads": [Load(model="acme/net", items_per_s=0)]}, ImpossibleConstraint, "loads[0].items_per_s"),
    ({"loads": [Load(model="acme/net", items_per_s=1), Load(model="acme/net", items_per_s=1, max_latency_ms=-1)]},
     ImpossibleConstraint, "loads[1].max_latency_ms"),
    ({"loads": [Load(model="acme/net", items_per_s=1, record=True)]}, UsageError, "loads[0].record"),
    ({"loads": [Load(model="acme/net", tokens_per_s=1)]}, UsageError, "loads[0].tokens_per_s"),
    ({"loads": [Load(model="nobody/knows-it", items_per_s=1)]}, UnknownModel, "loads[0].model"),
    ({"loads": [Load(model="bert-base-uncased", items_per_s=1, sequence_length=77)]}, TraceNeeded, "loads[0].model"),
    ({"utilisation": 1.5}, UsageError, "utilisation"),
    ({"memory_headroom": -0.1}, UsageError, "memory_headroom"),
    ({"max_machines": 0}, UsageError, "max_machines"),
    ({"own": {SMALL: 0}}, UsageError, f"own.{SMALL}"),
    ({"own": {SMALL: Own(count=1, usd_per_hour=-1.0)}}, UsageError, f"own.{SMALL}.usd_per_hour"),
    ({"own": {"nvidia-l5": 1}}, UnknownHardware, "own.nvidia-l5"),
    ({"hardware": ["nvidia-l5"]}, UnknownHardware, "hardware"),
]  # fmt: skip


@pytest.mark.usefixtures("world")
def test_bad_input_is_named_by_its_field(service: Any) -> None:
    for asked, error, field in BAD:
        question = {"loads": [Load(model=MODELS[0], items_per_s=1.0)], "providers": ["tester"], **asked}
        with pytest.raises(error) as raised:
            service.answers.fleet(FleetQuestion(**question))
        assert raised.value.field == field
