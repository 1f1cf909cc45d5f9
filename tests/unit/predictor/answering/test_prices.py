"""Prices of devices on a day: whole machines, the cheapest that hold, and what an answer tells of them."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from predictor.answering.prices import prices_at

TODAY = date(2026, 11, 22)


def row(**changed: Any) -> dict[str, Any]:
    said = {
        "position": 7, "event_id": "0198c0de-0000-7000-8000-000000000001", "hardware_id": "acme-one", "hardware_count": 1,
        "provider": "acme", "usd_per_hour": 2.0, "date": "2026-11-01", "instance": None, "region": "eu", "spot": False,
        "price_source": "their page",
    }  # fmt: skip
    return {**said, **changed}


def test_the_cheapest_machine_that_holds_one_device_is_its_price() -> None:
    rows = [row(usd_per_hour=2.0), row(usd_per_hour=1.5, region="us"), row(usd_per_hour=8.0, hardware_count=8)]
    price = prices_at(rows, TODAY)["acme-one"]
    assert price.usd_per_hour == 1.5
    assert price.usd_per_device == 1.0


def test_several_devices_are_whole_machines_of_one_offer() -> None:
    price = prices_at([row(usd_per_hour=2.0), row(usd_per_hour=9.0, hardware_count=8)], TODAY)["acme-one"]
    assert [(price.hour(count).usd_per_hour, price.hour(count).machines) for count in (1, 4, 5, 8, 9, 16)] == [
        (2.0, 1), (8.0, 4), (9.0, 1), (9.0, 1), (18.0, 2), (18.0, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "usd"),
    [({}, 2.0), ({"spot": True}, 0.5), ({"regions": ["us"]}, 3.0), ({"providers": ["own"]}, 2.5)],
)
def test_spot_regions_and_providers_are_chosen(asked: dict[str, Any], usd: float) -> None:
    rows = [
        row(), row(spot=True, usd_per_hour=0.5), row(region="us", usd_per_hour=3.0),
        row(provider="own", region=None, usd_per_hour=2.5 if "providers" in asked else 9.0),
    ]  # fmt: skip
    assert prices_at(rows, TODAY, **asked)["acme-one"].usd_per_hour == usd


def test_a_machine_of_ones_own_stands_in_no_region() -> None:
    found = prices_at([row(provider="own", region=None)], TODAY, regions=["nowhere"])
    assert list(found) == ["acme-one"]


def test_an_answer_tells_where_the_price_is_from_and_that_it_is_stale() -> None:
    hour = prices_at([row(date="2026-08-01", instance="big", hardware_count=2)], TODAY)["acme-one"].hour(3)
    assert msgspec.to_builtins(hour.document()) == {
        "provider": "acme", "instance": "big", "region": "eu", "spot": False, "machines": 2, "devices_each": 2,
        "usd_per_hour_each": 2.0, "date": "2026-08-01", "age_days": 113, "stale": True,
        "basis": "published by acme, dated 2026-08-01", "source": "their page",
        "evidence": "0198c0de-0000-7000-8000-000000000001",
    }  # fmt: skip


def test_what_ships_answers_without_events_under_the_name_that_a_hardware_has_now() -> None:
    shipped = prices_at([], TODAY)
    assert shipped["nvidia-l4"].hour().basis.startswith("packaged price list")
    assert shipped["nvidia-l4"].hour().offer.event_id is None
    renamed = prices_at([], TODAY, resolve=lambda name: "my-l4" if name == "nvidia-l4" else name)
    assert "nvidia-l4" not in renamed and renamed["my-l4"].usd_per_hour == shipped["nvidia-l4"].usd_per_hour


def test_a_published_price_of_a_renamed_hardware_takes_the_place_of_what_ships_for_it() -> None:
    rows = [row(provider=provider, hardware_id="my-l4", usd_per_hour=9.0) for provider in ("aws", "gcp")]
    found = prices_at(rows, TODAY, resolve=lambda name: "my-l4" if name == "nvidia-l4" else name)
    assert found["my-l4"].usd_per_hour == 9.0


def test_the_same_rows_in_another_order_give_the_same_answer() -> None:
    rows = [row(region=region, usd_per_hour=1.0, position=n) for n, region in enumerate(("eu", "us", "asia"))]
    assert prices_at(rows, TODAY)["acme-one"].hour() == prices_at(rows[::-1], TODAY)["acme-one"].hour()
