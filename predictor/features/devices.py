"""Hardware as known at a position of the log: the catalogue, what runners described, and which devices are one's own."""

from __future__ import annotations

import json
from functools import cached_property

import msgspec

from domain.catalogues import hardware as catalogue
from domain.catalogues.hardware import HardwareSpec
from ingest.projection import Tables

__all__ = ["PUBLISHED_DESCRIPTIONS", "PUBLISHED_RUNS", "Devices"]

PUBLISHED_RUNS = ("01a202a5-b7ec-73e2-95b1-39b795b7b174", "01a2021c-1db8-7580-86cd-1099f3c397d2")
PUBLISHED_DESCRIPTIONS = ("01a202a5-bbfe-73e3-be2f-d82603cae149", "01a2021c-21d5-74a1-a9fc-63009d34c741")
"""Runs and descriptions of devices in the files of `data/`, which come with Assay: their machines are nobody else's."""
_MEASURED_ON = """
SELECT DISTINCT hardware_id FROM measurements
WHERE origin = 'measured' AND hardware_id IN (SELECT unnest(?)) AND run_id NOT IN (SELECT unnest(?))
"""


class Devices:
    """Hardware as known at a position: the catalogue, and what runners described."""

    def __init__(self, tables: Tables) -> None:
        """Read the described devices."""
        self._own: list[str] | None = None
        self._rows = {row["hardware_id"]: row for row in tables.hardware().to_pylist()}
        self._specs: dict[str, HardwareSpec | None] = {}

    def spec(self, name: str) -> HardwareSpec | None:
        """Return the spec of a canonical id: what was described, with the catalogue in its gaps; None if unknown."""
        if name not in self._specs:
            self._specs[name] = self._read(name)
        return self._specs[name]

    def _read(self, name: str) -> HardwareSpec | None:
        packaged = catalogue.find(name)
        row = self._rows.get(name)
        if row is None or not row["described"]:
            return packaged if packaged is None or packaged.id == name else msgspec.structs.replace(packaged, id=name)
        described = catalogue.spec_from_event(
            {
                "hardware": {"id": name, "kind": row["hardware_kind"], "count": row["hardware_count"] or 1},
                "name": row["name"],
                "vendor": row["vendor"],
                "platforms": json.loads(row["platforms"] or "[]"),
                "spec": json.loads(row["spec"]) if row["spec"] else None,
            }
        )
        return described if packaged is None else catalogue.fill(described, packaged)

    def own(self, tables: Tables) -> list[str]:
        """Return the devices that a runner of this installation described or measured on, by id; `tables` are as these were.

        What was imported, or comes with Assay in `data/`, makes no device one's own.
        """
        if self._own is None:
            self._own = self._read_own(tables)
        return self._own

    def _read_own(self, tables: Tables) -> list[str]:
        names = {name for name, row in self._rows.items() if row["described"] or row["measured"]}
        columns = ["hardware_id", "event_id", "source"]
        described = {
            row["hardware_id"]
            for row in tables.view("hardware_description", columns=columns).to_pylist()
            if str(row["event_id"]) not in PUBLISHED_DESCRIPTIONS
            and not row["source"].startswith("urn:assay:importer:")
        }
        others = sorted(name for name in names - described if self._rows[name]["measured"])
        if not others:
            return sorted(names & described)
        found = tables.select("measurements", _MEASURED_ON, [others, list(PUBLISHED_RUNS)])
        measured = set(found.column("hardware_id").to_pylist())
        return sorted((names & described) | measured)

    @cached_property
    def measured_on(self) -> frozenset[str]:
        """The devices with a measurement of any model, here or imported."""
        return frozenset(name for name, row in self._rows.items() if row["measurements"])

    @cached_property
    def known(self) -> list[str]:
        """Every device of the catalogue and of the log, by id."""
        return sorted({*catalogue.catalogue(), *self._rows})

    @cached_property
    def usual(self) -> list[str]:
        """The devices that a question about any hardware is about: all but the catalogue's rare ones."""
        return sorted({*(id_ for id_, spec in catalogue.catalogue().items() if not spec.asked_only), *self._rows})
