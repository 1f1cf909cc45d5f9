"""The answer to a fleet's question: machines, what runs where, what it costs, and how sure and how good that is.

A pure function of the tables at a position, the question and the predictor. The same question there gives the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from domain.catalogues import instances
from domain.catalogues.prices import OWN, Offer
from ingest.projection import Tables
from ingest.projection.store import SCHEMA_VERSION
from predictor.answering.estimates import INTERVAL
from predictor.answering.facts import Devices, device_named
from predictor.answering.prices import offers_at
from predictor.answering.question import answer_id
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.fleet.candidate_replicas import Gathered, gathered
from predictor.fleet.dominated_machines import worth_having
from predictor.fleet.greedy import greedy
from predictor.fleet.machines import Machine, offered
from predictor.fleet.patterns import patterns_of
from predictor.fleet.plan import Plan, Problem, cheapest, growth, served_share, solve
from predictor.fleet.plan_comparison import alternatives, ends
from predictor.fleet.plan_document import ASSUMPTIONS, figures, machine_entries, unknowns
from predictor.fleet.question import MACHINES_LIMIT, FleetQuestion, Own

__all__ = ["fleet"]

HOURS_A_MONTH = 730


def fleet(
    tables: Tables, asked: FleetQuestion, predictor: Predictor, notes: Sequence[str], kept: Reading | None = None
) -> dict[str, Any]:
    """Return the cheapest machines that serve every load of a checked question (docs/fleet.md), or which cannot be served.

    Raises what `facts.known_at` raises for a load, with its field, and UnknownHardware.
    """
    asked = _resolved(tables, asked)
    offers, today = offers_at(tables)
    devices = Devices(tables)
    machines = [one for one in _machines(asked, offers) if devices.spec(one.hardware) or one.hardware in devices.known]
    names = sorted({one.hardware for one in machines})
    found = gathered(tables, asked, names, _host_memory(offers), predictor, notes, kept or Reading())
    chosen = worth_having(machines, found.replicas, found.room_bytes, asked.max_machines)
    problem, simple = _problem(asked, chosen, found)
    plan = None if found.unmet else solve(problem, None if simple is None else simple.machines)
    priceless = _without_price(asked, machines)
    return {
        "id": answer_id(asked.identity(), tables.position, predictor.digest, SCHEMA_VERSION),
        "position": tables.position,
        "time": found.time,
        "predictor": predictor.digest,
        "interval": INTERVAL,
        "question": asked.identity(),
        "feasible": plan is not None,
        **_costs(plan),
        "machines": [] if plan is None else machine_entries(problem, plan, asked, found.models, today),
        "loads": [_load(asked, found, problem, plan, index) for index in range(len(asked.loads))],
        "growth": None if plan is None else figures(growth(problem, plan, None)),
        "proof": None if plan is None else _proof(plan, len(problem.patterns)),
        "greedy_usd_per_hour": None if simple is None or plan is None else figures(simple.usd_per_hour),
        "ends": None if plan is None else ends(problem, plan, found),
        "alternatives": [] if plan is None else alternatives(problem, plan, found),
        "unmet": [*found.unmet, *([] if found.unmet or plan is not None else [_together(problem)])],
        "considered": {
            "machines": len(machines), "worth_having": len(chosen), "configurations": len(found.replicas),
            "patterns": len(problem.patterns),
        },
        "excluded": [*found.excluded, *priceless],
        "unknown": [] if plan is None else unknowns(problem, plan, asked, today),
        "assumptions": [one.format(utilisation=asked.utilisation, headroom=asked.memory_headroom) for one in ASSUMPTIONS],
        "notes": list(notes),
    }  # fmt: skip


def _resolved(tables: Tables, asked: FleetQuestion) -> FleetQuestion:
    """Give hardware its names of now. Raises UnknownHardware naming the field."""
    devices, slugs = Devices(tables), tables.names("hardware")
    own = {device_named(slugs, devices, said, f"own.{said}"): count for said, count in asked.own.items()}
    if asked.hardware == "own" and not own:
        own = {one: Own(count=1) for one in devices.own}
    listed = asked.hardware
    if isinstance(listed, list):
        types = {said: one.id for said in listed if (one := instances.find(said)) is not None}
        listed = sorted({types.get(said) or device_named(slugs, devices, said) for said in listed})
    return msgspec.structs.replace(asked, own=own, hardware=listed)


def _machines(asked: FleetQuestion, offers: Sequence[Offer]) -> list[Machine]:
    """The machines of the question: owned ones always, for rent those of the hardware or instance types that it names."""
    listed = asked.hardware
    if listed == "own":
        offers = [one for one in offers if one.provider == OWN]
    elif listed != "all":
        offers = [
            one for one in offers
            if one.provider == OWN or one.hardware in listed or f"{one.provider}:{one.instance}" in listed
        ]  # fmt: skip
    return offered(offers, asked.owned, regions=asked.regions, providers=asked.providers, spot=asked.spot)


def _host_memory(offers: Sequence[Offer]) -> dict[str, float]:
    """The least memory of a machine that is offered with each CPU, in bytes."""
    found: dict[str, float] = {}
    for one in offers:
        if one.kind == "cpu" and one.host_memory_bytes:
            found[one.hardware] = min(found.get(one.hardware, np.inf), float(one.host_memory_bytes))
    return found


def _problem(asked: FleetQuestion, machines: Sequence[Machine], found: Gathered) -> tuple[Problem, Any]:
    """The program, with what first-fit comes to, whose ways to share devices it has as well."""
    names = {one.hardware for one in machines}
    replicas = [one for one in found.replicas if one.hardware in names]
    problem = Problem(
        rates=tuple(load.rate for load in asked.loads),
        machines=tuple(machines),
        patterns=tuple(patterns_of(replicas, found.room_bytes, 0)),
        utilisation=asked.utilisation,
        most=asked.max_machines or MACHINES_LIMIT,
    )
    if found.unmet:
        return problem, None
    simple = greedy(problem, replicas, found.room_bytes)
    if simple is not None:
        problem = msgspec.structs.replace(problem, patterns=(*problem.patterns, *simple.patterns))
    return problem, simple


def _costs(plan: Plan | None) -> dict[str, Any]:
    if plan is None:
        return {"usd_per_hour": None, "usd_per_month": None}
    return {
        "usd_per_hour": figures(plan.usd_per_hour),
        "usd_per_month": figures(plan.usd_per_hour * HOURS_A_MONTH),
    }


def _load(asked: FleetQuestion, found: Gathered, problem: Problem, plan: Plan | None, index: int) -> dict[str, Any]:
    load = asked.loads[index]
    grows = None if plan is None else growth(problem, plan, index)
    return {
        "name": load.name,
        "model": found.models[index],
        "unit": load.unit,
        "rate": load.rate,
        "could_serve": None if grows is None else figures(load.rate * grows),
        "headroom": None if grows is None else figures(grows - 1),
        "configurations": sum(one.load == index for one in found.replicas),
    }


def _proof(plan: Plan, patterns: int) -> dict[str, Any]:
    gap = 0.0 if plan.usd_per_hour <= 0 else 1 - plan.bound_usd_per_hour / plan.usd_per_hour
    return {
        "proven": plan.proven,
        "gap": figures(gap),
        "bound_usd_per_hour": figures(plan.bound_usd_per_hour),
        "patterns": patterns,
    }


def _together(problem: Problem) -> dict[str, Any]:
    """Each load can be served and all together cannot: the share that can be, and what it would take."""
    share = served_share(problem)
    freed = msgspec.structs.replace(
        problem,
        most=None,
        machines=tuple(msgspec.structs.replace(one, available=None) for one in problem.machines),
    )
    needed = cheapest(freed)
    told = f"The machines that there are serve {share:.0%} of the loads at the most."
    count = None
    if needed is not None and needed[2]:
        count = int(needed[0].sum())
        cost = sum(number * one.usd_per_hour for number, one in zip(needed[0], freed.machines, strict=True))
        told += f" It would take {count} machines, for {cost:.4g} USD/h."
    return {
        "load": None,
        "name": None,
        "model": None,
        "served_share": figures(share),
        "machines_needed": count,
        "why": told,
    }


def _without_price(asked: FleetQuestion, machines: Sequence[Machine]) -> list[dict[str, Any]]:
    """Hardware that was named and cannot be had."""
    wanted = asked.hardware if isinstance(asked.hardware, list) else []
    had = {name for one in machines for name in (one.hardware, f"{one.provider}:{one.instance}")}
    return [
        {
            "load": None, "model": None, "hardware": name, "platform": None, "rule": "no price",
            "detail": "no offer of the price list, under these regions and providers, has it: assay price add, or own",
        }
        for name in wanted if name not in had
    ]  # fmt: skip
