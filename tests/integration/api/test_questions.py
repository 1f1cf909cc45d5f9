"""Questions over HTTP: recommendations with evidence, predictions, training, and the same answer as of any position."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from domain.errors import AssayError, ImpossibleConstraint, TraceNeeded, UnknownModel


def named() -> str:
    return f"acme/model-{uuid.uuid4().hex[:8]}"


def ask(service: Any, **question: Any) -> httpx.Response:
    return httpx.post(f"{service.url}/v1/recommendations", json=question, timeout=60)


def trace(build: Any, model: str) -> dict[str, Any]:
    operator = {
        "name": "aten.addmm", "class": "mm", "count": 24, "flops": 2e8, "read_elements": 98304, "write_elements": 98304,
        "weight_elements": 589824, "inner": 768, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    totals = {
        "flops": 4.8e9, "read_elements": 2.4e6, "write_elements": 2.4e6, "weight_elements": 1.4e7, "operators": 24,
        "parameters": 14155776, "peak_activation_elements": 4e5,
    }  # fmt: skip
    return build.event(
        "assay.model.traced.v1",
        {
            "model": {"id": model, "category": "embedding", "family": "bert", "architecture": "sha256:" + "a" * 64},
            "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
            "tracer": {"name": "assay-tracer", "version": 1, "torch": "2.13.0"},
            "operators": [operator],
            "totals": totals,
        },
    )  # fmt: skip


def test_the_evidence_of_an_answer_is_what_was_measured(service, client, build):
    model = named()
    fast, slow = (build.measurement(p50=p50, model=model, hardware=name) for p50, name in ((1.0, "h-a"), (5.0, "h-b")))
    posted = client.post_events([slow, fast])
    client.wait_for(posted["last_position"])
    answer = client.recommend(model, batch_sizes=[1])
    assert [(one["hardware"], one["basis"], one["evidence"]) for one in answer["ranked"]] == [
        ("h-a", "measured", [fast["id"]]), ("h-b", "measured", [slow["id"]]),
    ]  # fmt: skip
    first = answer["ranked"][0]
    assert first["latency_ms_low"] <= first["latency_ms"] == 1.0 <= first["latency_ms_high"]
    assert answer["position"] >= posted["last_position"]
    assert answer["abstained"] is None


def test_asked_as_of_an_earlier_position_the_answer_is_that_of_then(client, build):
    model = named()
    first = client.post_events([build.measurement(p50=5.0, model=model, hardware="h-a")])["last_position"]
    client.wait_for(first)
    then = client.recommend(model)
    second = client.post_events([build.measurement(p50=1.0, model=model, hardware="h-b")])["last_position"]
    client.wait_for(second)
    assert client.recommend(model)["ranked"][0]["hardware"] == "h-b"
    assert client.recommend(model, as_of=then["position"]) == then


def test_the_same_question_gives_the_same_bytes_and_can_be_recorded(service, client, build):
    model = named()
    position = client.post_events([build.measurement(model=model)])["last_position"]
    client.wait_for(position)
    one, other = (ask(service, model=model, as_of=position) for _ in range(2))
    assert one.content == other.content
    assert one.headers["etag"] == other.headers["etag"]
    identifier = one.json()["id"]
    with pytest.raises(AssayError) as refused:
        client.recommendation(identifier)
    assert refused.value.status == 404
    for _ in range(2):
        assert ask(service, model=model, as_of=position, record=True).content == one.content
    client.wait_for(client.ready()["log_position"])
    kept = client.recommendation(identifier)
    assert kept["ranked"] == one.json()["ranked"]
    stored = [
        event
        for event in client.events(after=position, types=["assay.recommendation.issued.v1"])
        if event["data"]["recommendation"] == identifier
    ]
    assert len(stored) == 1


def test_a_retracted_measurement_is_no_evidence(client, build):
    model = named()
    wrong, right = (
        build.measurement(p50=0.1, model=model, hardware="h-a"),
        build.measurement(model=model, hardware="h-b"),
    )
    client.post_events([wrong, right])
    client.wait_for(client.post_events([build.retraction(event_id=wrong["id"])])["last_position"])
    assert [one["hardware"] for one in client.recommend(model)["ranked"]] == ["h-b"]


def test_what_cannot_be_asked_is_named(service, client, build):
    model = named()
    client.wait_for(client.post_events([build.measurement(model=model)])["last_position"])
    with pytest.raises(UnknownModel) as unknown:
        client.recommend("bert-base-uncasd")
    assert "bert-base-uncased" in (unknown.value.remedy or "")
    with pytest.raises(ImpossibleConstraint) as never:
        client.recommend(model, max_latency_ms=0)
    assert never.value.field == "max_latency_ms"
    with pytest.raises(TraceNeeded):
        client.recommend("google-bert/bert-base-uncased", sequence_length=77)
    for body, field in (
        ({"modl": model}, "modl"), ({"model": model, "batch_sizes": ["a"]}, "batch_sizes[0]"), ({}, "model"),
        ({"model": model, "objective": "beauty"}, "objective"), ({"model": model, "as_of": 10**8}, "as_of"),
    ):  # fmt: skip
        response = httpx.post(f"{service.url}/v1/recommendations", json=body)
        assert (response.status_code, response.json()["field"]) == (422, field)
    broken = httpx.post(
        f"{service.url}/v1/recommendations", content=b'{"model":', headers={"Content-Type": "application/json"}
    )
    assert (broken.status_code, broken.json()["type"]) == (400, "urn:assay:problem:malformed-body")


def test_what_nothing_meets_says_by_how_much(client, build):
    model = named()
    client.wait_for(client.post_events([build.measurement(p50=1.5, model=model)])["last_position"])
    answer = client.recommend(model, max_latency_ms=0.001)
    assert answer["ranked"] == []
    assert "max_latency_ms" in answer["abstained"]
    assert answer["excluded"][0]["rule"] == "max_latency_ms"


def test_a_model_that_was_only_traced_is_predicted_with_its_basis(client, build):
    model = named()
    client.wait_for(client.post_events([trace(build, model)])["last_position"])
    told = client.predict(model, hardware="nvidia-l4", platform="cuda", precision="fp16", batch_size=8)
    assert told["basis"] in ("roofline", "predicted", "calibrated")
    assert told["measured"] is None
    assert told["latency_ms_low"] < told["latency_ms"] < told["latency_ms_high"]
    assert told["breakdown"]["by_class_ms"]["mm"] > 0


@pytest.fixture
def alone(fresh_service):
    """A client of a service that holds what a test posts and nothing else: what can be learned depends on all rows."""
    with fresh_service().start().client() as one:
        yield one


@pytest.mark.torture
def test_training_makes_the_predictor_of_later_positions(alone, build):
    client, model = alone, named()
    position = client.post_events([trace(build, model), build.measurement(model=model)])["last_position"]
    client.wait_for(position)
    before = client.predictor()
    assert client.train()["accepted"] is False  # One model does not tell which of two predictors is better.
    assert client.predictor()["digest"] == before["digest"]
    trained = client.train(force=True)
    assert trained["digest"] != before["digest"]
    now = client.predictor()
    assert (now["digest"], now["shipped"]) == (trained["digest"], False)
    assert client.predictor(as_of=position)["digest"] == before["digest"]
    assert client.recommend(model)["predictor"] == trained["digest"]
    assert client.recommend(model, as_of=position)["predictor"] == before["digest"]
    assert client.train()["event_position"] > trained["event_position"]


def test_too_few_rows_to_score_say_how_many_are_missing(alone):
    client = alone
    with pytest.raises(AssayError) as refused:
        client.evaluate(split="architecture")
    assert refused.value.field == "split"
    assert "missing" in refused.value.detail
    with pytest.raises(AssayError) as unknown:
        client.evaluate(split="zodiac")
    assert unknown.value.status == 422
