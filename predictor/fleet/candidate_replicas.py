"""What each load could run as on each device: the answers of `recommend`, as replicas, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ingest.projection import Tables
from predictor.answering.facts import Devices, known_at
from predictor.answering.recommendation import answer
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.fleet.question import FleetQuestion, Load, placed
from predictor.fleet.replicas import Replica, replicas_of

__all__ = ["Gathered", "gathered"]

AT_ONCE = 8
"""Devices in one question: an answer holds a thousand configurations at the most."""


class Gathered(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Replicas that fit and meet their load's constraints, the memory that may be used, and what was left out.

    `unmet` names for each load that has no replica at all why not.
    """

    replicas: list[Replica]
    room_bytes: dict[str, float | None]
    excluded: list[dict[str, Any]]
    unmet: list[dict[str, Any]]
    time: str | None
    models: list[str]


def gathered(
    tables: Tables,
    asked: FleetQuestion,
    names: Sequence[str],
    host_bytes: Mapping[str, float],
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading,
) -> Gathered:
    """Ask about every load on the devices `names`. Raises what `known_at` raises, with the field within the load.

    `host_bytes` is the memory of a machine of which the device is the processor.
    """
    devices = Devices(tables)
    rooms = {name: _room(devices, name, host_bytes, asked.memory_headroom) for name in names}
    replicas: list[Replica] = []
    excluded: list[dict[str, Any]] = []
    unmet: list[dict[str, Any]] = []
    models: list[str] = []
    time: str | None = None
    for index, load in enumerate(asked.loads):
        found, told, why, model, time = placed(
            index, _of_load, tables, asked, index, names, rooms, predictor, notes, kept
        )
        replicas += found
        models.append(model)
        excluded += [{"load": index, "model": model, **one} for one in told]
        if not found:
            unmet.append({"load": index, "name": load.name, "model": model, "why": why})
    return Gathered(replicas=replicas, room_bytes=rooms, excluded=excluded, unmet=unmet, time=time, models=models)


def _room(devices: Devices, name: str, host_bytes: Mapping[str, float], headroom: float) -> float | None:
    spec = devices.spec(name)
    memory = host_bytes.get(name) if spec is None or spec.memory_bytes is None else float(spec.memory_bytes.value)
    return None if memory is None else memory * (1 - headroom)


def _of_load(
    tables: Tables,
    asked: FleetQuestion,
    index: int,
    names: Sequence[str],
    rooms: Mapping[str, float | None],
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading,
) -> tuple[list[Replica], list[dict[str, Any]], str, str, str | None]:
    load = asked.loads[index]
    here = _devices_of(tables, load, names, asked)
    entries: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    whys: list[str] = []
    model, time = load.model, None
    for start in range(0, len(here), AT_ONCE):
        question = load.question(list(here[start : start + AT_ONCE]), asked.at)
        known = known_at(tables, question, predictor, notes, kept)
        document = answer(question, known, "")
        model, time = document["model"], document["time"]
        entries += document["ranked"]
        told += document["excluded"]
        if document["abstained"]:
            whys.append(document["abstained"])
    replicas = replicas_of(index, load, entries)
    fitting = [one for one in replicas if _fits(one, rooms.get(one.hardware))]
    tight = [one for one in replicas if not _fits(one, rooms.get(one.hardware))]
    if entries and not replicas:
        whys = [f"Every configuration is an estimate without an interval. Measure first: {entries[0]['command']}"]
    told += _too_large(tight, {one.hardware for one in fitting}, rooms)
    if tight and not fitting:
        whys = [_closest(tight, rooms, asked.memory_headroom)]
    return fitting, told, whys[0] if whys else "No machine of the question has a configuration of it.", model, time


def _devices_of(tables: Tables, load: Load, names: Sequence[str], asked: FleetQuestion) -> list[str]:
    if load.hardware == "all":
        return list(names)
    if load.hardware == "own":
        return [name for name in names if name in asked.own]
    wanted = {tables.resolve_hardware(name) for name in load.hardware}
    return [name for name in names if name in wanted]


def _fits(one: Replica, room: float | None) -> bool:
    return room is None or one.memory_bytes is None or one.memory_bytes <= room


def _too_large(tight: Sequence[Replica], fitting: set[str], rooms: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """One entry a device on which nothing of the load fits, of the smallest."""
    smallest: dict[str, Replica] = {}
    for one in tight:
        if one.hardware not in fitting:
            known = smallest.setdefault(one.hardware, one)
            if (one.memory_bytes or 0.0) < (known.memory_bytes or 0.0):
                smallest[one.hardware] = one
    return [
        {
            "hardware": name,
            "platform": one.entry["platform"],
            "rule": "does not fit in memory with its headroom",
            "detail": f"{(one.memory_bytes or 0) / 1e9:.3g} GB ({one.memory_basis}) of {(rooms[name] or 0) / 1e9:.3g} GB",
        }
        for name, one in sorted(smallest.items())
    ]


def _closest(tight: Sequence[Replica], rooms: Mapping[str, float | None], headroom: float) -> str:
    one = min(tight, key=lambda one: ((one.memory_bytes or 0.0) / (rooms[one.hardware] or 1.0), one.hardware))
    need, room = one.memory_bytes or 0.0, rooms[one.hardware] or 1.0
    return (
        f"Nothing fits in memory with {headroom:.0%} of it free. The closest is {one.entry['platform']} "
        f"{one.entry['precision']} at batch {one.entry['batch_size']} on {one.hardware}: {need / 1e9:.3g} GB "
        f"({one.memory_basis}) of {room / 1e9:.3g} GB, {need / room:.3g} times over."
    )
