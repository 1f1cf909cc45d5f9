"""Prices over HTTP: the list that ships, what events put in its place, and the state at a position."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from domain.events import PRICE_PUBLISHED, new_event


def get(service, path: str, **asked: Any) -> Any:
    answer = httpx.get(f"{service.url}{path}", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def price(**changed: Any) -> dict[str, Any]:
    said = {
        "hardware": {"id": "nvidia-l4", "kind": "gpu", "count": 1}, "provider": "acme", "usd_per_hour": 0.5,
        "date": "2026-11-01", "instance": "small", "region": "eu", "spot": False, "source": "their page",
    }  # fmt: skip
    return dict(new_event(PRICE_PUBLISHED, {**said, **changed}, source="tests"))


def of(service, provider: str, **asked: Any) -> list[dict[str, Any]]:
    return get(service, "/v1/prices", provider=provider, limit=1000, **asked)["items"]


def test_the_list_that_ships_answers_without_events(service):
    rows = get(service, "/v1/prices", hardware="l4", limit=1000)["items"]
    assert {row["hardware"] for row in rows} == {"nvidia-l4"}
    assert {row["provider"] for row in rows} >= {"aws", "gcp"}
    each = [row["usd_per_device"] for row in rows]
    assert each == sorted(each)
    row = next(row for row in rows if row["instance"] == "g6.xlarge")
    assert (row["usd_per_hour"], row["date"], row["position"]) == (0.8048, "2026-01-19", None)
    assert row["basis"] == "packaged price list, dated 2026-01-19" and "karpenter" in row["source"]


def test_an_event_takes_the_place_of_what_ships_from_its_position_on(service, client):
    assert len(of(service, "verda", hardware="nvidia-h200-sxm")) == 3
    event = price(provider="verda", hardware={"id": "nvidia-h200-sxm", "kind": "gpu", "count": 1}, usd_per_hour=3.0)
    position = client.post_events([event])["last_position"]
    (row,) = of(service, "verda", hardware="nvidia-h200-sxm", min_position=position)
    assert (row["usd_per_hour"], row["event_id"], row["position"]) == (3.0, event["id"], position)
    assert row["basis"] == "published by verda, dated 2026-11-01"
    assert row["stale"] == (row["age_days"] > 90)
    assert len(of(service, "verda", hardware="nvidia-h200-sxm", as_of=position - 1)) == 3
    assert len(of(service, "verda", hardware="nvidia-b200-sxm")) == 2


def test_a_newer_price_holds_and_one_that_has_not_begun_does_not(service, client):
    old, new, later = (
        price(provider="dated", date=date, usd_per_hour=usd)
        for date, usd in (("2026-01-01", 1.0), ("2026-01-02", 2.0), ("2199-01-01", 3.0))
    )
    first = client.post_events([new])["last_position"]
    last = client.post_events([old, later])["last_position"]
    assert [row["usd_per_hour"] for row in of(service, "dated", min_position=last)] == [2.0]
    assert [row["usd_per_hour"] for row in of(service, "dated", as_of=first)] == [2.0]
    assert of(service, "dated", as_of=first - 1) == []


def test_an_old_price_is_stale_and_a_new_one_is_not(service, client):
    days = {row["date"] for row in get(service, "/v1/prices", hardware="l4", limit=1000)["items"]}
    assert None in days
    today = datetime.now(UTC).date()
    ages = {"new": 1, "old": 90, "stale": 92}
    events = [price(provider="aged", region=name, date=str(today - timedelta(age))) for name, age in ages.items()]
    position = client.post_events(events)["last_position"]
    rows = {row["region"]: row for row in of(service, "aged", min_position=position)}
    assert {name: row["stale"] for name, row in rows.items()} == {"new": False, "old": False, "stale": True}
    assert all(row["stale"] for row in get(service, "/v1/prices", limit=1000)["items"] if row["date"] is None)


def test_an_unknown_hardware_is_refused_with_the_nearest_names(service):
    answer = httpx.get(f"{service.url}/v1/prices", params={"hardware": "nvidia-l40x"})
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("unknown-hardware") and "nvidia-l40s" in answer.json()["nearest"]
    answer = httpx.get(f"{service.url}/v1/instances", params={"hardware": "aws:g6.tiny"})
    assert "aws:g6.xlarge" in answer.json()["nearest"]


def test_instance_types_have_hardware_host_and_offers(service, client):
    rows = {row["id"]: row for row in get(service, "/v1/instances", provider="nebius", limit=1000)["items"]}
    row = rows["nebius:gpu-h100-sxm_8gpu-128vcpu-1600gb"]
    assert (row["hardware"], row["count"], row["vcpus"]) == ("nvidia-h100-sxm", 8, 128)
    assert {(offer["spot"], offer["usd_per_hour"]) for offer in row["offers"]} == {(False, 23.6), (True, 10.0)}
    position = client.post_events([price(provider="renter", instance="one")])["last_position"]
    (row,) = get(service, "/v1/instances", provider="renter", min_position=position)["items"]
    assert (row["id"], row["hardware"], row["catalogued"], row["regions"]) == ("renter:one", "nvidia-l4", False, ["eu"])


def test_one_hardware_tells_how_it_is_known_and_what_it_costs(service, client, build):
    known = get(service, "/v1/hardware/nvidia-a10g")["hardware"]
    assert known["known"] == "catalogued" and known["environments"] == []
    assert {one["id"] for one in known["instances"]} >= {"aws:g5.xlarge", "aws:g5.48xlarge"}
    assert known["prices"][0]["hardware"] == "nvidia-a10g"
    assert {one["alike"] for one in known["siblings"]} == {"architecture"}
    assert all(one["id"] != "nvidia-a10g" for one in known["siblings"])


def test_a_detected_hardware_has_its_environments_and_merges(service, client, build):
    position = client.post_events(
        [build.measurement(model="acme/priced"), build.alias("acme-uno", "acme-one", kind="hardware")]
    )["last_position"]
    known = get(service, "/v1/hardware/acme-uno", min_position=position)["hardware"]
    assert (known["id"], known["known"]) == ("acme-one", "detected")
    assert {one["alias"] for one in known["merged"]} >= {"acme-uno"}
    assert all(one["fingerprint"] for one in known["environments"]) and known["siblings"] == []


def test_a_negative_price_is_refused_by_the_gate(client):
    (refused,) = client.post_events([price(usd_per_hour=-1.0)])["rejected"]
    assert refused["field"] == "data.usd_per_hour"
