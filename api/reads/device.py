"""One hardware in full: how it is known, where it was seen, what else it is called, what it costs, and what is like it."""

from __future__ import annotations

import math
from typing import TypedDict, cast

import msgspec

from api.reads.catalogue import hardware_rows
from api.routes.prices import InstanceRow, instance_rows, price_rows
from domain.answers.device import Environment, KernelTimings, MergedName, Price, Sibling
from domain.catalogues import hardware, instances
from domain.catalogues.hardware import HardwareSpec
from domain.errors import NotFound
from ingest.projection import Tables
from predictor.answering.prices import offers_at
from predictor.features.devices import Devices

__all__ = ["HardwareFacts", "HardwareRow", "about", "row_of", "siblings"]

SIBLINGS = 5
_KERNELS = """
SELECT operator, platform,
    coalesce(list_sort(list(DISTINCT runtime_name) FILTER (runtime_name IS NOT NULL)), []) AS runtimes,
    coalesce(list_sort(list(DISTINCT precision) FILTER (precision IS NOT NULL)), []) AS precisions,
    sum(timings)::BIGINT AS timings, sum(timings_suspect)::BIGINT AS suspect, sum(timings_invalid)::BIGINT AS invalid,
    list_sort(list(DISTINCT origin)) AS origins
FROM kernel_tables WHERE hardware_id = ? GROUP BY operator, platform ORDER BY timings DESC, operator, platform
"""


class HardwareRow(TypedDict):
    """A row of `GET /v1/hardware`, as it is sent; named are the members that are read here."""

    id: str
    name: str | None
    kind: str | None
    vendor: str | None


class HardwareFacts(TypedDict):
    """What the log and the price list know of a hardware."""

    environments: list[Environment]
    kernel_timings: list[KernelTimings]
    merged: list[MergedName]
    prices: list[Price]
    instances: list[InstanceRow]
    siblings: list[Sibling]


def row_of(tables: Tables, name: str) -> HardwareRow:
    """Return the row of `GET /v1/hardware` that a name means: an id, an alias, an instance type, or a slice of a CPU.

    NotFound with the nearest names where nobody knows it.
    """
    instance = instances.find(name)
    resolved = tables.resolve_hardware(name if instance is None else instance.hardware)
    spec = hardware.find(resolved)
    rows = {row["id"]: row for row in hardware_rows(tables)}
    for id_ in (resolved, spec and tables.resolve_hardware(spec.id)):
        if id_ in rows:
            return cast("HardwareRow", rows[id_])
    if spec is None:
        near = instances.nearest(name) if instances.named_like_one(name) else hardware.nearest(name)
        hint = f"Nearest: {', '.join(near)}." if near else "GET /v1/hardware lists them."
        raise NotFound(f"no hardware is known as {name!r}.", field="hardware", remedy=hint)
    nothing = {
        **dict.fromkeys(("measurements", "tests", "kernels", "measured"), 0),
        "first_position": None,
        "last_position": None,
    }
    members = {"catalogued": True, "known": "catalogued", "count": 1, "described": False, **nothing}
    return cast("HardwareRow", {**msgspec.to_builtins(spec), **members})


def about(tables: Tables, row: HardwareRow) -> HardwareFacts:
    """Return what the log and the price list know of a hardware beside its row of `GET /v1/hardware`.

    `merged`: the names that were declared to mean it.
    """
    name = row["id"]
    offers, today = offers_at(tables)
    own = [offer for offer in offers if offer.hardware == name]
    return {
        "environments": _environments(tables, name),
        "kernel_timings": _kernel_timings(tables, name),
        "merged": _merged(tables, name),
        "prices": price_rows(own, today),
        "instances": [
            instance_row for instance_row in instance_rows(offers, today) if instance_row["hardware"] == name
        ],
        "siblings": siblings(Devices(tables).spec(name)),
    }


def _environments(tables: Tables, name: str) -> list[Environment]:
    """The environments that a description or a measurement of the hardware names, in the order of the log."""
    document = [
        tables.view("hardware_description", {"hardware": name}).to_pylist(),
        tables.measurements(hardware=name, columns=["environment_fingerprint"]).to_pylist(),
    ]
    seen = {row["environment_fingerprint"] for rows in document for row in rows}
    result = tables.environments().to_pylist() if seen - {None} else []
    members = Environment.__struct_fields__
    return [Environment(**{key: row[key] for key in members}) for row in result if row["fingerprint"] in seen]


def _kernel_timings(tables: Tables, name: str) -> list[KernelTimings]:
    """What is known of the hardware's kernels, by operator and platform, most first."""
    rows = tables.select("kernel_tables", _KERNELS, [name]).to_pylist()
    return [KernelTimings(**row) for row in rows]


def _merged(tables: Tables, name: str) -> list[MergedName]:
    declared = {row["alias"]: row for row in tables.aliases().to_pylist() if row["kind"] == "hardware"}
    return [
        MergedName(alias=row["alias"], canonical=row["canonical"], reason=row["reason"], position=row["position"])
        for row in declared.values()
        if tables.resolve_hardware(row["alias"]) == name
    ]


def siblings(spec: HardwareSpec | None) -> list[Sibling]:
    """Return the catalogue's devices most like one: of its architecture first, then those of its kind by memory rate."""
    if spec is None or spec.kind is None:
        return []
    others = [
        other
        for other in hardware.catalogue().values()
        if other.kind == spec.kind and other.id != spec.id and not spec.id.startswith(f"{other.id}-")
    ]
    others.sort(key=lambda other: (_alike(spec, other) != "architecture", _distance(spec, other), other.id))
    return [Sibling(id=other.id, name=other.name, alike=_alike(spec, other)) for other in others[:SIBLINGS]]


def _alike(spec: HardwareSpec, other: HardwareSpec) -> str:
    return "architecture" if spec.architecture and spec.architecture == other.architecture else "kind"


def _distance(spec: HardwareSpec, other: HardwareSpec) -> float:
    mine = spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s
    others = other.memory_bandwidth_bytes_per_s
    if mine is None or others is None or not mine.value or not others.value:
        return math.inf
    return abs(math.log(others.value / mine.value))
