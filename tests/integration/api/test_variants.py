"""`/v1/variants` and `/v1/deliveries`, as the client reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.client import Client
from domain.errors import AssayError
from tests import variants
from tests.integration.conftest import RunningService
from tests.variants import BASE, HARDWARE, delivery, endpoint, experiment, name_of, variant


@pytest.fixture(scope="module")
def client(service_database: Any, build: Any, tmp_path_factory: Any) -> Iterator[Client]:
    """A client of a service that has seen the whole experiment, an unmeasured variant, and a served model."""
    service = RunningService(tmp_path_factory.mktemp("variants"), service_database().url).start()
    with service.client() as opened:
        answer = opened.post_events(
            [
                *experiment(build),
                variant(build, "prune-90", precision="fp32", forms={"checkpoint": 346.0}),
                endpoint(build, "created", promise=variants.PROMISE, **variants.PLACED),
                endpoint(build, "ready", workers=2),
                endpoint(build, "ready", "other", model={"id": "acme/other"}),
                delivery(build),
                delivery(build, "broken", 15.9, 15),
                delivery(build, name="other", model={"id": "acme/other"}),
            ]
        )
        opened.wait_for(answer["last_position"])
        yield opened
    service.stop()


def test_a_model_and_its_variants_stand_side_by_side_losers_included(client: Client) -> None:
    answer = client.variants(BASE)
    assert (answer.model, answer.base_bytes, answer.workload and answer.workload["batch_size"]) == (
        BASE,
        346_293_852,
        1,
    )
    rows = {(row.recipe, row.platform, row.precision): row for row in answer.items}
    assert len(rows) == len(answer.items) == 4 + 16 + 1
    fast, slow, itself = (
        rows["int8-ptq", "openvino", "int8"],
        rows["int4-weights", "onnxruntime", "int4"],
        rows[None, "openvino", "fp32"],
    )
    assert (fast.hardware, fast.form, fast.bytes, fast.latency_ms) == (HARDWARE, "openvino", 88_400_000, 12.1)
    assert fast.speedup == pytest.approx(32.7 / 12.1, rel=1e-3)
    assert slow.speedup == pytest.approx(41.6 / 44.0, rel=1e-3)
    assert slow.quality is None and fast.quality is not None and fast.quality.high == 0.4
    assert fast.evidence[1] == fast.quality.evidence
    assert (itself.is_reference, itself.quality, itself.speedup, itself.bytes) == (True, None, 1.0, 346_293_852)
    reduced = rows[None, "openvino", "bf16"]
    assert not reduced.is_reference and reduced.quality is not None and reduced.quality.loss == 0.05
    unmeasured = rows["prune-90", None, "fp32"]
    assert (unmeasured.form, unmeasured.latency_ms, unmeasured.bytes) == ("checkpoint", None, 346_000_000)


def test_a_variant_is_answered_with_its_whole_family_and_an_unknown_model_with_nothing(client: Client) -> None:
    assert client.variants(name_of("int8-ptq")) == client.variants(BASE)
    assert client.variants("acme/nobody").items == []


def test_deliveries_are_listed_newest_first_beside_the_endpoints(client: Client) -> None:
    answer = client.deliveries(endpoint="digits")
    assert [(item.verdict, item.delivered_ms, item.promise_high_ms) for item in answer.items] == [
        ("broken", 15.9, 13.0), ("kept", 12.4, 13.0),
    ]  # fmt: skip
    (standing,) = answer.endpoints
    assert (standing.endpoint, standing.state, standing.workers) == ("digits", "ready", 2)
    assert [item.verdict for item in client.deliveries(verdict="broken").items] == ["broken"]
    assert {item.endpoint for item in client.deliveries(model="acme/other").items} == {"other"}
    assert len(client.deliveries(limit=1).items) == 1


def test_a_verdict_that_does_not_exist_is_refused_by_its_name(client: Client) -> None:
    with pytest.raises(AssayError) as refused:
        client.deliveries(verdict="perfect")
    assert refused.value.field == "verdict"
