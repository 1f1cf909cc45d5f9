"""What an hour of devices costs at a position of the log: the cheapest machines that held then, and how far to trust them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from domain.answers import HourPrice
from domain.catalogues import prices
from domain.catalogues.prices import Offer
from ingest.projection import Tables

__all__ = ["Hour", "Price", "offers_at", "priced", "prices_at"]


class Hour(msgspec.Struct, frozen=True, kw_only=True):
    """What so many devices cost for an hour, in US dollars: `machines` of one offer, each rented whole.

    `age_days` counts to the time at the position, None where either date is unknown; `stale` is older than
    `domain.catalogues.prices.STALE_DAYS`, or undated.
    """

    usd_per_hour: float
    machines: int
    offer: Offer
    basis: str
    age_days: int | None
    stale: bool

    def document(self) -> HourPrice:
        """Return it as answers have it."""
        offer = self.offer
        return HourPrice(
            provider=offer.provider,
            instance=offer.instance,
            region=offer.region,
            spot=offer.spot,
            machines=self.machines,
            devices_each=offer.count,
            usd_per_hour_each=offer.usd_per_hour,
            date=offer.date,
            age_days=self.age_days,
            stale=self.stale,
            basis=self.basis,
            source=offer.source,
            evidence=offer.event_id,
        )


class Price:
    """The offers of one hardware on a day; `hour` says what so many devices cost."""

    def __init__(self, offers: Sequence[Offer], today: date | None) -> None:
        self.offers = offers
        self._today = today
        self._hours: dict[int, Hour] = {}

    @property
    def usd_per_hour(self) -> float:
        """US dollars for an hour of the cheapest machine that holds one."""
        return self.hour().usd_per_hour

    @property
    def usd_per_device(self) -> float:
        """US dollars for an hour of one device where machines are filled: the lowest share of a machine's price."""
        return min(offer.usd_per_device for offer in self.offers)

    def hour(self, count: int = 1) -> Hour:
        """Return the cheapest way to `count` devices: whole machines of one offer, the fewest of those that cost the same."""
        if count not in self._hours:
            self._hours[count] = min((self._of(offer, count) for offer in self.offers), key=_dear)
        return self._hours[count]

    def _of(self, offer: Offer, count: int) -> Hour:
        machines = -(-count // offer.count)
        return Hour(
            usd_per_hour=machines * offer.usd_per_hour,
            machines=machines,
            offer=offer,
            basis=offer.basis,
            age_days=prices.age_days(offer, self._today),
            stale=prices.is_stale(offer, self._today),
        )


def _dear(hour: Hour) -> tuple[Any, ...]:
    return hour.usd_per_hour, hour.machines, hour.stale, *(str(part) for part in hour.offer.what)


def offers_at(tables: Tables) -> tuple[list[Offer], date | None]:
    """Return every offer that holds at the tables' position, under the names of hardware there, and the day it is then."""
    recorded = tables.recorded_at()
    today = None if recorded is None else recorded.date()
    return _offers(tables.view("price").to_pylist(), today, tables.resolve_hardware), today


def priced(
    offers: Iterable[Offer],
    today: date | None,
    *,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    spot: bool = False,
) -> dict[str, Price]:
    """Return the price of each hardware; `providers` and `regions` leave only theirs, spot counts only if asked for.

    A machine of one's own stands in no region, and is left by `regions`.
    """
    result: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        elsewhere = regions and offer.region not in regions and offer.provider != prices.OWN
        if not ((offer.spot and not spot) or (providers and offer.provider not in providers) or elsewhere):
            result[offer.hardware].append(offer)
    return {hardware: Price(some, today) for hardware, some in result.items()}


def prices_at(
    rows: Iterable[Mapping[str, Any]],
    today: date | None,
    *,
    resolve: Callable[[str], str] = str,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    spot: bool = False,
) -> dict[str, Price]:
    """Return the price of each hardware on a day from the rows of the table `price`; see `priced`.

    Prices that ship with Assay stand in where no event has one (see `domain.prices.in_force`). `resolve` gives the
    name of a hardware now.
    """
    return priced(_offers(rows, today, resolve), today, providers=providers, regions=regions, spot=spot)


def _offers(rows: Iterable[Mapping[str, Any]], today: date | None, resolve: Callable[[str], str]) -> list[Offer]:
    """The offers that hold: published under the name that its row has, shipped under the name that its id has now."""
    shipped = [
        offer if (name := resolve(offer.hardware)) == offer.hardware else msgspec.structs.replace(offer, hardware=name)
        for offer in prices.packaged()
    ]
    return prices.in_force([_published(row) for row in rows], today, shipped)


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
