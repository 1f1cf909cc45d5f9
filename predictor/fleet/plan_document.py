"""How a plan is told: machines with what runs on them, what the figures rest on, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from domain.catalogues.prices import age_days, is_stale
from predictor.answering.constraints import SEEN
from predictor.fleet.machines import Machine
from predictor.fleet.plan import Plan, Problem
from predictor.fleet.question import FleetQuestion
from predictor.fleet.replicas import Replica

__all__ = ["ASSUMPTIONS", "figures", "machine_entries", "unknowns"]

ASSUMPTIONS = (
    "Each load counts at the pessimistic end of its throughput's 80 % interval: 90 % sure, where measurement covers that.",
    "Models on one device take turns: their shares of its time add up, to {utilisation:.0%} at the most.",
    "What models on one device cost each other in caches and bandwidth is not measured.",
    "Every model stays in memory: peaks add up, at the high end of their interval; {headroom:.0%} of the memory stays free.",
    "A latency is that of a call by itself: one that arrives while another runs waits for it as well.",
    "A month has 730 hours.",
)
_ENTRY = (
    "configuration", "platform", "precision", "batch_size", "compiled", "runtime", "runtime_version", "concurrency",
    "latency_ms", "latency_ms_low", "latency_ms_high", "throughput_per_s", "ttft_ms", "tpot_ms", "tokens_per_s", "basis",
    "interval_covered", "stale", "meets", "output_error", "evidence", "why", "command",
)  # fmt: skip


def figures(value: float | None) -> float | None:
    """Six significant digits, as all answers have."""
    return None if value is None else float(f"{value:.6g}")


def machine_entries(
    problem: Problem, plan: Plan, asked: FleetQuestion, models: Sequence[str], today: date | None
) -> list[dict[str, Any]]:
    """Return the machines of a plan, dearest first, each with its kinds of places and what runs there."""
    told = [
        _machine(machine, int(count), today)
        for machine, count in zip(problem.machines, plan.machines, strict=True)
        if count > 0
    ]
    _place_all(problem, plan, asked, models, told)
    return sorted(told, key=lambda one: (-one["usd_per_hour_total"], one["hardware"], one["machine"]))


def _machine(one: Machine, count: int, today: date | None) -> dict[str, Any]:
    offer = one.offer
    return {
        "machine": one.name,
        "hardware": one.hardware,
        "devices": one.devices,
        "count": count,
        "usd_per_hour": figures(one.usd_per_hour),
        "usd_per_hour_total": figures(one.usd_per_hour * count),
        "price": {
            "provider": one.provider, "instance": one.instance, "region": one.region, "spot": bool(offer and offer.spot),
            "date": None if offer is None else offer.date, "basis": one.basis,
            "source": None if offer is None else offer.source,
            "evidence": None if offer is None else offer.event_id,
            "age_days": None if offer is None else age_days(offer, today),
            "stale": False if offer is None else is_stale(offer, today),
        },
        "places": [],
        "idle_devices": one.devices * count,
    }  # fmt: skip


def _place_all(
    problem: Problem, plan: Plan, asked: FleetQuestion, models: Sequence[str], told: list[dict[str, Any]]
) -> None:
    """Give the places of each hardware to its machines, the widest to those with the most devices."""
    ordered = sorted(
        (at for at in range(len(problem.patterns)) if plan.places[at] > 0 and plan.shares[at].any()),
        key=lambda at: (-problem.patterns[at].width, at),
    )
    for at in ordered:
        pattern, left = problem.patterns[at], int(plan.places[at])
        here = [one for one in told if one["hardware"] == pattern.hardware and one["devices"] >= pattern.width]
        for one in sorted(here, key=lambda one: (-one["devices"], one["machine"])):
            # Of a machine with more devices than the place is wide, whole multiples of the width can be used.
            room = one["idle_devices"] // pattern.width
            taken = min(left, room)
            if taken:
                one["places"].append(_place(problem, plan, asked, models, at, taken))
                one["idle_devices"] -= taken * pattern.width
                left -= taken


def _place(
    problem: Problem, plan: Plan, asked: FleetQuestion, models: Sequence[str], at: int, count: int
) -> dict[str, Any]:
    pattern, places = problem.patterns[at], float(plan.places[at])
    running = [one for one in pattern.replicas if plan.shares[at, one.load] > 0]
    runs = [_run(problem, asked, models, one, float(plan.shares[at, one.load]), places) for one in running]
    memory = [one.memory_bytes for one in running]
    return {
        "count": count,
        "devices_each": pattern.width,
        "utilisation": figures(sum(one["utilisation"] for one in runs)),
        "memory_bytes": None if None in memory else round(sum(one or 0.0 for one in memory)),
        "runs": runs,
    }


def _run(
    problem: Problem, asked: FleetQuestion, models: Sequence[str], one: Replica, share: float, places: float
) -> dict[str, Any]:
    load = asked.loads[one.load]
    rate = share * load.rate / places
    return {
        "load": one.load,
        "name": load.name,
        "model": models[one.load],
        "unit": load.unit,
        "rate": figures(rate),
        "share": figures(share),
        "most": figures(one.rates[problem.end]),
        "most_expected": figures(one.rates[1]),
        "utilisation": figures(rate / one.rates[problem.end]),
        "memory_bytes": None if one.memory_bytes is None else round(one.memory_bytes),
        "memory_basis": one.memory_basis,
        **{name: one.entry.get(name) for name in _ENTRY},
    }


def unknowns(problem: Problem, plan: Plan, asked: FleetQuestion, today: date | None) -> list[dict[str, Any]]:
    """Return what the plan rests on and nobody measured, each with the run that would tell, where one would."""
    found: list[dict[str, Any]] = []
    for at in np.flatnonzero(plan.places).tolist():
        for one in problem.patterns[at].replicas:
            if plan.shares[at, one.load] > 0:
                found += _doubts(one, asked.loads[one.load].name)
    for machine, count in zip(problem.machines, plan.machines, strict=True):
        if count > 0 and machine.offer is not None and is_stale(machine.offer, today):
            found.append({"what": f"the price of {machine.name} is {_age(machine, today)}", "command": None})
        if count > 0 and machine.offer is None and machine.usd_per_hour == 0:
            found.append({"what": f"what an hour of {machine.hardware} costs: {machine.basis}", "command": None})
    return [one for at, one in enumerate(found) if one not in found[:at]]


def _doubts(one: Replica, name: str | None) -> list[dict[str, Any]]:
    """What of a configuration is no measurement, in one sentence, with the run that would be one."""
    entry = one.entry
    doubts: list[str] = []
    if entry["basis"] not in SEEN:
        covered = "" if entry["interval_covered"] else ", with an interval that no measurement covers"
        doubts.append(f"speed is {entry['basis']}{covered}")
    elif not entry["latency_ms_low"]:
        doubts.append("speed was reported without an interval")
    if one.memory_basis not in ("measured peak", "high end of the interval"):
        doubts.append(f"memory is {one.memory_basis}")
    what = f"{name or entry['command'].split()[2]} on {one.hardware} {entry['platform']} {entry['precision']}"
    return [{"what": f"{what}: {'; '.join(doubts)}", "command": entry["command"]}] if doubts else []


def _age(machine: Machine, today: date | None) -> str:
    offer = machine.offer
    days = None if offer is None else age_days(offer, today)
    return "undated" if days is None else f"{days} days old"
