"""What an hour of a device costs at a position of the log: the lowest offer that held then, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from domain import prices
from domain.prices import Offer
from ingest.projection import Tables

__all__ = ["Price", "offers_at", "prices_at"]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest price of one device for an hour, in US dollars: `offer` says of which machine, where, and from when.

    `age_days` counts to the time at the position, None where either date is unknown; `stale` is older than
    `domain.prices.STALE_DAYS`, or undated.
    """

    usd_per_hour: float
    offer: Offer
    basis: str
    age_days: int | None
    stale: bool


def offers_at(tables: Tables) -> tuple[list[Offer], date | None]:
    """Return every offer that holds at the tables' position, under the names of hardware there, and the day it is then."""
    recorded = tables.recorded_at()
    today = None if recorded is None else recorded.date()
    return _offers(tables.view("price").to_pylist(), today, tables.resolve_hardware), today


def prices_at(
    rows: Iterable[Mapping[str, Any]],
    today: date | None,
    *,
    resolve: Callable[[str], str] = str,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    spot: bool = False,
) -> dict[str, Price]:
    """Return the lowest price of one device of each hardware on a day, from the rows of the table `price`.

    Prices that ship with Assay stand in where no event has one (see `domain.prices.in_force`). `resolve` gives the
    name of a hardware now. `providers` and `regions` leave only theirs; spot prices count only if asked for.
    """
    found: dict[str, Price] = {}
    for offer in _offers(rows, today, resolve):
        if (offer.spot and not spot) or (providers and offer.provider not in providers):
            continue
        if regions and offer.region not in regions:
            continue
        known = found.get(offer.hardware)
        if known is None or offer.usd_per_device < known.usd_per_hour:
            found[offer.hardware] = _price(offer, today)
    return found


def _price(offer: Offer, today: date | None) -> Price:
    return Price(
        usd_per_hour=offer.usd_per_device,
        offer=offer,
        basis=offer.basis,
        age_days=prices.age_days(offer, today),
        stale=prices.is_stale(offer, today),
    )


def _offers(rows: Iterable[Mapping[str, Any]], today: date | None, resolve: Callable[[str], str]) -> list[Offer]:
    """The offers that hold: published under the name that its row has, shipped under the name that its id has now."""
    found = prices.in_force([_published(row) for row in rows], today)
    return [
        offer
        if offer.position is not None or (name := resolve(offer.hardware)) == offer.hardware
        else msgspec.structs.replace(offer, hardware=name)
        for offer in found
    ]


def _published(row: Mapping[str, Any]) -> Offer:
    return Offer(
        provider=row["provider"],
        hardware=row["hardware_id"],
        usd_per_hour=row["usd_per_hour"],
        count=row["hardware_count"] or 1,
        instance=row["instance"],
        region=row["region"],
        spot=bool(row["spot"]),
        date=row["date"],
        source=row["price_source"],
        position=row["position"],
        event_id=row["event_id"],
    )
