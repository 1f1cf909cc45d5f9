"""What can be had: machines with their devices, what an hour of one costs, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from predictor.fleet.question import Own

__all__ = ["OWN", "Machine", "offered"]

OWN = "own"
"""The provider of machines that are there already."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine: `devices` of one hardware for `usd_per_hour`, of which `available` can be had (None: any number)."""

    hardware: str
    devices: int
    usd_per_hour: float
    provider: str
    instance: str | None = None
    region: str | None = None
    spot: bool = False
    date: str | None = None
    source: str | None = None
    evidence: str | None = None
    available: int | None = None

    @property
    def name(self) -> str:
        """What tells it from the others; machines of one name are one machine."""
        return ":".join(
            part for part in (self.provider, self.instance or f"{self.devices}x{self.hardware}", self.region) if part
        )


def offered(
    prices: Iterable[Mapping[str, Any]],
    own: Mapping[str, Own],
    *,
    regions: Sequence[str] = (),
    providers: Sequence[str] = (),
    spot: bool = False,
) -> list[Machine]:
    """Return the machines, by hardware: own ones, and of those for rent with as many of a device the cheapest.

    `prices` are rows of the view `prices`. What is owned costs what its owner says, else what was published under the
    provider `own`, else nothing.
    """
    rented: dict[tuple[str, int], Machine] = {}
    costs: dict[str, Mapping[str, Any]] = {}
    for row in prices:
        if row["provider"] == OWN:
            costs[row["hardware_id"]] = row
            continue
        if (row["spot"] and not spot) or (regions and row["region"] not in regions):
            continue
        if providers and row["provider"] not in providers:
            continue
        machine = _machine(row)
        key = (machine.hardware, machine.devices)
        if key not in rented or _rank(machine) < _rank(rented[key]):
            rented[key] = machine
    owned = [_owned(name, one, costs.get(name)) for name, one in own.items()]
    return sorted([*owned, *rented.values()], key=lambda one: (one.hardware, one.devices, one.name))


def _rank(one: Machine) -> tuple[float, str, bool]:
    return (one.usd_per_hour, one.name, one.spot)


def _machine(row: Mapping[str, Any]) -> Machine:
    return Machine(
        hardware=row["hardware_id"],
        devices=int(row["hardware_count"] or 1),
        usd_per_hour=float(row["usd_per_hour"]),
        provider=row["provider"],
        instance=row["instance"],
        region=row["region"],
        spot=bool(row["spot"]),
        date=row["date"],
        source=row.get("price_source"),
        evidence=row.get("event_id"),
    )


def _owned(name: str, own: Own, published: Mapping[str, Any] | None) -> Machine:
    if own.usd_per_hour is not None:
        return Machine(
            hardware=name, devices=1, usd_per_hour=own.usd_per_hour, provider=OWN, available=own.count, source="the question",
        )  # fmt: skip
    if published is not None:
        each = float(published["usd_per_hour"]) / int(published["hardware_count"] or 1)
        return Machine(
            hardware=name, devices=1, usd_per_hour=each, provider=OWN, available=own.count, date=published["date"],
            source=published.get("price_source"), evidence=published.get("event_id"),
        )  # fmt: skip
    return Machine(hardware=name, devices=1, usd_per_hour=0.0, provider=OWN, available=own.count)
