"""What can be had: machines with their devices, what an hour of one costs, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from domain.catalogues.prices import OWN, Offer
from predictor.fleet.question import Own

__all__ = ["Machine", "offered"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine: `devices` of one hardware for `usd_per_hour`, of which `available` can be had (None: any number).

    `offer` is where the price is from; None for an owned machine whose cost the question says, or nobody.
    """

    hardware: str
    devices: int
    usd_per_hour: float
    provider: str
    instance: str | None = None
    region: str | None = None
    offer: Offer | None = None
    available: int | None = None
    basis: str = ""

    @property
    def name(self) -> str:
        """What tells it from the others; machines of one name are one machine."""
        what = self.instance or f"{self.devices}x{self.hardware}"
        return ":".join(part for part in (self.provider, what, self.region) if part)


def offered(
    offers: Iterable[Offer],
    own: Mapping[str, Own],
    *,
    regions: Sequence[str] = (),
    providers: Sequence[str] = (),
    spot: bool = False,
) -> list[Machine]:
    """Return the machines, by hardware: own ones, and of those for rent with as many of a device the cheapest.

    What is owned costs what the question says, else what was published under the provider `own`, else nothing.
    """
    rented: dict[tuple[str, int], Machine] = {}
    costs: dict[str, Offer] = {}
    for offer in offers:
        if offer.provider == OWN:
            costs[offer.hardware] = offer
            continue
        if (offer.spot and not spot) or (regions and offer.region not in regions):
            continue
        if providers and offer.provider not in providers:
            continue
        machine = _rented(offer)
        key = (machine.hardware, machine.devices)
        if key not in rented or _rank(machine) < _rank(rented[key]):
            rented[key] = machine
    owned = [_owned(name, value, costs.get(name)) for name, value in own.items()]
    return sorted([*owned, *rented.values()], key=lambda item: (item.hardware, item.devices, item.name))


def _rank(machine: Machine) -> tuple[float, str]:
    return (machine.usd_per_hour, machine.name)


def _rented(offer: Offer) -> Machine:
    return Machine(
        hardware=offer.hardware,
        devices=offer.count,
        usd_per_hour=offer.usd_per_hour,
        provider=offer.provider,
        instance=offer.instance,
        region=offer.region,
        offer=offer,
        basis=offer.basis,
    )


def _owned(name: str, own: Own, published: Offer | None) -> Machine:
    if own.usd_per_hour is not None:
        cost, offer, basis = own.usd_per_hour, None, "said in the question"
    elif published is not None:
        cost, offer, basis = published.usd_per_device, published, published.basis
    else:
        cost, offer, basis = 0.0, None, "nobody says what it costs: counted as nothing"
    return Machine(
        hardware=name, devices=1, usd_per_hour=cost, provider=OWN, offer=offer, available=own.count, basis=basis
    )
