"""Prices of an hour: rows of a list, which of them hold on a day, which are stale, and what an own machine costs."""

from __future__ import annotations

from datetime import date

import pytest

from domain.catalogues.hardware import find
from domain.catalogues.prices import Offer, age_days, in_force, is_stale, offer_from_row, own_cost, packaged
from domain.errors import UnknownHardware, UsageError

ROW = {"provider": "acme", "hardware": "NVIDIA L4", "usd_per_hour": "0.8", "date": "2026-11-01"}
TODAY = date(2026, 11, 22)


def offer(**changed):
    said = {"provider": "acme", "hardware": "nvidia-l4", "usd_per_hour": 0.8, "date": "2026-11-01", "position": 1}
    return Offer(**{**said, **changed})


def own(offers):
    return [one for one in offers if one.provider == "acme"]


def test_a_row_gives_an_offer_of_the_catalogues_hardware():
    found = offer_from_row(
        {**ROW, "count": "4", "spot": "yes", "instance": "big", "region": "eu", "source": "their page"}
    )
    assert (found.hardware, found.kind, found.count, found.usd_per_device) == ("nvidia-l4", "gpu", 4, 0.2)
    assert (found.spot, found.instance, found.region, found.source) == (True, "big", "eu", "their page")


@pytest.mark.parametrize(
    ("changed", "field", "said"),
    [
        ({"usd_per_hour": "-1"}, "usd_per_hour", "no amount"),
        ({"usd_per_hour": "nan"}, "usd_per_hour", "no amount"),
        ({"usd_per_hour": "cheap"}, "usd_per_hour", "not a number"),
        ({"usd_per_hour": ""}, "usd_per_hour", "missing"),
        ({"usd_per_hour": "1e9"}, "usd_per_hour", "no price"),
        ({"date": ""}, "date", "missing"),
        ({"date": "01.11.2026"}, "date", "no day"),
        ({"date": "2026-W05-6"}, "date", "no day"),
        ({"provider": "a b"}, "provider", "one word"),
        ({"count": "0"}, "count", "whole number"),
        ({"count": "1.5"}, "count", "whole number"),
        ({"spot": "perhaps"}, "spot", "neither"),
        ({"currency": "EUR"}, "currency", "without its rate"),
        ({"currency": "EUR", "usd_rate": "1.1"}, "currency", "without its rate"),
        ({"hardware": "acme-one", "kind": "toaster"}, "kind", "no kind"),
        ({"source": "x" * 191}, "source", "characters"),
    ],
)
def test_a_wrong_field_is_named(changed, field, said):
    with pytest.raises(UsageError, match=said) as caught:
        offer_from_row({**ROW, **changed})
    assert caught.value.field == field


def test_an_unknown_hardware_is_refused_with_the_nearest_names_unless_its_kind_is_said():
    with pytest.raises(UnknownHardware, match="nvidia-l40s"):
        offer_from_row({**ROW, "hardware": "nvidia-l40x"})
    found = offer_from_row({**ROW, "hardware": "Acme One", "kind": "npu"})
    assert (found.hardware, found.kind) == ("acme-one", "npu")


def test_another_currency_is_converted_by_the_rate_of_its_row_and_the_source_says_so():
    row = {
        "provider": "acme",
        "hardware": "l4",
        "price_per_hour": "2",
        "currency": "eur",
        "usd_rate": "1.25",
        "date": "2026-11-01",
    }
    found = offer_from_row({**row, "source": "their page"})
    assert found.usd_per_hour == 2.5
    assert found.source == "their page (2 EUR at 1.25 USD)"


def test_the_newest_price_of_an_offer_that_has_begun_holds():
    old, new, later = (
        offer(date="2026-10-01", usd_per_hour=1.0),
        offer(position=2),
        offer(date="2026-12-01", position=3),
    )
    assert own(in_force([new, old, later], TODAY)) == [new]
    assert own(in_force([new, old, later], date(2026, 10, 2))) == [old]
    assert own(in_force([new, old, later], None)) == [later]


def test_of_two_of_one_day_the_one_published_last_holds():
    wrong, right = offer(position=5), offer(position=6, usd_per_hour=0.7)
    assert own(in_force([right, wrong], TODAY)) == [right]


def test_another_region_or_instance_is_another_offer():
    offers = [offer(), offer(region="eu"), offer(instance="big"), offer(spot=True), offer(count=2)]
    assert len(own(in_force(offers, TODAY))) == 5


def test_what_was_published_takes_the_place_of_what_ships_for_that_provider_and_hardware_alone():
    shipped = [one for one in in_force([], TODAY) if one.provider == "aws"]
    assert {"nvidia-l4", "nvidia-a10g"} <= {one.hardware for one in shipped}
    mine = offer(provider="aws", instance="g6.xlarge")
    found = [one for one in in_force([mine], TODAY) if one.provider == "aws"]
    assert [one for one in found if one.hardware == "nvidia-l4"] == [mine]
    assert len([one for one in found if one.hardware == "nvidia-a10g"]) == 8


def test_what_ships_holds_from_its_date_on():
    assert "p5.48xlarge" not in {one.instance for one in in_force([], date(2026, 1, 18))}
    assert "p5.48xlarge" in {one.instance for one in in_force([], date(2026, 1, 19))}


def test_a_price_is_stale_after_90_days_or_without_a_date():
    assert age_days(offer(), TODAY) == 21
    assert not is_stale(offer(date="2026-08-24"), TODAY)
    assert is_stale(offer(date="2026-08-23"), TODAY)
    assert is_stale(offer(date=None), TODAY)
    assert not is_stale(offer(), None)
    # An empty log has no day, and the list that ships was old when it was put together.
    assert is_stale(next(one for one in packaged() if one.instance == "p5.48xlarge"), None)


def test_the_packaged_list_is_whole():
    offers = packaged()
    assert len({(*one.what, one.date) for one in offers}) == len(offers) > 300
    assert {one.provider for one in offers} >= {"aws", "gcp", "azure", "lambda", "runpod", "nebius", "oci"}
    assert all(one.usd_per_hour > 0 and one.source and "@" in one.source for one in offers)
    # EPYC 9R14 is made for one cloud alone, and the catalogue knows no figures of it.
    assert all(find(one.hardware) or one.hardware.startswith("amd-epyc-9r14-") for one in offers)
    basis = {one.basis for one in offers}
    assert "packaged price list, dated 2026-01-19" in basis and "packaged price list, undated" in basis


def test_a_spot_price_is_below_the_one_on_demand():
    on_demand = {(*one.what[:-1], one.date): one.usd_per_hour for one in packaged() if not one.spot}
    spot = [one for one in packaged() if one.spot]
    assert len(spot) > 50
    assert all(one.usd_per_hour < on_demand[(*one.what[:-1], one.date)] for one in spot)


def test_an_own_machine_costs_its_price_over_the_hours_of_use_and_its_electricity():
    found = own_cost(8760, 2, 0.5, 400, 0.25)
    assert found.usd_per_hour == pytest.approx(1.0 + 0.1)
    assert found.formula == "8760 USD / (2 years × 8760 h × 0.5) + 400 W × 0.25 USD/kWh"


@pytest.mark.parametrize(
    ("said", "field"),
    [((-1, 3, 0.5, 0, 0), "purchase_usd"), ((1, 0, 0.5, 0, 0), "years"), ((1, 3, 0, 0, 0), "utilisation"),
     ((1, 3, 1.1, 0, 0), "utilisation"), ((1, 3, 1, -5, 0), "watts"), ((1, 3, 1, 5, -1), "usd_per_kwh")],
)  # fmt: skip
def test_an_own_cost_needs_possible_figures(said, field):
    with pytest.raises(UsageError) as caught:
        own_cost(*said)
    assert caught.value.field == field
