"""Names of hardware as they were said, and as they are used."""

from __future__ import annotations

from domain import hardware as catalogue
from domain.errors import UnknownHardware
from ingest.projection import Tables
from predictor.answering.facts import Devices

__all__ = ["hardware_name"]


def hardware_name(tables: Tables, devices: Devices, said: str, field: str) -> str:
    """Return the id of a hardware by any of its names. Raises UnknownHardware with the nearest."""
    resolved = tables.resolve_hardware(said)
    if resolved in devices.known:
        return resolved
    spec = catalogue.find(said)
    if spec is None:
        raise UnknownHardware(said, catalogue.nearest(said), field=field)
    return spec.id
