"""What machines cost: every offer that holds at a position, and instance types with theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, TypedDict

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, Page, Text, by_offset
from domain.answers.device import InstanceOffer, Price
from domain.catalogues import hardware as catalogue
from domain.catalogues import instances, prices
from domain.catalogues.instances import Instance
from domain.catalogues.prices import Offer
from domain.errors import UnknownHardware
from ingest.projection import Tables
from predictor.answering.prices import offers_at

__all__ = ["InstanceRow", "instance_rows", "price_rows", "router"]

Spot = Annotated[bool | None, QueryParameter(description="Spot prices alone, or those on demand.")]


class InstanceRow(TypedDict):
    """An instance type as it is sent, with its offers; what no source gives is None."""

    id: str
    provider: str
    name: str | None
    hardware: str
    count: int
    vcpus: int | None
    host_cpu: str | None
    host_memory_bytes: int | None
    device_memory_bytes: int | None
    regions: list[str]
    catalogued: bool
    offers: list[InstanceOffer]


@get("/v1/prices", summary="What an hour of a machine costs")
async def listed_prices(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    hardware: Text = None,
    provider: Text = None,
    region: Text = None,
    spot: Spot = None,
) -> Response[bytes]:
    """Return every offer that holds at the position, cheapest device first, with its date, age and source."""

    def fetch(tables: Tables, offset: int, count: int) -> list[Price]:
        offers, today = offers_at(tables)
        name = None if hardware is None else _known(tables, hardware, offers)
        wanted = {"hardware": name, "provider": provider, "region": region, "spot": spot}
        rows = price_rows(offers, today)
        chosen = [
            row for row in rows if all(value is None or getattr(row, key) == value for key, value in wanted.items())
        ]
        return chosen[offset : offset + count]

    return await by_offset(request, page, fetch)


@get("/v1/instances", summary="Machines that clouds rent out")
async def listed_instances(
    request: Request[Any, Any, Any], page: NamedDependency[Page], hardware: Text = None, provider: Text = None
) -> Response[bytes]:
    """Return every instance type by id: hardware × count, host, regions, and the offers that hold at the position."""

    def fetch(tables: Tables, offset: int, count: int) -> list[InstanceRow]:
        offers, today = offers_at(tables)
        name = None if hardware is None else _known(tables, hardware, offers)
        rows = [
            row
            for row in instance_rows(offers, today)
            if name in (None, row["hardware"]) and provider in (None, row["provider"])
        ]
        return rows[offset : offset + count]

    return await by_offset(request, page, fetch)


def _known(tables: Tables, name: str, offers: Iterable[Offer]) -> str:
    """Return the id of a hardware or of an instance type's hardware; UnknownHardware with the nearest names."""
    instance = instances.find(name)
    resolved = tables.resolve_hardware(name if instance is None else instance.hardware)
    if any(offer.hardware == resolved for offer in offers) or tables.knows("hardware", resolved):
        return resolved
    spec = catalogue.find(resolved)
    if spec is None:
        near = instances.nearest(name) if instances.named_like_one(name) else catalogue.nearest(name)
        raise UnknownHardware(name, near, field="hardware")
    return tables.resolve_hardware(spec.id)


def price_rows(offers: Iterable[Offer], today: date | None) -> list[Price]:
    """Return one row an offer, cheapest device first."""
    rows = [_row(offer, today) for offer in offers]
    return sorted(rows, key=lambda row: (row.usd_per_device, row.provider, str(row.instance)))


def _row(offer: Offer, today: date | None) -> Price:
    return Price(
        **msgspec.structs.asdict(offer),
        usd_per_device=offer.usd_per_device,
        age_days=prices.age_days(offer, today),
        stale=prices.is_stale(offer, today),
        basis=offer.basis,
    )


def instance_rows(offers: Iterable[Offer], today: date | None) -> list[InstanceRow]:
    """Return one row an instance type, by id: those that ship, and those of which a price was published."""
    of_instance: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        if offer.instance is not None:
            of_instance[f"{offer.provider}:{offer.instance}"].append(offer)
    rows: dict[str, InstanceRow] = {}
    for id_, instance in instances.catalogue().items():
        rows[id_] = _catalogued(instance)
    for id_, value in of_instance.items():
        first = value[0]
        row = rows.setdefault(id_, _uncatalogued(id_, first))
        row["hardware"] = first.hardware
        row["regions"] = sorted({*row["regions"], *(offer.region for offer in value if offer.region)})
        row["offers"] = [
            InstanceOffer(
                region=offer.region,
                spot=offer.spot,
                usd_per_hour=offer.usd_per_hour,
                date=offer.date,
                stale=prices.is_stale(offer, today),
                basis=offer.basis,
                source=offer.source,
            )
            for offer in value
        ]
    return [rows[id_] for id_ in sorted(rows)]


def _catalogued(instance: Instance) -> InstanceRow:
    return {
        "id": instance.id,
        "provider": instance.provider,
        "name": instance.name,
        "hardware": instance.hardware,
        "count": instance.count,
        "vcpus": instance.vcpus,
        "host_cpu": instance.host_cpu,
        "host_memory_bytes": instance.host_memory_bytes,
        "device_memory_bytes": instance.device_memory_bytes,
        "regions": list(instance.regions),
        "catalogued": True,
        "offers": [],
    }


def _uncatalogued(id_: str, offer: Offer) -> InstanceRow:
    """Return the row of an instance type that only an offer names."""
    return {
        "id": id_,
        "name": offer.instance,
        "catalogued": False,
        "device_memory_bytes": None,
        "regions": [],
        "provider": offer.provider,
        "hardware": offer.hardware,
        "count": offer.count,
        "vcpus": offer.vcpus,
        "host_cpu": offer.host_cpu,
        "host_memory_bytes": offer.host_memory_bytes,
        "offers": [],
    }


router = Router("/", route_handlers=[listed_prices, listed_instances], dependencies=DEPENDENCIES, tags=["tables"])
