"""The document of a plan: machines with what runs on them, what the figures rest on, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec
import numpy as np

from domain.answers import FleetDoubt, FleetMachine, FleetPlace, FleetPrice, FleetRun
from domain.catalogues.prices import age_days, is_stale
from predictor.answering.constraints import SEEN
from predictor.fleet.machines import Machine
from predictor.fleet.plan import Plan, Problem
from predictor.fleet.question import FleetQuestion
from predictor.fleet.replicas import Replica

__all__ = ["ASSUMPTIONS", "figures", "machine_entries", "significant", "unknowns"]

ASSUMPTIONS = (
    "Each load counts at the pessimistic end of its throughput's 80 % interval: 90 % sure, where measurement covers that.",
    "Models on one device take turns: their shares of its time add up, to {utilisation:.0%} at the most.",
    "What models on one device cost each other in caches and bandwidth is not measured.",
    "Every model stays in memory: peaks add up, at the high end of their interval; {headroom:.0%} of the memory stays free.",
    "A latency is that of a call by itself: one that arrives while another runs waits for it as well.",
    "A month has 730 hours.",
)


def figures(value: float | None) -> float | None:
    """Return a figure with six significant digits, as all answers have; None stays None."""
    return None if value is None else significant(value)


def significant(value: float) -> float:
    """Return a figure with six significant digits."""
    return float(f"{value:.6g}")


def machine_entries(
    problem: Problem, plan: Plan, fleet_question: FleetQuestion, models: Sequence[str], today: date | None
) -> list[FleetMachine]:
    """Return the machines of a plan, dearest first, each with its kinds of places and what runs there."""
    filled = [
        _Filled(machine=machine, count=int(count), idle_devices=machine.devices * int(count), places=[])
        for machine, count in zip(problem.machines, plan.machines, strict=True)
        if count > 0
    ]
    _place_all(problem, plan, fleet_question, models, filled)
    machines = [_machine(item, today) for item in filled]
    return sorted(machines, key=lambda item: (-item.usd_per_hour_total, item.hardware, item.machine))


class _Filled(msgspec.Struct, kw_only=True, eq=False):
    """Machines of one kind while places are given to them."""

    machine: Machine
    count: int
    idle_devices: int
    places: list[FleetPlace]


def _machine(filled: _Filled, today: date | None) -> FleetMachine:
    machine, offer = filled.machine, filled.machine.offer
    return FleetMachine(
        machine=machine.name,
        hardware=machine.hardware,
        devices=machine.devices,
        count=filled.count,
        usd_per_hour=figures(machine.usd_per_hour),
        usd_per_hour_total=significant(machine.usd_per_hour * filled.count),
        price=FleetPrice(
            provider=machine.provider,
            instance=machine.instance,
            region=machine.region,
            spot=bool(offer and offer.spot),
            date=None if offer is None else offer.date,
            basis=machine.basis,
            source=None if offer is None else offer.source,
            evidence=None if offer is None else offer.event_id,
            age_days=None if offer is None else age_days(offer, today),
            stale=False if offer is None else is_stale(offer, today),
        ),
        places=filled.places,
        idle_devices=filled.idle_devices,
    )


def _place_all(
    problem: Problem, plan: Plan, fleet_question: FleetQuestion, models: Sequence[str], machines: Sequence[_Filled]
) -> None:
    """Give the places of each hardware to its machines, the widest to those with the most devices."""
    ordered = sorted(
        (at for at in range(len(problem.patterns)) if plan.places[at] > 0 and plan.shares[at].any()),
        key=lambda at: (-problem.patterns[at].width, at),
    )
    for at in ordered:
        pattern, left = problem.patterns[at], int(plan.places[at])
        here = [
            item
            for item in machines
            if item.machine.hardware == pattern.hardware and item.machine.devices >= pattern.width
        ]
        for item in sorted(here, key=lambda entry: (-entry.machine.devices, entry.machine.name)):
            # Of a machine with more devices than the place is wide, whole multiples of the width can be used.
            taken = min(left, item.idle_devices // pattern.width)
            if taken:
                item.places.append(_place(problem, plan, fleet_question, models, at, taken))
                item.idle_devices -= taken * pattern.width
                left -= taken


def _place(
    problem: Problem, plan: Plan, fleet_question: FleetQuestion, models: Sequence[str], at: int, count: int
) -> FleetPlace:
    pattern, places = problem.patterns[at], float(plan.places[at])
    running = [replica for replica in pattern.replicas if plan.shares[at, replica.load] > 0]
    runs = [_run(problem, fleet_question, models, item, float(plan.shares[at, item.load]), places) for item in running]
    memory = [item.memory_bytes for item in running]
    return FleetPlace(
        count=count,
        devices_each=pattern.width,
        utilisation=figures(sum(item.utilisation for item in runs)),
        memory_bytes=None if None in memory else round(sum(item or 0.0 for item in memory)),
        runs=runs,
    )


def _run(
    problem: Problem,
    fleet_question: FleetQuestion,
    models: Sequence[str],
    replica: Replica,
    share: float,
    places: float,
) -> FleetRun:
    load, entry = fleet_question.loads[replica.load], replica.entry
    rate = share * load.rate / places
    return FleetRun(
        load=replica.load,
        name=load.name,
        model=models[replica.load],
        unit=load.unit,
        rate=significant(rate),
        share=significant(share),
        most=significant(replica.rates[problem.end]),
        most_expected=significant(replica.rates[1]),
        utilisation=significant(rate / replica.rates[problem.end]),
        memory_bytes=None if replica.memory_bytes is None else round(replica.memory_bytes),
        memory_basis=replica.memory_basis,
        configuration=entry.configuration,
        platform=entry.platform,
        precision=entry.precision,
        batch_size=entry.batch_size,
        compiled=entry.compiled,
        runtime=entry.runtime,
        runtime_version=entry.runtime_version,
        concurrency=entry.concurrency,
        latency_ms=entry.latency_ms,
        latency_ms_low=entry.latency_ms_low,
        latency_ms_high=entry.latency_ms_high,
        throughput_per_s=entry.throughput_per_s,
        ttft_ms=entry.ttft_ms,
        tpot_ms=entry.tpot_ms,
        tokens_per_s=entry.tokens_per_s,
        basis=entry.basis,
        interval_covered=entry.interval_covered,
        stale=entry.stale,
        meets=entry.meets,
        output_error=entry.output_error,
        evidence=entry.evidence,
        why=entry.why,
        command=entry.command,
    )


def unknowns(problem: Problem, plan: Plan, fleet_question: FleetQuestion, today: date | None) -> list[FleetDoubt]:
    """Return what the plan rests on and nobody measured, each with the run that would tell, where one would."""
    rows: list[FleetDoubt] = []
    for at in np.flatnonzero(plan.places).tolist():
        for replica in problem.patterns[at].replicas:
            if plan.shares[at, replica.load] > 0:
                rows += _doubts(replica, fleet_question.loads[replica.load].name)
    for machine, count in zip(problem.machines, plan.machines, strict=True):
        if count > 0 and machine.offer is not None and is_stale(machine.offer, today):
            rows.append(FleetDoubt(what=f"the price of {machine.name} is {_age(machine, today)}", command=None))
        if count > 0 and machine.offer is None and machine.usd_per_hour == 0:
            rows.append(FleetDoubt(what=f"what an hour of {machine.hardware} costs: {machine.basis}", command=None))
    return [item for at, item in enumerate(rows) if item not in rows[:at]]


def _doubts(replica: Replica, name: str | None) -> list[FleetDoubt]:
    """What of a configuration is no measurement, in one sentence, with the run that would be one."""
    entry = replica.entry
    doubts: list[str] = []
    if entry.basis not in SEEN:
        covered = "" if entry.interval_covered else ", with an interval that no measurement covers"
        doubts.append(f"speed is {entry.basis}{covered}")
    elif not entry.latency_ms_low:
        doubts.append("speed was reported without an interval")
    if replica.memory_basis not in ("measured peak", "high end of the interval"):
        doubts.append(f"memory is {replica.memory_basis}")
    what = f"{name or entry.command.split()[2]} on {replica.hardware} {entry.platform} {entry.precision}"
    return [FleetDoubt(what=f"{what}: {'; '.join(doubts)}", command=entry.command)] if doubts else []


def _age(machine: Machine, today: date | None) -> str:
    offer = machine.offer
    days = None if offer is None else age_days(offer, today)
    return "undated" if days is None else f"{days} days old"
