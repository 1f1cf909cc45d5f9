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
    tables: Tables,
    fleet_question: FleetQuestion,
    predictor: Predictor,
    notes: Sequence[str],
    kept: Reading | None = None,
) -> dict[str, Any]:
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
    return {
        "id": answer_id(fleet_question.identity(), tables.position, predictor.digest, SCHEMA_VERSION),
        "position": tables.position,
        "time": result.time,
        "predictor": predictor.digest,
        "interval": INTERVAL,
        "question": fleet_question.identity(),
        "feasible": plan is not None,
        **_costs(plan),
        "machines": [] if plan is None else machine_entries(problem, plan, fleet_question, result.models, today),
        "loads": [_load(fleet_question, result, problem, plan, index) for index in range(len(fleet_question.loads))],
        "growth": None if plan is None else figures(growth(problem, plan, None)),
        "proof": None if plan is None else _proof(plan, len(problem.patterns)),
        "greedy_usd_per_hour": None if simple is None or plan is None else figures(simple.usd_per_hour),
        "ends": None if plan is None else ends(problem, plan, result),
        "alternatives": [] if plan is None else alternatives(problem, plan, result),
        "unmet": [*result.unmet, *([] if result.unmet or plan is not None else [_together(problem)])],
        "considered": {
            "machines": len(machines), "worth_having": len(chosen), "configurations": len(result.replicas),
            "patterns": len(problem.patterns),
        },
        "excluded": [*result.excluded, *priceless],
        "unknown": [] if plan is None else unknowns(problem, plan, fleet_question, today),
        "assumptions": [assumption.format(utilisation=fleet_question.utilisation, headroom=fleet_question.memory_headroom) for assumption in ASSUMPTIONS],
        "notes": list(notes),
    }  # fmt: skip


def _resolved(tables: Tables, fleet_question: FleetQuestion) -> FleetQuestion:
    """Give hardware its names of now. Raises UnknownHardware naming the field."""
    devices, slugs = Devices(tables), tables.names("hardware")
    own = {device_named(slugs, devices, said, f"own.{said}"): count for said, count in fleet_question.own.items()}
    if fleet_question.hardware == "own" and not own:
        own = {item: Own(count=1) for item in devices.own}
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
            offer for offer in offers
            if offer.provider == OWN or offer.hardware in listed or f"{offer.provider}:{offer.instance}" in listed
        ]  # fmt: skip
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


def _problem(fleet_question: FleetQuestion, machines: Sequence[Machine], result: Gathered) -> tuple[Problem, Any]:
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


def _costs(plan: Plan | None) -> dict[str, Any]:
    if plan is None:
        return {"usd_per_hour": None, "usd_per_month": None}
    return {
        "usd_per_hour": figures(plan.usd_per_hour),
        "usd_per_month": figures(plan.usd_per_hour * HOURS_A_MONTH),
    }


def _load(
    fleet_question: FleetQuestion, result: Gathered, problem: Problem, plan: Plan | None, index: int
) -> dict[str, Any]:
    load = fleet_question.loads[index]
    grows = None if plan is None else growth(problem, plan, index)
    return {
        "name": load.name,
        "model": result.models[index],
        "unit": load.unit,
        "rate": load.rate,
        "could_serve": None if grows is None else figures(load.rate * grows),
        "headroom": None if grows is None else figures(grows - 1),
        "configurations": sum(replica.load == index for replica in result.replicas),
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
        machines=tuple(msgspec.structs.replace(machine, available=None) for machine in problem.machines),
    )
    needed = cheapest(freed)
    text = f"The machines that there are serve {share:.0%} of the loads at the most."
    count = None
    if needed is not None and needed[2]:
        count = int(needed[0].sum())
        cost = sum(number * machine.usd_per_hour for number, machine in zip(needed[0], freed.machines, strict=True))
        text += f" It would take {count} machines, for {cost:.4g} USD/h."
    return {
        "load": None,
        "name": None,
        "model": None,
        "served_share": figures(share),
        "machines_needed": count,
        "why": text,
    }


def _without_price(fleet_question: FleetQuestion, machines: Sequence[Machine]) -> list[dict[str, Any]]:
    """Hardware that was named and cannot be had."""
    wanted = fleet_question.hardware if isinstance(fleet_question.hardware, list) else []
    had = {name for machine in machines for name in (machine.hardware, f"{machine.provider}:{machine.instance}")}
    return [
        {
            "load": None, "model": None, "hardware": name, "platform": None, "rule": "no price",
            "detail": "no offer of the price list, under these regions and providers, has it: assay price add, or own",
        }
        for name in wanted if name not in had
    ]  # fmt: skip
