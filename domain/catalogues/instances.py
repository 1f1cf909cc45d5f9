"""Machines that clouds rent out by the hour, as hardware × count with a host: `aws:g5.xlarge`.

They are those of the price list that ships with Assay (`domain.catalogues.prices`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from domain.catalogues import hardware, prices

__all__ = ["Instance", "catalogue", "find", "named_like_one", "nearest", "of_hardware"]


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A type of machine. `hardware` is what computes (for one without accelerator its CPU, so many cores of it).

    Figures that no source gives are None; `host_cpu` is a slug. `device_memory_bytes` is that of all devices together.
    """

    id: str
    provider: str
    name: str
    hardware: str
    count: int
    vcpus: int | None = None
    host_cpu: str | None = None
    host_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    regions: tuple[str, ...] = ()


@cache
def catalogue() -> Mapping[str, Instance]:
    """Return the instance types by id, in the price list's order; read once."""
    instances: dict[str, Instance] = {}
    for offer in prices.packaged():
        if offer.instance is None:
            continue
        id_ = f"{offer.provider}:{offer.instance}"
        before = instances.get(id_)
        regions = (*(before.regions if before else ()), *((offer.region,) if offer.region else ()))
        instances[id_] = Instance(
            id=id_,
            provider=offer.provider,
            name=offer.instance,
            hardware=offer.hardware,
            count=offer.count,
            vcpus=offer.vcpus,
            host_cpu=offer.host_cpu,
            host_memory_bytes=offer.host_memory_bytes,
            device_memory_bytes=_memory(offer.hardware, offer.count),
            regions=tuple(dict.fromkeys(regions)),
        )
    return MappingProxyType(instances)


def _memory(name: str, count: int) -> int | None:
    spec = hardware.find(name)
    memory = spec.memory_bytes if spec is not None and spec.kind != "cpu" else None
    return None if memory is None else round(memory.value * count)


def named_like_one(name: str) -> bool:
    """Return whether a name has the form of an instance type's: `provider:type`."""
    provider, colon, instance = name.partition(":")
    return bool(provider and colon and instance)


def find(name: str) -> Instance | None:
    """Return the instance type of an id such as `aws:g5.xlarge`, however its letters are written, or None.

    The provider may be left out where only one has a type of that name.
    """
    return catalogue().get(name) or _folded().get(name.casefold().strip()) or _bare().get(name.casefold().strip())


@cache
def _folded() -> Mapping[str, Instance]:
    return MappingProxyType({id_.casefold(): instance for id_, instance in catalogue().items()})


@cache
def _bare() -> Mapping[str, Instance]:
    """The types by their name without the provider, as far as it is one provider's and no device's."""
    names: dict[str, list[Instance]] = {}
    for instance in catalogue().values():
        names.setdefault(instance.name.casefold(), []).append(instance)
    single = {name: instances[0] for name, instances in names.items() if len(instances) == 1}
    return MappingProxyType({name: instance for name, instance in single.items() if hardware.find(name) is None})


def nearest(name: str, n: int = 3) -> list[str]:
    """Return up to `n` ids that look most like `name`, best first."""
    close = difflib.get_close_matches(name.casefold(), list(_folded()), n=n, cutoff=0.5)
    return [_folded()[match].id for match in close]


def of_hardware(name: str) -> list[Instance]:
    """Return the instance types that hold a hardware, by id of the catalogue of hardware, fewest devices first."""
    matching_catalogue = [instance for instance in catalogue().values() if instance.hardware == name]
    return sorted(matching_catalogue, key=lambda instance: (instance.count, instance.id))
