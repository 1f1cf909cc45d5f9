"""Fleets and fits over HTTP: the same bytes twice, and what cannot be asked by its field."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from domain.answers import answer_document
from domain.errors import ImpossibleConstraint, UnknownHardware, UsageError

DEVICE = "nvidia-a10"
MODEL = "acme/fleet-net"


@pytest.fixture(scope="module")
def filled(service: Any, build: Any) -> Any:
    """The shared service with one model measured on one device, and a price for that."""
    event = build.measurement(80.0, model=MODEL, hardware=DEVICE, platform="cuda", precision="fp16")
    event["data"]["metrics"] |= {"peak_memory_bytes": 1_000_000_000}
    price = {
        "hardware": {"id": DEVICE, "kind": "gpu", "count": 1}, "provider": "fleets", "usd_per_hour": 0.5, "date": "2026-11-01",
    }  # fmt: skip
    with service.client() as client:
        posted = client.post_events([event, build.event("assay.price.published.v1", price)])
        client.wait_for(posted["last_position"])
    return service


def load(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "items_per_s": 3.0, **more}


def test_a_fleet_is_answered_with_the_same_bytes_twice(filled: Any, client: Any) -> None:
    answer = client.fleet([load(name="one"), load(name="two")], hardware=[DEVICE], providers=["fleets"])
    assert (answer.feasible, answer.usd_per_hour) == (True, 0.5)
    assert [load.name for load in answer.loads] == ["one", "two"]
    body = {"loads": [load(name="one"), load(name="two")], "hardware": [DEVICE], "providers": ["fleets"]}
    body["as_of"] = answer.position
    again = [httpx.post(f"{filled.url}/v1/fleets", json=body, timeout=60) for _ in range(2)]
    assert again[0].status_code == 200
    assert again[0].content == again[1].content
    sent = again[0].json()
    assert answer_document(answer) == sent | {name: answer_document(answer)[name] for name in ("id", "question")}
    assert again[0].headers["etag"] == again[1].headers["etag"]


def test_what_fits_is_answered_with_the_same_bytes_twice(filled: Any, client: Any) -> None:
    answer = client.fit(MODEL, hardware=[DEVICE])
    # Measured and never traced: nothing is known of other batches.
    assert answer.fits == [] or answer.fits[0].hardware == DEVICE
    body = {"model": MODEL, "hardware": [DEVICE], "as_of": answer.position}
    again = [httpx.post(f"{filled.url}/v1/fits", json=body, timeout=60) for _ in range(2)]
    assert again[0].status_code == 200
    assert again[0].content == again[1].content
    assert again[0].json() == answer_document(answer) | {"id": again[0].json()["id"]}


@pytest.mark.parametrize(
    ("body", "error", "field"),
    [
        ({"loads": []}, UsageError, "loads"),
        ({"loads": [load(), load(items_per_s=-1)]}, ImpossibleConstraint, "loads[1].items_per_s"),
        ({"loads": [load(max_latency_ms=0)]}, ImpossibleConstraint, "loads[0].max_latency_ms"),
        ({"loads": [load()], "hardware": ["nvidia-nothing"]}, UnknownHardware, "hardware"),
    ],
)
@pytest.mark.usefixtures("filled")
def test_a_fleet_that_cannot_be_asked_is_refused_by_its_field(
    client: Any, body: dict[str, Any], error: type, field: str
) -> None:
    with pytest.raises(error) as raised:
        client.fleet(**body)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("fleets", {"loads": [{"model": MODEL, "items_per_s": "many"}]}, "loads[0].items_per_s"),
        ("fleets", {"loads": [load(colour="red")]}, "colour"),
        ("fleets", {"loads": [load()], "own": {DEVICE: {"many": 1}}}, "many"),
        ("fits", {"model": MODEL, "max_memory_mb": -1}, "max_memory_mb"),
        ("fits", {"model": MODEL, "colour": "red"}, "colour"),
        ("fits", {}, "model"),
    ],
)
def test_a_body_that_is_wrong_is_refused_by_its_field(
    service: Any, path: str, body: dict[str, Any], field: str
) -> None:
    answer = httpx.post(f"{service.url}/v1/{path}", json=body, timeout=60)
    assert answer.status_code == 422
    assert field in answer.json()["field"]
