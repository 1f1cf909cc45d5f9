"""Names of hardware as they were said, and as they are used."""

from __future__ import annotations

from domain import hardware as catalogue
from domain import instances
from domain.errors import UnknownHardware
from ingest.projection import Tables
from predictor.answering.facts import Devices

__all__ = ["hardware_name"]


def hardware_name(tables: Tables, devices: Devices, said: str, field: str) -> str:
    """Return the id of a hardware by any of its names, or of what an instance type has. Raises UnknownHardware with the nearest."""
    instance = instances.find(said)
    resolved = tables.resolve_hardware(said if instance is None else instance.hardware)
    if resolved in devices.known or instance is not None:
        return resolved
    spec = catalogue.find(said)
    if spec is None:
        near = instances.nearest(said) if instances.named_like_one(said) else catalogue.nearest(said)
        raise UnknownHardware(said, near, field=field)
    return spec.id
