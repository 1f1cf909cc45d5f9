"""The answer to a fleet's question: machines, what runs where, what it costs, and how sure and how good that is.

A pure function of the tables at a position, the question and the predictor. The same question there gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from domain.answers import (
    FleetAlternative,
    FleetConsidered,
    FleetEnds,
    FleetExclusion,
    FleetLoad,
    FleetPlan,
    FleetProof,
    UnmetLoad,
)
from domain.catalogues import instances
from domain.catalogues.prices import OWN, Offer
from ingest.projection import Tables
from ingest.projection.statements import SCHEMA_VERSION
from predictor.answering.estimates import INTERVAL
from predictor.answering.facts import device_named
from predictor.answering.prices import offers_at
from predictor.answering.question import answer_id
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.features.devices import Devices
from predictor.fleet.candidate_replicas import CandidateReplicas, gathered
from predictor.fleet.machines import Machine, offered
from predictor.fleet.patterns import Pattern, patterns_of
from predictor.fleet.plan import Array, Plan, Problem, cheapest, growth, served_share, solve
from predictor.fleet.plan_document import ASSUMPTIONS, figures, machine_entries, significant, unknowns
from predictor.fleet.question import MACHINES_LIMIT, FleetQuestion, Own
from predictor.fleet.replicas import ENDS, Replica

__all__ = ["Greedy", "alternatives", "ends", "fleet", "greedy", "worth_having"]

SHOWN = 3


def ends(problem: Problem, plan: Plan, result: CandidateReplicas) -> FleetEnds:
    """Return the cost of the cheapest plan at each end of the throughputs' intervals; the plan is of the pessimistic."""
    costs: dict[str, float | None] = {ENDS[0]: figures(plan.usd_per_hour)}
    for end in (1, 2):
        request = _with(problem, result, end=end)
        other = cheapest(request)
        costs[ENDS[end]] = None if other is None else figures(_cost(request, other[0]))
    return FleetEnds(**costs)


def alternatives(problem: Problem, plan: Plan, result: CandidateReplicas) -> list[FleetAlternative]:
    """Return the next best ways, cheapest first: without sharing devices, and of one kind of hardware alone."""
    ways: list[tuple[str, tuple[Array, float, bool] | None, Problem]] = []
    if any((row > 0).sum() > 1 for row in plan.shares):
        alone = _with(problem, result, together=False)
        ways.append(("no two models on one device", cheapest(alone), alone))
    used = {machine.hardware for machine, count in zip(problem.machines, plan.machines, strict=True) if count > 0}
    for hardware in sorted({machine.hardware for machine in problem.machines}):
        served = {replica.load for replica in result.replicas if replica.hardware == hardware}
        if used != {hardware} and len(served) == len(problem.rates):
            single = msgspec.structs.replace(
                problem,
                machines=tuple(machine for machine in problem.machines if machine.hardware == hardware),
                patterns=tuple(pattern for pattern in problem.patterns if pattern.hardware == hardware),
            )
            ways.append((f"only {hardware}", cheapest(single), single))
    document = [
        FleetAlternative(
            what=what,
            usd_per_hour=significant(_cost(request, other[0])),
            dearer_by=figures(_cost(request, other[0]) / plan.usd_per_hour - 1) if plan.usd_per_hour > 0 else None,
            machines={
                machine.name: int(count) for machine, count in zip(request.machines, other[0], strict=True) if count > 0
            },
        )
        for what, other, request in ways
        if other is not None
    ]
    return sorted(document, key=lambda item: (item.usd_per_hour, item.what))[:SHOWN]


def _cost(problem: Problem, machines: Array) -> float:
    return float(sum(count * machine.usd_per_hour for machine, count in zip(problem.machines, machines, strict=True)))


def _with(problem: Problem, result: CandidateReplicas, *, end: int = 0, together: bool = True) -> Problem:
    names = {machine.hardware for machine in problem.machines}
    replicas = [replica for replica in result.replicas if replica.hardware in names]
    patterns = patterns_of(replicas, result.room_bytes, end, together=together)
    if together:
        patterns += problem.patterns
    return msgspec.structs.replace(problem, patterns=tuple(patterns), end=end)


class _Device(msgspec.Struct, kw_only=True, eq=False):
    """A device that was taken: the share of the time that it has left, its memory, and what stands on it by load."""

    hardware: str
    time: float
    room: float | None
    standing: dict[int, Replica] = {}


class Greedy(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How many of each machine it takes, what they cost an hour, and what stands on their devices."""

    machines: Array
    usd_per_hour: float
    patterns: tuple[Pattern, ...]


def greedy(problem: Problem, replicas: Sequence[Replica], room_bytes: Mapping[str, float | None]) -> Greedy | None:
    """Return what first-fit comes to, or None where it finds no way within the limits.

    Of the problem all but its patterns counts. Replicas over several devices are not considered.
    """
    devices: list[_Device] = []
    taken: dict[str, int] = {}
    total = 0.0
    for load in sorted(range(len(problem.rates)), key=lambda at: (-problem.rates[at], at)):
        left = problem.rates[load]
        here = [replica for replica in replicas if replica.load == load and replica.width == 1]
        here.sort(key=lambda entry: (-entry.rates[problem.end], entry.memory_bytes or math.inf))
        rates = _fastest(here, room_bytes, problem.end)
        by_hardware: dict[str, list[Replica]] = {}
        for item in here:
            by_hardware.setdefault(item.hardware, []).append(item)
        for device in devices:
            left -= _filled(device, by_hardware.get(device.hardware, []), left, problem.end)
        while left > problem.rates[load] * 1e-9:
            machine = _cheapest(problem, rates, taken, left)
            if machine is None:
                return None
            taken[machine.name] = taken.get(machine.name, 0) + 1
            total += machine.usd_per_hour
            for _ in range(machine.devices):
                room = room_bytes.get(machine.hardware)
                devices.append(_Device(hardware=machine.hardware, time=problem.utilisation, room=room))
                left -= _filled(devices[-1], by_hardware[machine.hardware], left, problem.end)
    standing = {
        (device.hardware, *(id(entry) for entry in device.standing.values())): Pattern(
            hardware=device.hardware, replicas=tuple(device.standing.values())
        )
        for device in devices
        if device.standing
    }
    counts = np.array([float(taken.get(entry.name, 0)) for entry in problem.machines])
    return Greedy(machines=counts, usd_per_hour=total, patterns=tuple(standing.values()))


def _filled(device: _Device, here: Sequence[Replica], left: float, end: int) -> float:
    """Put as much of a load on a device as it takes, and return how much that is."""
    if left <= 0 or device.time <= 1e-12:
        return 0.0
    for item in here:
        alone = device.room is None or item.memory_bytes is None
        fits = not device.standing if alone else (item.memory_bytes or 0.0) <= (device.room or 0.0)
        if fits:
            amount = min(left, device.time * item.rates[end])
            device.time = 0.0 if alone else device.time - amount / item.rates[end]
            device.room = None if alone else (device.room or 0.0) - (item.memory_bytes or 0.0)
            device.standing = {**device.standing, item.load: item}
            return amount
    return 0.0


def _cheapest(problem: Problem, rates: Mapping[str, float], taken: Mapping[str, int], left: float) -> Machine | None:
    """The machine that costs least for what it would serve of the rest, by name among equals."""
    ranked: list[tuple[float, str, Machine]] = []
    if problem.most is not None and sum(taken.values()) >= problem.most:
        return None
    for machine in problem.machines:
        if machine.available is not None and taken.get(machine.name, 0) >= machine.available:
            continue
        rate = rates.get(machine.hardware, 0.0)
        if rate > 0:
            served = min(left, machine.devices * rate * problem.utilisation)
            ranked.append((machine.usd_per_hour / served, machine.name, machine))
    return min(ranked, key=lambda item: item[:2])[2] if ranked else None


def _fastest(here: Sequence[Replica], room_bytes: Mapping[str, float | None], end: int) -> dict[str, float]:
    """The most that one device of each hardware serves of a load."""
    matches: dict[str, float] = {}
    for item in here:
        room = room_bytes.get(item.hardware)
        if room is None or (item.memory_bytes or 0.0) <= room:
            matches[item.hardware] = max(matches.get(item.hardware, 0.0), item.rates[end])
    return matches


def worth_having(
    machines: Sequence[Machine], replicas: Sequence[Replica], room_bytes: Mapping[str, float | None], most: int | None
) -> list[Machine]:
    """Return the machines without those that another betters at every end of the intervals; a plan loses nothing by it."""
    by_hardware: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_hardware.setdefault(replica.hardware, []).append(replica)
    kept: list[Machine] = []
    for machine in sorted(machines, key=lambda item: (item.usd_per_hour / item.devices, -item.devices, item.name)):
        if machine.hardware in by_hardware and not any(
            _betters(other, machine, by_hardware, room_bytes, most) for other in kept
        ):
            kept.append(machine)
    return [item for item in machines if item in kept]


def _betters(
    other: Machine,
    machine: Machine,
    replicas: Mapping[str, Sequence[Replica]],
    room_bytes: Mapping[str, float | None],
    most: int | None,
) -> bool:
    """Whether as many of another as have its devices cost no more and serve whatever it serves."""
    if other.available is not None or machine.devices % other.devices or (most and machine.devices != other.devices):
        return False
    if other.usd_per_hour * (machine.devices // other.devices) > machine.usd_per_hour:
        return False
    if other.hardware == machine.hardware:
        return other.devices == machine.devices or all(
            item.width <= other.devices for item in replicas[machine.hardware]
        )
    room, others = room_bytes.get(machine.hardware), room_bytes.get(other.hardware)
    if others is None or (room is not None and room > others):
        return False
    return all(
        any(_serves(new, item, other) for new in replicas[other.hardware]) for item in replicas[machine.hardware]
    )


def _serves(new: Replica, replica: Replica, other: Machine) -> bool:
    if new.load != replica.load or new.memory_bytes is None or new.width > min(replica.width, other.devices):
        return False
    less = replica.memory_bytes is None or new.memory_bytes <= replica.memory_bytes
    return less and all(mine >= theirs for mine, theirs in zip(new.rates, replica.rates, strict=True))


HOURS_A_MONTH = 730


def fleet(
    tables: Tables,
    fleet_question: FleetQuestion,
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading | None = None,
) -> FleetPlan:
    """Return the cheapest machines that serve every load of a checked question (docs/fleet.md), or which cannot be served.

    Raises what `facts.known_at` raises for a load, with its field, and UnknownHardware.
    """
    fleet_question = _resolved(tables, fleet_question)
    offers, today = offers_at(tables)
    devices = Devices(tables)
    machines = [
        machine
        for machine in _machines(fleet_question, offers)
        if devices.spec(machine.hardware) or machine.hardware in devices.known
    ]
    names = sorted({machine.hardware for machine in machines})
    result = gathered(tables, fleet_question, names, _host_memory(offers), predictor, notes, kept or Reading())
    chosen = worth_having(machines, result.replicas, result.room_bytes, fleet_question.max_machines)
    problem, simple = _problem(fleet_question, chosen, result)
    plan = None if result.unmet else solve(problem, None if simple is None else simple.machines)
    priceless = _without_price(fleet_question, machines)
    return FleetPlan(
        id=answer_id(fleet_question.identity(), tables.position, predictor.digest, SCHEMA_VERSION),
        position=tables.position,
        time=result.time,
        predictor=predictor.digest,
        interval=INTERVAL,
        question=fleet_question.identity(),
        feasible=plan is not None,
        usd_per_hour=None if plan is None else figures(plan.usd_per_hour),
        usd_per_month=None if plan is None else figures(plan.usd_per_hour * HOURS_A_MONTH),
        machines=[] if plan is None else machine_entries(problem, plan, fleet_question, result.models, today),
        loads=[_load(fleet_question, result, problem, plan, index) for index in range(len(fleet_question.loads))],
        growth=None if plan is None else figures(growth(problem, plan, None)),
        proof=None if plan is None else _proof(plan, len(problem.patterns)),
        greedy_usd_per_hour=None if simple is None or plan is None else figures(simple.usd_per_hour),
        ends=None if plan is None else ends(problem, plan, result),
        alternatives=[] if plan is None else alternatives(problem, plan, result),
        unmet=[*result.unmet, *([] if result.unmet or plan is not None else [_together(problem)])],
        considered=FleetConsidered(
            machines=len(machines),
            worth_having=len(chosen),
            configurations=len(result.replicas),
            patterns=len(problem.patterns),
        ),
        excluded=[*result.excluded, *priceless],
        unknown=[] if plan is None else unknowns(problem, plan, fleet_question, today),
        assumptions=[
            assumption.format(utilisation=fleet_question.utilisation, headroom=fleet_question.memory_headroom)
            for assumption in ASSUMPTIONS
        ],
        notes=list(notes),
    )


def _resolved(tables: Tables, fleet_question: FleetQuestion) -> FleetQuestion:
    """Give hardware its names of now. Raises UnknownHardware naming the field."""
    devices, slugs = Devices(tables), tables.names("hardware")
    own = {device_named(slugs, devices, said, f"own.{said}"): count for said, count in fleet_question.own.items()}
    if fleet_question.hardware == "own" and not own:
        own = {item: Own(count=1) for item in devices.own(tables)}
    listed = fleet_question.hardware
    if isinstance(listed, list):
        types = {said: item.id for said in listed if (item := instances.find(said)) is not None}
        listed = sorted({types.get(said) or device_named(slugs, devices, said) for said in listed})
    return msgspec.structs.replace(fleet_question, own=own, hardware=listed)


def _machines(fleet_question: FleetQuestion, offers: Sequence[Offer]) -> list[Machine]:
    """The machines of the question: owned ones always, for rent those of the hardware or instance types that it names."""
    listed = fleet_question.hardware
    if listed == "own":
        offers = [offer for offer in offers if offer.provider == OWN]
    elif listed != "all":
        offers = [
            offer
            for offer in offers
            if offer.provider == OWN or offer.hardware in listed or f"{offer.provider}:{offer.instance}" in listed
        ]
    return offered(
        offers,
        fleet_question.owned,
        regions=fleet_question.regions,
        providers=fleet_question.providers,
        spot=fleet_question.spot,
    )


def _host_memory(offers: Sequence[Offer]) -> dict[str, float]:
    """The least memory of a machine that is offered with each CPU, in bytes."""
    matches: dict[str, float] = {}
    for offer in offers:
        if offer.kind == "cpu" and offer.host_memory_bytes:
            matches[offer.hardware] = min(matches.get(offer.hardware, np.inf), float(offer.host_memory_bytes))
    return matches


def _problem(
    fleet_question: FleetQuestion, machines: Sequence[Machine], result: CandidateReplicas
) -> tuple[Problem, Any]:
    """The program, with what first-fit comes to, whose ways to share devices it has as well."""
    names = {machine.hardware for machine in machines}
    replicas = [replica for replica in result.replicas if replica.hardware in names]
    problem = Problem(
        rates=tuple(load.rate for load in fleet_question.loads),
        machines=tuple(machines),
        patterns=tuple(patterns_of(replicas, result.room_bytes, 0)),
        utilisation=fleet_question.utilisation,
        most=fleet_question.max_machines or MACHINES_LIMIT,
    )
    if result.unmet:
        return problem, None
    simple = greedy(problem, replicas, result.room_bytes)
    if simple is not None:
        problem = msgspec.structs.replace(problem, patterns=(*problem.patterns, *simple.patterns))
    return problem, simple


def _load(
    fleet_question: FleetQuestion, result: CandidateReplicas, problem: Problem, plan: Plan | None, index: int
) -> FleetLoad:
    load = fleet_question.loads[index]
    grows = None if plan is None else growth(problem, plan, index)
    return FleetLoad(
        name=load.name,
        model=result.models[index],
        unit=load.unit,
        rate=load.rate,
        could_serve=None if grows is None else figures(load.rate * grows),
        headroom=None if grows is None else figures(grows - 1),
        configurations=sum(replica.load == index for replica in result.replicas),
    )


def _proof(plan: Plan, patterns: int) -> FleetProof:
    gap = 0.0 if plan.usd_per_hour <= 0 else 1 - plan.bound_usd_per_hour / plan.usd_per_hour
    return FleetProof(
        proven=plan.proven,
        gap=figures(gap),
        bound_usd_per_hour=figures(plan.bound_usd_per_hour),
        patterns=patterns,
    )


def _together(problem: Problem) -> UnmetLoad:
    """Each load can be served and all together cannot: the share that can be, and what it would take."""
    share = served_share(problem)
    freed = msgspec.structs.replace(
        problem,
        most=None,
        machines=tuple(msgspec.structs.replace(machine, available=None) for machine in problem.machines),
    )
    needed = cheapest(freed)
    text = f"The machines that there are serve {share:.0%} of the loads at the most."
    count = None
    if needed is not None and needed[2]:
        count = int(needed[0].sum())
        cost = sum(number * machine.usd_per_hour for number, machine in zip(needed[0], freed.machines, strict=True))
        text += f" It would take {count} machines, for {cost:.4g} USD/h."
    return UnmetLoad(
        load=None,
        name=None,
        model=None,
        served_share=figures(share),
        machines_needed=count,
        why=text,
    )


def _without_price(fleet_question: FleetQuestion, machines: Sequence[Machine]) -> list[FleetExclusion]:
    """Hardware that was named and cannot be had."""
    wanted = fleet_question.hardware if isinstance(fleet_question.hardware, list) else []
    had = {name for machine in machines for name in (machine.hardware, f"{machine.provider}:{machine.instance}")}
    return [
        FleetExclusion(
            load=None,
            model=None,
            hardware=name,
            platform=None,
            rule="no price",
            detail="no offer of the price list, under these regions and providers, has it: assay price add, or own",
        )
        for name in wanted
        if name not in had
    ]
