"""What each load could run as on each device: the answers of `recommend`, as replicas, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from domain.answers import ExcludedConfigurations, FleetExclusion, RankedOption, UnmetLoad
from ingest.projection import Tables
from predictor.answering.facts import known_at
from predictor.answering.recommendation import answer
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.features.devices import Devices
from predictor.fleet.question import FleetQuestion, Load, placed
from predictor.fleet.replicas import Replica, replicas_of

__all__ = ["CandidateReplicas", "gathered"]

AT_ONCE = 8
"""Devices in one question: an answer holds a thousand configurations at the most."""
WIDTHS = (None, 2, 4, 8)
"""Devices of one machine that share a language model, where fewer do not hold it; a plan is asked for whole machines."""


class CandidateReplicas(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Replicas that fit and meet their load's constraints, the memory that may be used, and what was left out.

    `unmet` names for each load that has no replica at all why not.
    """

    replicas: list[Replica]
    room_bytes: dict[str, float | None]
    excluded: list[FleetExclusion]
    unmet: list[UnmetLoad]
    time: str | None
    models: list[str]


def gathered(
    tables: Tables,
    fleet_question: FleetQuestion,
    names: Sequence[str],
    host_bytes: Mapping[str, float],
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading,
) -> CandidateReplicas:
    """Ask about every load on the devices `names`. Raises what `known_at` raises, with the field within the load.

    `host_bytes` is the memory of a machine of which the device is the processor.
    """
    devices = Devices(tables)
    rooms = {name: _room(devices, name, host_bytes, fleet_question.memory_headroom) for name in names}
    replicas: list[Replica] = []
    excluded: list[FleetExclusion] = []
    unmet: list[UnmetLoad] = []
    models: list[str] = []
    time: str | None = None
    for index, load in enumerate(fleet_question.loads):
        result, document, why, model, time = placed(
            index, _of_load, tables, fleet_question, index, names, rooms, predictor, notes, kept
        )
        replicas += result
        models.append(model)
        excluded += document
        if not result:
            unmet.append(UnmetLoad(load=index, name=load.name, model=model, why=why))
    return CandidateReplicas(
        replicas=replicas, room_bytes=rooms, excluded=excluded, unmet=unmet, time=time, models=models
    )


def _room(devices: Devices, name: str, host_bytes: Mapping[str, float], headroom: float) -> float | None:
    spec = devices.spec(name)
    memory = host_bytes.get(name) if spec is None or spec.memory_bytes is None else float(spec.memory_bytes.value)
    return None if memory is None else memory * (1 - headroom)


def _of_load(
    tables: Tables,
    fleet_question: FleetQuestion,
    index: int,
    names: Sequence[str],
    rooms: Mapping[str, float | None],
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading,
) -> tuple[list[Replica], list[FleetExclusion], str, str, str | None]:
    load = fleet_question.loads[index]
    here = _devices_of(tables, load, names, fleet_question)
    entries: list[RankedOption] = []
    exclusions: list[FleetExclusion] = []
    whys: list[str] = []
    model, time = load.model, None
    for start in range(0, len(here), AT_ONCE):
        open_names = list(here[start : start + AT_ONCE])
        for count in WIDTHS:
            question = load.question(open_names, fleet_question.at, count)
            existing = known_at(tables, question, predictor, notes, kept)
            recommendation = answer(question, existing, "")
            model, time = recommendation.model, recommendation.time
            entries += recommendation.ranked
            holding = {
                replica.hardware
                for replica in replicas_of(index, load, recommendation.ranked)
                if _fits(replica, rooms.get(replica.hardware))
            }
            open_names = [name for name in open_names if name not in holding]
            last = not open_names or existing.served is None or count == WIDTHS[-1]
            exclusions += [
                _of_the_load(index, model, item) for item in recommendation.excluded if last or item.hardware in holding
            ]
            if last:
                break
        if recommendation.abstained:
            whys.append(recommendation.abstained)
    replicas = replicas_of(index, load, entries)
    fitting = [replica for replica in replicas if _fits(replica, rooms.get(replica.hardware))]
    tight = [replica for replica in replicas if not _fits(replica, rooms.get(replica.hardware))]
    if entries and not replicas:
        whys = [f"Every configuration is an estimate without an interval. Measure first: {entries[0].command}"]
    exclusions += _too_large(index, model, tight, {item.hardware for item in fitting}, rooms)
    if tight and not fitting:
        whys = [_closest(tight, rooms, fleet_question.memory_headroom)]
    return (
        fitting,
        exclusions,
        whys[0] if whys else "No machine of the question has a configuration of it.",
        model,
        time,
    )


def _of_the_load(index: int, model: str, excluded: ExcludedConfigurations) -> FleetExclusion:
    return FleetExclusion(
        load=index,
        model=model,
        hardware=excluded.hardware,
        platform=excluded.platform,
        rule=excluded.rule,
        detail=excluded.detail,
        precisions=excluded.precisions,
        batch_sizes=excluded.batch_sizes,
        evidence=excluded.evidence,
    )


def _devices_of(tables: Tables, load: Load, names: Sequence[str], fleet_question: FleetQuestion) -> list[str]:
    if load.hardware == "all":
        return list(names)
    if load.hardware == "own":
        return [name for name in names if name in fleet_question.own]
    wanted = {tables.resolve_hardware(name) for name in load.hardware}
    return [name for name in names if name in wanted]


def _fits(replica: Replica, room: float | None) -> bool:
    return room is None or replica.memory_bytes is None or replica.memory_bytes <= room


def _too_large(
    index: int, model: str, tight: Sequence[Replica], fitting: set[str], rooms: Mapping[str, float | None]
) -> list[FleetExclusion]:
    """One entry a device on which nothing of the load fits, of the smallest."""
    smallest: dict[str, Replica] = {}
    for item in tight:
        if item.hardware not in fitting:
            least = smallest.setdefault(item.hardware, item)
            if (item.memory_bytes or 0.0) < (least.memory_bytes or 0.0):
                smallest[item.hardware] = item
    return [
        FleetExclusion(
            load=index,
            model=model,
            hardware=name,
            platform=value.entry.platform,
            rule="does not fit in memory with its headroom",
            detail=f"{(value.memory_bytes or 0) / 1e9:.3g} GB ({value.memory_basis}) of {(rooms[name] or 0) / 1e9:.3g} GB",
        )
        for name, value in sorted(smallest.items())
    ]


def _closest(tight: Sequence[Replica], rooms: Mapping[str, float | None], headroom: float) -> str:
    item = min(tight, key=lambda entry: ((entry.memory_bytes or 0.0) / (rooms[entry.hardware] or 1.0), entry.hardware))
    need, room = item.memory_bytes or 0.0, rooms[item.hardware] or 1.0
    return (
        f"Nothing fits in memory with {headroom:.0%} of it free. The closest is {item.entry.platform} "
        f"{item.entry.precision} at batch {item.entry.batch_size} on {item.hardware}: {need / 1e9:.3g} GB "
        f"({item.memory_basis}) of {room / 1e9:.3g} GB, {need / room:.3g} times over."
    )
