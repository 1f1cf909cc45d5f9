"""Names of models and hardware that files give and nobody knows, with those that look most like them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from domain.catalogues import hardware, models

__all__ = ["NAMELESS", "Unresolved", "unresolved"]

NEAREST_FOR = 200
"""For so many names, those with most rows, the nearest are looked for: it takes a millisecond a name."""
NAMELESS = frozenset(("unknown", "unknown-cpu", "unknown-gpu", "unknown-npu", "unknown-tpu"))
"""What importers call hardware that a file does not name: an alias of it would make one device of many."""
_OWN_NAMES = ("timm/",)
"""Owners whose ids are canonical as they stand, whether or not the catalogue has them."""


class Unresolved(msgspec.Struct, frozen=True, kw_only=True):
    """A name that resolves to nothing: `kind` model or hardware, in how many rows, and the nearest ids, best first.

    `remedy` says what to do about a device.
    """

    kind: str
    name: str
    rows: int
    nearest: list[str] = []
    remedy: str | None = None


def unresolved(names: Mapping[str, Mapping[str, int]], existing: Mapping[str, Collection[str]]) -> list[Unresolved]:
    """Return the names that neither the catalogues nor `known` have, those in most rows first.

    `names` counts rows by kind and name; `known` are the names by kind that a service has heard of.
    """
    unresolved = [
        Unresolved(kind=kind, name=name, rows=rows, remedy=_remedy(kind, name))
        for kind, counted in names.items()
        for name, rows in counted.items()
        if name not in existing.get(kind, ()) and not _resolves(kind, name)
    ]
    unresolved.sort(key=lambda item: (-item.rows, item.kind, item.name))
    return [
        msgspec.structs.replace(item, nearest=_nearest(item)) if place < NEAREST_FOR else item
        for place, item in enumerate(unresolved)
    ]


def _remedy(kind: str, name: str) -> str | None:
    if kind != "hardware" or name in NAMELESS:
        return None
    return (
        f"Add it to domain/data/hardware.json as docs/hardware-catalogue.md says; where the catalogue has it under another "
        f"name: assay hardware alias {name} ID."
    )


def _resolves(kind: str, name: str) -> bool:
    if kind == "model":
        return name.startswith(_OWN_NAMES) or models.find(name) is not None
    return hardware.find(name) is not None


def _nearest(item: Unresolved) -> list[str]:
    if item.name in NAMELESS:
        return []
    return list(models.nearest(item.name)) if item.kind == "model" else hardware.nearest(item.name)
