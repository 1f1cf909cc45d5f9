"""Models and hardware as lists: what the packaged catalogues know, with what the log knows laid over it."""

from __future__ import annotations

from typing import Any

import msgspec

from domain import hardware, models
from ingest.projection import Tables
from ingest.projection.names import Names, names_of

__all__ = ["hardware_rows", "model_rows"]

Row = dict[str, Any]
_COUNTS = ("measurements", "tests")


def _names(tables: Tables, kind: str) -> Names:
    """Return the names of a kind, read once: a query a catalogued name was most of the time of these lists."""
    declared = tables.aliases().select(["kind", "alias", "canonical"]).to_pylist()
    return names_of((row["kind"], row["alias"], row["canonical"]) for row in declared)[kind]


def model_rows(tables: Tables) -> list[Row]:
    """Return one row a model, by id: its place in the vocabulary, its other names and how much is known of it."""
    found: dict[str, Row] = {}
    names = _names(tables, "model")
    for one in models.catalogue():
        found[names.resolve(one.id)] = {
            "category": one.category,
            "family": one.family,
            "task": one.task,
            "parameters": one.parameters,
            "architecture": None,
            "aliases": list(one.aliases),
            "catalogued": True,
            "variant": one.variant,
        }
    for row in tables.models().to_pylist():
        name = row["model_id"]
        known = found.setdefault(name, {"aliases": [], "catalogued": False, "variant": None})
        for column in ("category", "family", "task", "parameters", "architecture"):
            known[column] = row[column] if row[column] is not None else known.get(column)
        known["aliases"] = sorted({*known["aliases"], *(row["other_names"] or [])} - {name})
        known |= {column: row[column] for column in (*_COUNTS, "traces", "first_position", "last_position")}
    empty = {**dict.fromkeys((*_COUNTS, "traces"), 0), "first_position": None, "last_position": None}
    return [{"id": name, **empty, **found[name]} for name in sorted(found)]


def hardware_rows(tables: Tables) -> list[Row]:
    """Return one row a hardware, by id: its specification (each figure with its source) and what was measured on it."""
    found: dict[str, Row] = {}
    names = _names(tables, "hardware")
    for one in hardware.catalogue().values():
        spec = msgspec.to_builtins(one)
        found[names.resolve(one.id)] = {**spec, "aliases": list(one.aliases), "catalogued": True}
    for row in tables.hardware().to_pylist():
        name = row["hardware_id"]
        known = found.setdefault(name, {"aliases": [], "catalogued": False})
        known["kind"] = row["hardware_kind"] or known.get("kind")
        for column in ("name", "vendor"):
            known[column] = row[column] if row[column] is not None else known.get(column)
        known["aliases"] = sorted({*known["aliases"], *(row["other_names"] or [])} - {name})
        known["count"] = row["hardware_count"]
        for column in ("platforms", "spec"):
            if row[column] is not None:
                known["described_" + column] = msgspec.json.decode(row[column])
        known |= {
            column: row[column] for column in (*_COUNTS, "measured", "described", "first_position", "last_position")
        }
    empty = {
        **dict.fromkeys((*_COUNTS, "measured"), 0), "described": False, "count": 1, "name": None, "vendor": None,
        "kind": None, "first_position": None, "last_position": None,
    }  # fmt: skip
    return [{**empty, **found[name], "id": name} for name in sorted(found)]
