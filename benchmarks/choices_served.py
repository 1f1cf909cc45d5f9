"""Choosing machines for a language model that nobody measured: the questions, and what rules make of them.

Every architecture is left out once. The rule's settings are those that did best on the models that remain, each of them
left out in its turn; the model that is left out never has a say.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import rows_of
from domain.catalogues import hardware, language_models
from domain.catalogues.prices import packaged
from predictor.choosing.baselines import like_another, named, of_random
from predictor.choosing.rule import Belief, Beliefs, Rule, decide
from predictor.choosing.scores import Outcome, judged, scores
from predictor.choosing.work import Need, Work
from predictor.features.dataset import training_rows
from predictor.features.table import Array, Table
from predictor.llm_serving.neighbours import MOST_ROWS, Neighbours, labels_of, points_of
from predictor.llm_serving.table import tabulate

__all__ = ["PROVIDER", "Fold", "choices", "folds", "price_of", "reliability"]

PROVIDER = "oci"
"""The provider that lists all five kinds of device, on demand."""
TTFT_S = (0.5, 1.0, 2.0, 5.0)
TPOT_S = (0.010, 0.020, 0.030, 0.050, 0.100)
USERS = (50, 200, 1000)
LEAST_LOADS, LEAST_MACHINES = 3, 3
RULES = [
    Rule(caution=caution, widening=widening)
    for caution, widening in itertools.product((0.5, 0.75, 1.0, 1.5, 2.0, 3.0), (1.0, 0.7, 0.5))
]
CHECKS = (0, 1, 2, 3)
SHOTS = 10
BAR_SUCCESS, BAR_OVERSPEND = 0.90, 0.12


class Asked(NamedTuple):
    """A work with what is believed of it, and what physics alone says."""

    work: Work
    beliefs: Beliefs
    physics: Beliefs


class Fold(NamedTuple):
    """One model left out: its works before and after `SHOTS` of its rows were measured, and the works of the others."""

    model: str
    works: list[Asked]
    shot: list[Asked]
    others: list[Asked]


@functools.cache
def price_of(device: str) -> float:
    """Return USD an hour of one device on demand, from the packaged list."""
    offers = (one for one in packaged() if one.provider == PROVIDER and not one.spot and one.hardware == device)
    return min(offer.usd_per_device for offer in offers)


def tables(data: Path) -> tuple[Table, Table]:
    """Return the tables of time to the first token and between tokens, row for row the same runs."""
    rows = [row for row in rows_of(data, "aiconfigurator") if row and row.ttft_ms and row.tpot_ms]
    first, between = (
        tabulate(training_rows(rows, target, "inference", served=True), hardware.find, target)
        for target in ("ttft", "tpot")
    )
    shared = {row.event_id for row in first.rows} & {row.event_id for row in between.rows}
    kept = [table.take([row.event_id in shared for row in table.rows]) for table in (first, between)]
    return kept[0], kept[1]


def folds(data: Path) -> Iterator[Fold]:
    """Yield each model left out."""
    both = tables(data)
    names = both[0].architecture
    for model in np.unique(names).tolist():
        held = np.flatnonzero(names == model)
        known = np.flatnonzero(names != model)
        known = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_ROWS)).astype(np.intp))]
        fits = [Neighbours.fit(points_of(one.take(known)), one.residual[known]) for one in both]
        own = [_belief(fit.joint(points_of(one.take(held))), one, held) for fit, one in zip(fits, both, strict=True)]
        shots = np.random.default_rng(0).permutation(len(held))[:SHOTS]
        others: list[Asked] = []
        for other in np.unique(names[known]).tolist():
            group = np.flatnonzero(names[known] == other)
            left = [_belief(fit.left_out(group), one, known[group]) for fit, one in zip(fits, both, strict=True)]
            others += works(both, known[group], left)
        told = [_told(belief, one, held, shots) for belief, one in zip(own, both, strict=True)]
        yield Fold(model, works(both, held, own), works(both, held, told), others)


def _belief(said: tuple[Array, Array], table: Table, rows: NDArray[np.intp]) -> Belief:
    mean, covariance = said
    return Belief(mean=mean + np.log(table.prior[rows]), covariance=covariance)


def _told(belief: Belief, table: Table, held: NDArray[np.intp], shots: NDArray[np.intp]) -> Belief:
    for index in shots.tolist():
        belief = belief.observed(index, float(table.measured[held[index]]))
    return belief


def works(both: tuple[Table, Table], rows: NDArray[np.intp], beliefs: Sequence[Belief]) -> list[Asked]:
    """Return the pieces of work among some rows with enough machines, each with enough loads."""
    first, _ = both
    deployments = labels_of(first.take(rows))["deployment"]
    by_work: dict[tuple[Any, ...], dict[tuple[str, str], dict[int, int]]] = {}
    for place, index in enumerate(rows.tolist()):
        row = first.rows[index]
        loads = by_work.setdefault((row.input_tokens, row.output_tokens), {})
        loads.setdefault((str(deployments[place]), row.runtime_version), {}).setdefault(row.concurrency or 0, place)
    return [
        asked
        for loads in by_work.values()
        if (asked := _asked(both, rows, beliefs, [one for one in loads.values() if len(one) >= LEAST_LOADS]))
    ]


def _asked(
    both: tuple[Table, Table], rows: NDArray[np.intp], beliefs: Sequence[Belief], loads: Sequence[dict[int, int]]
) -> Asked | None:
    places = np.array([place for one in loads for place in one.values()], dtype=np.intp)
    kept = rows[places] if len(places) else rows[:0]
    found = [both[0].rows[index] for index in kept.tolist()]
    names = [f"{row.count} × {row.hardware}" for row in found]
    machines = tuple(sorted(set(names)))
    if len(machines) < LEAST_MACHINES:
        return None
    work = Work(
        model=str(both[0].architecture[kept[0]]),
        machines=machines,
        machine=np.array([machines.index(name) for name in names], dtype=np.intp),
        deployment=np.repeat(np.arange(len(loads)), [len(one) for one in loads]).astype(np.intp),
        concurrency=np.array([row.concurrency for row in found], dtype=np.float64),
        usd_per_hour=np.array([row.count * price_of(row.hardware) for row in found]),
        ttft_s=both[0].measured[kept],
        tpot_s=both[1].measured[kept],
    )
    plain = [Belief(mean=np.log(one.prior[kept]), covariance=1e-12 * np.eye(len(kept))) for one in both]
    return Asked(
        work,
        Beliefs(ttft=beliefs[0].part(places), tpot=beliefs[1].part(places)),
        Beliefs(ttft=plain[0], tpot=plain[1]),
    )


def needs(work: Work, users: Sequence[int] = USERS) -> Iterator[Need]:
    """Yield what is asked of a work: every pair of limits that some load keeps, for every number of users."""
    for ttft_s, tpot_s in itertools.product(TTFT_S, TPOT_S):
        if work.meets(Need(ttft_s=ttft_s, tpot_s=tpot_s, users=1)).any():
            yield from (Need(ttft_s=ttft_s, tpot_s=tpot_s, users=count) for count in users)


def chosen_by(asked: Sequence[Asked], rule: Rule, checks: int = 0, users: Sequence[int] = USERS) -> list[Outcome]:
    """Return what came of a rule's choices."""
    return [
        judged(one.work, need, *decide(one.work, one.beliefs, need, rule, checks))
        for one in asked
        for need in needs(one.work, users)
    ]


def best_rule(others: Sequence[Asked], checks: int) -> Rule:
    """Return the rule that comes nearest to both bars on models that were left out among those that remain.

    Where several reach both, failures and overspend count a tenth as much.
    """

    def short(rule: Rule) -> float:
        told = scores(chosen_by(others, rule, checks, users=USERS[1:2]))
        failed, spent = 1 - told["macro_success"], told["macro_overspend"] or 0.0
        missed, beyond = failed / (1 - BAR_SUCCESS), spent / BAR_OVERSPEND
        return float(max(missed - 1, 0) + max(beyond - 1, 0) + (missed + beyond) / 10)

    return min(RULES, key=short)


def choices(left_out: Sequence[Fold]) -> dict[str, Any]:
    """Return the scores of our rule, before and after checks, and of the baselines."""
    found: dict[str, list[Outcome]] = {}
    rules: dict[str, dict[str, Any]] = {}
    for fold in left_out:
        if not fold.works:
            continue
        for checks in CHECKS:
            rule = best_rule(fold.others, checks)
            name = f"ours, {checks} checked" if checks else "ours, nothing measured"
            rules.setdefault(name, {})[fold.model] = {"caution": rule.caution, "widening": rule.widening}
            found.setdefault(name, []).extend(chosen_by(fold.works, rule, checks))
            if not checks:
                found.setdefault(f"ours, {SHOTS} measurements of the model", []).extend(chosen_by(fold.shot, rule))
        plain = Rule(caution=1e-6, least=0.5)
        found.setdefault("ours without caution (the median)", []).extend(chosen_by(fold.works, plain))
        bare = [Asked(one.work, one.physics, one.physics) for one in fold.works]
        found.setdefault("physics alone", []).extend(chosen_by(bare, plain))
        for name, outcomes in thumbs(fold):
            found.setdefault(name, []).extend(outcomes)
    kinds = {name.split(" × ")[1] for fold in left_out for one in fold.works for name in one.work.machines}
    return {
        "lines": {name: scores(outcomes) for name, outcomes in found.items()},
        "rules": rules,
        "prices": {"provider": PROVIDER, "usd_per_device_hour": {kind: price_of(kind) for kind in sorted(kinds)}},
    }


def thumbs(fold: Fold) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield the rules of thumb, each with what came of it."""
    for asked in fold.works:
        work = asked.work
        orders = {
            "biggest GPU": _order(work, lambda kind, count, _: -_memory(kind) * 1e6 - count),
            "cheapest machine that fits": _order(work, lambda _, __, usd: usd),
            "most peak FLOPS a dollar": _order(work, lambda kind, count, usd: -_flops(kind) * count / usd),
            "most bandwidth a dollar": _order(work, lambda kind, count, usd: -_bandwidth(kind) * count / usd),
        }
        far = functools.partial(_far, fold.model)
        rest = [other.work for other in fold.others]
        for need in needs(work):
            for name, order in orders.items():
                yield name, [named(work, need, order)]
            near = like_another(work, need, rest, far)
            yield "nearest model", [named(work, need, near)]
            yield "random machine", of_random(work, need)


def _order(work: Work, key: Callable[[str, int, float], float]) -> list[int]:
    usd = {int(machine): float(one) for machine, one in zip(work.machine, work.usd_per_hour, strict=True)}

    def of(machine: int) -> tuple[float, int, int]:
        count, kind = work.machines[machine].split(" × ")
        return key(kind, int(count), usd[machine]), int(count), machine

    return sorted(range(len(work.machines)), key=of)


def _memory(kind: str) -> float:
    spec = hardware.find(kind)
    return spec.memory_bytes.value / 1e9 if spec and spec.memory_bytes else 0.0


def _flops(kind: str) -> float:
    spec = hardware.find(kind)
    peak = spec.peak("fp16", "cuda") if spec else None
    return peak.value if peak else 0.0


def _bandwidth(kind: str) -> float:
    spec = hardware.find(kind)
    return spec.memory_bandwidth_bytes_per_s.value if spec and spec.memory_bandwidth_bytes_per_s else 0.0


def _far(model: str, other: Work) -> float:
    return abs(math.log(_parameters(other.model) / _parameters(model)))


@functools.cache
def _parameters(architecture: str) -> float:
    return next(
        float(one.active_parameters) for one in language_models.catalogue().values() if one.architecture == architecture
    )


def reliability(left_out: Sequence[Fold]) -> dict[str, Any]:
    """Return for loads of models left out how often limits were kept, by the chance that was promised.

    `limits` are bins of the chance of either limit and of both; `forms` compares ways of taking two chances together.
    """
    given: dict[str, list[Array]] = {}
    true: dict[str, list[NDArray[np.bool_]]] = {}
    for one in (asked for fold in left_out for asked in fold.works):
        for ttft_s, tpot_s in itertools.product(TTFT_S, TPOT_S):
            first, between = one.beliefs.ttft.chances(ttft_s), one.beliefs.tpot.chances(tpot_s)
            kept = one.work.ttft_s <= ttft_s, one.work.tpot_s <= tpot_s
            product, smaller = first * between, np.minimum(first, between)
            told = {
                "time to first token": (first, kept[0]), "time per token": (between, kept[1]),
                "product": (product, kept[0] & kept[1]), "smaller": (smaller, kept[0] & kept[1]),
                "both": (np.sqrt(product * smaller), kept[0] & kept[1]),
            }  # fmt: skip
            for name, (chance, good) in told.items():
                given.setdefault(name, []).append(chance)
                true.setdefault(name, []).append(good)
    bins = {name: _bins(np.concatenate(given[name]), np.concatenate(true[name])) for name in given}
    limits = {name: bins[name] for name in ("time to first token", "time per token", "both")}
    return {"limits": limits, "forms": {name: bins[name]["brier"] for name in ("product", "smaller", "both")}}


def _bins(given: Array, true: NDArray[np.bool_]) -> dict[str, Any]:
    edges = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.000001)
    return {
        "brier": round(float(np.mean((given - true) ** 2)), 4),
        "bins": [
            {
                "from": low, "to": min(high, 1.0), "times": int(here.sum()),
                "promised": round(float(given[here].mean()), 4), "kept": round(float(true[here].mean()), 4),
            }
            for low, high in itertools.pairwise(edges)
            if (here := (given >= low) & (given < high)).any()
        ],
    }  # fmt: skip
