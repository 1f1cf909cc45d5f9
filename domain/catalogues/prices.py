"""What an hour of a machine costs: offers, price lists as CSV, the list that ships with Assay, and machines of one's own.

The list is `data/prices.csv`; `docs/prices.md` says where its figures are from and what the columns mean.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

import domain
from domain.catalogues.hardware import find, nearest
from domain.catalogues.slugs import slug
from domain.configuration import Word
from domain.errors import UnknownHardware, UsageError
from domain.vocabulary import HARDWARE_KINDS

__all__ = [
    "COLUMNS",
    "OWN",
    "STALE_DAYS",
    "Offer",
    "age_days",
    "in_force",
    "is_stale",
    "offer_from_row",
    "own_cost",
    "packaged",
]

STALE_DAYS = 90
"""A price that is older is shown as stale: what it was, and perhaps no longer is."""
PUT_TOGETHER = date(2026, 11, 22)
"""The day on which the list that ships was read in its sources."""
OWN = "own"
"""The provider of machines of one's own."""
HOURS_A_YEAR = 8760
REQUIRED = ("provider", "hardware", "date")
COLUMNS = (
    *REQUIRED,
    "usd_per_hour",
    "price_per_hour",
    "currency",
    "usd_rate",
    "instance",
    "count",
    "kind",
    "region",
    "spot",
    "source",
    "vcpus",
    "host_cpu",
    "host_memory_gib",
)
_DEAREST = 1e6
_LONGEST = 190
"""Characters of a field: a slug, which may have a vendor in front, is 200 at the most."""
_YES = {"yes": True, "true": True, "1": True, "spot": True, "no": False, "false": False, "0": False, "": False}


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`count` devices (the whole machine of one CPU or TPU) for an hour, from `date` (ISO 8601; None: nobody says when).

    `hardware` is a slug. `position` and `event_id` tell where in the log it stands; both None: it ships with Assay.
    `vcpus`, `host_cpu` and `host_memory_bytes` are those of the machine that holds the devices.
    """

    provider: str
    hardware: str
    usd_per_hour: float
    count: int = 1
    kind: str | None = None
    instance: str | None = None
    region: str | None = None
    spot: bool = False
    date: str | None = None
    source: str | None = None
    vcpus: int | None = None
    host_cpu: str | None = None
    host_memory_bytes: int | None = None
    position: int | None = None
    event_id: str | None = None

    @property
    def usd_per_device(self) -> float:
        """US dollars an hour of one device."""
        return self.usd_per_hour / self.count

    @property
    def what(self) -> tuple[Any, ...]:
        """What is offered: a newer price of the same takes its place."""
        return (self.provider, self.instance, self.hardware, self.count, self.region, self.spot)

    @property
    def basis(self) -> str:
        """Where the price is from, in words."""
        if self.position is not None:
            return f"published by {self.provider}, dated {self.date}"
        return f"packaged price list, {f'dated {self.date}' if self.date else 'undated'}"


def age_days(offer: Offer, today: date | None) -> int | None:
    """Return how many days before `today` a price was read; None where either is not known.

    An empty log has no day: what ships with Assay is then as old as it was when the list was put together.
    """
    day = _day(offer.date)
    if today is None and offer.position is None:
        today = PUT_TOGETHER
    return None if day is None or today is None else (today - day).days


def is_stale(offer: Offer, today: date | None) -> bool:
    """Return whether a price is older than STALE_DAYS, or nobody says of when it is."""
    age = age_days(offer, today)
    return offer.date is None or (age is not None and age > STALE_DAYS)


def in_force(published: Iterable[Offer], today: date | None, shipped: Iterable[Offer] | None = None) -> list[Offer]:
    """Return the offers that hold on a day: of each the newest dated on or before it, what was published before what ships.

    A provider's published prices of a hardware take the place of all that ship (`shipped`, by default `packaged()`) for
    that provider and hardware. Without a day every date counts. By what is offered.
    """
    newest: dict[tuple[Any, ...], Offer] = {}
    for offer in published:
        if not _begun(offer, today):
            continue
        existing = newest.get(offer.what)
        if existing is None or _order(existing) < _order(offer):
            newest[offer.what] = offer
    replaced = {(offer.provider, offer.hardware) for offer in newest.values()}
    kept = [
        offer
        for offer in (packaged() if shipped is None else shipped)
        if (offer.provider, offer.hardware) not in replaced and _begun(offer, today)
    ]
    return sorted([*newest.values(), *kept], key=lambda offer: tuple(str(part) for part in offer.what))


def _begun(offer: Offer, today: date | None) -> bool:
    day = _day(offer.date)
    return day is None or today is None or day <= today


def _order(offer: Offer) -> tuple[str, int]:
    return offer.date or "", offer.position or 0


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text[:10])
    except ValueError:
        return None


@cache
def packaged() -> tuple[Offer, ...]:
    """Return the price list that ships with Assay, in the file's order; read once."""
    text = files(domain).joinpath("data/prices.csv").read_text("utf-8")
    return tuple(offer_from_row(row, undated=True, known_only=False) for row in csv.DictReader(text.splitlines()))


def offer_from_row(row: Mapping[str, str], *, undated: bool = False, known_only: bool = True) -> Offer:
    """Return the offer in a row of a price list, by the columns' names (COLUMNS).

    UsageError with the field where one is missing, wrong or of a currency without its rate; UnknownHardware, with the
    nearest names, for a hardware that is not in the catalogue (unless not `known_only`, or the row says its `kind`).
    `undated` allows no date.
    """
    provider = _needed(row, "provider").lower()
    try:
        msgspec.convert(provider, Word)
    except msgspec.ValidationError:
        raise UsageError(f"{provider!r} is not one word.", field="provider", remedy="Write aws, gcp, own …") from None
    name = _needed(row, "hardware")
    spec = find(name)
    if spec is None and known_only and _said(row, "kind") is None:
        hint = f"Nearest: {', '.join(near)}." if (near := nearest(name)) else ""
        remedy = f"{hint} For a device of which the catalogue knows nothing, say its kind: cpu, gpu, npu, tpu or other."
        raise UnknownHardware(name, field="hardware", remedy=remedy.strip())
    price, source = _price(row)
    return Offer(
        provider=provider,
        hardware=slug(name) if spec is None else spec.id,
        kind=_kind(row) if spec is None else spec.kind,
        usd_per_hour=price,
        count=_whole(row, "count") or 1,
        instance=_said(row, "instance"),
        region=_said(row, "region"),
        spot=_flag(row, "spot"),
        date=None if undated and _said(row, "date") is None else _dated(row),
        source=source,
        vcpus=_whole(row, "vcpus"),
        host_cpu=_said(row, "host_cpu"),
        host_memory_bytes=None if (memory := _amount(row, "host_memory_gib")) is None else round(memory * 2**30),
    )


def _said(row: Mapping[str, str], field: str) -> str | None:
    said = (row.get(field) or "").strip() or None
    if said is not None and len(said) > _LONGEST:
        raise UsageError(f"has {len(said)} characters; {_LONGEST} are the most.", field=field)
    return said


def _needed(row: Mapping[str, str], field: str) -> str:
    said = _said(row, field)
    if said is None:
        raise UsageError("is missing.", field=field, remedy=f"Every row of a price list needs {', '.join(REQUIRED)}.")
    return said


def _amount(row: Mapping[str, str], field: str) -> float | None:
    said = _said(row, field)
    if said is None:
        return None
    try:
        value = math.nan if "_" in said else float(said)
    except ValueError:
        raise UsageError(f"{said!r} is not a number.", field=field, remedy="Write 1.25, without a sign.") from None
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{said} is no amount.", field=field, remedy="Write a number of 0 or more.")
    return value


def _whole(row: Mapping[str, str], field: str) -> int | None:
    value = _amount(row, field)
    if value is not None and (value != int(value) or not 1 <= value <= 2**31):
        raise UsageError(f"{value:g} is not a whole number of 1 or more.", field=field)
    return None if value is None else int(value)


def _flag(row: Mapping[str, str], field: str) -> bool:
    said = (row.get(field) or "").strip().lower()
    if said not in _YES:
        raise UsageError(f"{said!r} is neither yes nor no.", field=field)
    return _YES[said]


def _kind(row: Mapping[str, str]) -> str | None:
    said = _said(row, "kind")
    if said not in (None, *HARDWARE_KINDS):
        raise UsageError(
            f"{said!r} is no kind of hardware.", field="kind", remedy=f"One of {', '.join(HARDWARE_KINDS)}."
        )
    return said


def _dated(row: Mapping[str, str]) -> str:
    said, day = _needed(row, "date"), _day(_said(row, "date"))
    if day is None or day.isoformat() != said:
        raise UsageError(f"{said!r} is no day.", field="date", remedy="Write it as 2026-01-31.")
    return said


def _price(row: Mapping[str, str]) -> tuple[float, str | None]:
    """The price in US dollars, and the source with the currency that it was in: a rate is taken from the row, never guessed."""
    source, currency = _said(row, "source"), (_said(row, "currency") or "USD").upper()
    field = "price_per_hour" if _said(row, "usd_per_hour") is None else "usd_per_hour"
    amount = _amount(row, field)
    if amount is None:
        raise UsageError("is missing.", field="usd_per_hour", remedy="Or price_per_hour, with currency and usd_rate.")
    if amount > _DEAREST:
        raise UsageError(f"{amount:g} an hour is no price of a machine.", field=field)
    if currency == "USD":
        return amount, source
    rate = _amount(row, "usd_rate")
    if field == "usd_per_hour" or not rate:
        raise UsageError(
            f"{currency} without its rate is no price.",
            field="currency",
            remedy="Give price_per_hour, and usd_rate: how many US dollars one of it is.",
        )
    how = f"{amount:g} {currency} at {rate:g} USD"
    return amount * rate, f"{source} ({how})" if source else how


class OwnCost(NamedTuple):
    """US dollars an hour, and how they were computed."""

    usd_per_hour: float
    formula: str


def own_cost(purchase_usd: float, years: float, utilisation: float, watts: float, usd_per_kwh: float) -> OwnCost:
    """Return what an hour of use of an own machine costs: its price over the hours that it is used, and its electricity.

    `utilisation` is the share (0–1] of the hours of `years` in which it works; `watts` is drawn while it does. UsageError
    for a share that is none, and for years that are not above 0.
    """
    for field, value in (("purchase_usd", purchase_usd), ("watts", watts), ("usd_per_kwh", usd_per_kwh)):
        if not math.isfinite(value) or value < 0:
            raise UsageError(f"{value:g} is no amount.", field=field, remedy="Write a number of 0 or more.")
    if not 0 < utilisation <= 1:
        raise UsageError(f"{utilisation:g} is no share.", field="utilisation", remedy="Write 0.6 for 60 %.")
    if not (math.isfinite(years) and years > 0):
        raise UsageError(f"{years:g} years are no time of use.", field="years", remedy="Write 3 or 4.")
    cost = purchase_usd / (years * HOURS_A_YEAR * utilisation) + watts / 1000 * usd_per_kwh
    formula = f"{purchase_usd:g} USD / ({years:g} years × {HOURS_A_YEAR} h × {utilisation:g}) + {watts:g} W × {usd_per_kwh:g} USD/kWh"
    return OwnCost(cost, formula)
