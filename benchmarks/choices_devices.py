"""Choosing among at least eight devices or deployments for a model that took no part: what the first choice loses.

MLPerf: items a second of one accelerator, the median of what was submitted for it. Served rows: what a token costs and how
long it takes under one concurrency. LLM-Inference-Bench: tokens a second of one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import rows_of
from benchmarks.choices_served import Fold
from domain.catalogues import hardware
from predictor.choosing.scores import regrets
from predictor.choosing.strength import Speed, facts_of, strengths
from predictor.features.dataset import Row, training_rows
from predictor.features.table import Array
from predictor.llm_serving.neighbours import MOST_ROWS, Neighbours, points_of
from predictor.llm_serving.table import tabulate

__all__ = ["POOL", "POOLED", "devices"]

MLPERF = "MLPerf, devices of the catalogue"
POOL = "all choices of hardware"
POOLED = (
    MLPERF,
    "served, cost of a token, machines",
    "served, time per token, machines",
    "LLM-Inference-Bench, tokens a second",
)
"""What `POOL` takes together: hardware is chosen, each work once for what is wanted of it."""
LEAST = 8
ALIKE = 3.0
"""Rows of the scenario that is asked about count so many times those of another."""
Lost = tuple[str, float, int]
Works = dict[tuple[str, str], dict[str, float]]


def devices(data: Path, left_out: Sequence[Fold]) -> dict[str, Any]:
    """Return the regret of our choices and of simple ones, by source."""
    found: dict[str, dict[str, Any]] = {}
    everything, known = mlperf(data), mlperf(data, catalogued=True)
    lost: dict[str, list[Lost]] = {}
    for title, works in ((MLPERF, known), ("MLPerf, everything as it is named", everything)):
        by_rule = ranked(works)
        lost[title] = by_rule["ours"]
        found[title] = {name: regrets(one) for name, one in by_rule.items()}
    lost |= served(left_out) | batches(data)
    pooled = [one for title in POOLED for one in lost.get(title, [])]
    single = {title: {"ours": regrets(one)} for title, one in lost.items() if title not in found}
    return {POOL: {"ours": regrets(pooled)}} | found | single


def mlperf(data: Path, catalogued: bool = False) -> Works:
    """Return by model and work the items a second of one accelerator, the median over submissions."""
    speeds: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows_of(data, "mlperf"):
        per_s = (row.tokens_per_s or row.throughput_per_s) if row and row.verdict == "valid" else None
        if row is None or per_s is None or row.scenario not in ("offline", "server"):
            continue
        if catalogued and hardware.find(row.hardware) is None:
            continue
        kind = f"{row.scenario} {row.options.get('accuracy_target') or ''} {row.options.get('constraint') or ''}"
        speeds.setdefault((row.model, kind.strip()), {}).setdefault(row.hardware, []).append(per_s / row.count)
    return {work: {name: float(np.median(one)) for name, one in by.items()} for work, by in speeds.items()}


def ranked(works: Works) -> dict[str, list[Lost]]:
    """Return what each way of ranking devices loses."""
    facts = {name: facts_of(hardware.find(name)) for by in works.values() for name in by}
    found: dict[str, list[Lost]] = {
        "ours": [],
        "highest peak": [],
        "highest bandwidth": [],
        "nearest model": [],
        "random": [],
    }
    for (model, kind), measured in works.items():
        if len(measured) < LEAST:
            continue
        names = sorted(measured)
        rows = [
            Speed(f"{one} {other}", name, per_s, ALIKE if other.split()[0] == kind.split()[0] else 1.0)
            for (one, other), by in works.items()
            if one != model
            for name, per_s in by.items()
        ]
        ours = strengths(rows, facts, names)
        orders: dict[str, Callable[[str], float]] = {
            "ours": ours.__getitem__,
            "highest peak": lambda name: (facts[name] or (0.0, 0.0))[0],
            "highest bandwidth": lambda name: (facts[name] or (0.0, 0.0))[1],
            "nearest model": _nearest(works, model, names),
        }
        for name, value in orders.items():
            found[name].append(_lost(model, names, measured, value))
        found["random"] += [_lost(model, [first, *names], measured, lambda _: 0.0) for first in names]
    return found


def _nearest(works: Works, model: str, names: Sequence[str]) -> Callable[[str], float]:
    """The work of another model that shares most of the devices stands for this one."""
    others = [by for (one, _), by in works.items() if one != model]
    near = max(others, key=lambda by: len(by.keys() & set(names)))
    return lambda name: math.log(near[name]) if name in near else -math.inf


def _lost(model: str, names: Sequence[str], measured: dict[str, float], value: Callable[[str], float]) -> Lost:
    def safe(name: str) -> float:
        return -math.inf if math.isnan(value(name)) else value(name)

    order = sorted(names, key=safe, reverse=True)
    best = max(measured.values())
    rank = next(index for index, name in enumerate(order) if measured[name] >= best)
    return model, 1 - measured[order[0]] / best, rank


def served(left_out: Sequence[Fold]) -> dict[str, list[Lost]]:
    """Return what choosing among served machines and deployments loses, by what was wanted."""
    found: dict[str, list[Lost]] = {}
    for work, beliefs in ((one.work, one.beliefs) for fold in left_out for one in fold.works):
        said = np.exp(beliefs.tpot.mean)
        for concurrency in np.unique(work.concurrency):
            here = np.flatnonzero(work.concurrency == concurrency)
            for wanted, price in (("cost of a token", work.usd_per_hour[here]), ("time per token", np.ones(len(here)))):
                for level, groups in (("machines", work.machine[here]), ("deployments", work.deployment[here])):
                    if len(np.unique(groups)) >= LEAST:
                        lost = _of_groups(work.model, groups, said[here] * price, work.tpot_s[here] * price)
                        found.setdefault(f"served, {wanted}, {level}", []).append(lost)
    return found


def _of_groups(model: str, groups: NDArray[Any], said: Array, measured: Array) -> Lost:
    """Each group is worth the least that was measured of it, and is ranked by the least that was said of it."""
    names = np.unique(groups)
    least = np.array([measured[groups == name].min() for name in names])
    order = np.argsort([said[groups == name].min() for name in names], kind="stable")
    best = least.min()
    return model, float(1 - best / least[order[0]]), int(np.flatnonzero(least[order] <= best)[0])


def batches(data: Path) -> dict[str, list[Lost]]:
    """Return what choosing hardware, count and engine for one batch loses, by what was wanted."""
    table = tabulate(
        training_rows(rows_of(data, "argonne"), "throughput", "inference", served=True), hardware.find, "throughput"
    )
    found: dict[str, list[Lost]] = {}
    for model in np.unique(table.architecture).tolist():
        held, known = np.flatnonzero(table.architecture == model), np.flatnonzero(table.architecture != model)
        known = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_ROWS)).astype(np.intp))]
        part, asked = table.take(known), table.take(held)
        mean, _ = Neighbours.fit(points_of(part), part.residual).predict(points_of(asked))
        said = asked.prior * np.exp(mean)
        for here in _alike(asked.rows):
            groups = np.array([_place(asked.rows[index]) for index in here])
            counts = np.array([asked.rows[index].count for index in here], dtype=np.float64)
            if len(np.unique(groups)) >= LEAST:
                for wanted, share in (("tokens a second", 1.0), ("tokens a second of a device", counts)):
                    lost = _of_groups(model, groups, said[here] * share, asked.measured[here] * share)
                    found.setdefault(f"LLM-Inference-Bench, {wanted}", []).append(lost)
    return found


def _place(row: Row) -> str:
    return f"{row.count} × {row.hardware} {row.runtime}"


def _alike(rows: Sequence[Row]) -> Iterator[list[int]]:
    works: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        works.setdefault((row.input_tokens, row.output_tokens, row.batch_size), []).append(index)
    yield from works.values()
