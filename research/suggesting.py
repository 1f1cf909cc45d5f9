"""Whether chosen measurements teach more than random ones.

Answer: a little with five runs or more (10.9 % against 11.3 %), and not on every device (docs/suggestions.md).

    python -m research.suggesting --timm FOLDER --traces FILE     every device of timm's results in turn is new
    python -m research.suggesting --timm … --service              the same with the service's whole calibration: slow
    python -m research.suggesting --files data/*.ndjson.gz        a machine of ours is new, and nothing else is known

Half of the families are open questions, and runs of the other half can be bought. What was bought corrects the trees of the
other devices (by an offset and a slope; with --service by all that it knows, measurements of the model on other devices too), or teaches multiples of work where there are none; the error on the open questions is compared at equal
budgets of runs and of seconds, over many divisions of the families. Nothing is timed: what a run costs follows from the
measured latency (`predictor.suggesting.suggestion`), and whoever chooses sees only predicted ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.first_party import read
from benchmarks.offsets import BETWEEN_DEVICES, WITHIN_DEVICE, OffsetMethod
from domain.performance.roofline import OPERATOR_CLASSES
from predictor.artifact.calibrated import CalibratedMethod
from predictor.features.dataset import by_software
from predictor.features.table import Array, Table
from predictor.learning.building import LIGHT
from predictor.learning.method import Fitted, Method
from predictor.learning.parametric import ParametricMethod
from predictor.learning.trees import TreeMethod
from predictor.shipped.building import timm_rows, timm_table
from predictor.suggesting.belief import Belief, Kernel, Points, covariance
from predictor.suggesting.suggestion import choose, run_seconds

__all__ = ["POLICIES", "Field", "compared", "of_devices", "of_files", "simulated"]

Budget = tuple[float, int, str]
"""Seconds, runs at most, and what it is called."""
BUDGETS: tuple[Budget, ...] = (
    *((1e9, runs, f"{runs} run{'s' if runs > 1 else ''}") for runs in (1, 2, 3, 5, 10, 20)),
    *((seconds, 10**6, f"{seconds:g} s") for seconds in (30.0, 60.0, 120.0, 300.0)),
)
SOME = tuple(one for one in BUDGETS if one[2] in ("3 runs", "5 runs", "10 runs", "120 s"))
"""Where an answer takes a second."""
DIVISIONS = 30
ROWS_NEEDED = 60
LARGEST = 400
"""Rows of one software configuration that take part, drawn for each division: time grows with their square."""


Learned = Callable[[Table, Table], Array]
"""Takes the rows that were bought and those that are asked; returns the log residuals of these."""


class Field(NamedTuple):
    """What a division looks like to whoever chooses: candidates and questions are positions in `table`."""

    table: Table
    predicted_s: Array
    candidates: np.ndarray
    questions: np.ndarray
    random: np.random.Generator
    learned: Learned


Policy = Callable[[Field, float, int], list[int]]


def points_of(table: Table, common: float) -> Points:
    """Return the rows of a table as configurations, all as unsure as the next."""
    return Points(
        software=[row.software for row in table.rows],
        mix=np.column_stack([table.column(f"time_share.{name}") for name in OPERATOR_CLASSES]),
        balance=table.column("balance"),
        work=table.column("log_prior"),
        spread=np.full(len(table), float(np.hypot(BETWEEN_DEVICES, WITHIN_DEVICE))),
        common=np.full(len(table), common),
    )


KERNEL = Kernel()
TREES = TreeMethod(LIGHT)
COMMON = BETWEEN_DEVICES**2 / (BETWEEN_DEVICES**2 + WITHIN_DEVICE**2)


def chosen(field: Field, budget_s: float, most: int) -> list[int]:
    """Choose as `assay suggest` does."""
    weights = np.zeros(len(field.table))
    weights[field.questions] = 1.0
    seconds = np.full(len(field.table), np.inf)
    seconds[field.candidates] = [run_seconds(field.predicted_s[index]) for index in field.candidates]
    belief = Belief(covariance(points_of(field.table, COMMON), KERNEL), KERNEL.noise)
    return [one.index for one in choose(belief, seconds, weights, budget_s, most)]


def at_random(field: Field, budget_s: float, most: int) -> list[int]:
    """Choose blindly; what does not fit what is left of the budget is passed over."""
    return _until(field, field.random.permutation(field.candidates), budget_s, most)


def cheapest(field: Field, budget_s: float, most: int) -> list[int]:
    """Choose what is predicted to take least."""
    return _until(field, field.candidates[np.argsort(field.predicted_s[field.candidates])], budget_s, most)


def _until(field: Field, order: np.ndarray, budget_s: float, most: int) -> list[int]:
    found: list[int] = []
    for index in order.tolist():
        seconds = run_seconds(field.predicted_s[index])
        if seconds <= budget_s and len(found) < most:
            found.append(index)
            budget_s -= seconds
    return found


POLICIES: dict[str, Policy] = {"chosen": chosen, "random": at_random, "cheapest": cheapest}


class Outcome(NamedTuple):
    """One policy at one budget in one division: mean absolute error of throughput, and what was really spent."""

    device: str
    budget: str
    policy: str
    division: int
    error: float
    seconds: float


def simulated(
    table: Table,
    learned: Learned,
    predicted_s: Array,
    name: str,
    divisions: int,
    budgets: Sequence[Budget] = (),
) -> list[Outcome]:
    """Return what the policies reach on the open questions of one new device or software, over many divisions."""
    found: list[Outcome] = []
    for division in range(divisions):
        random = np.random.default_rng(1000 * division + len(table))
        kept = random.permutation(len(table))[:LARGEST]
        field = _divided(table.take(kept), learned, predicted_s[kept], random)
        if not len(field.candidates) or not len(field.questions):
            continue
        for budget_s, most, budget in budgets or BUDGETS:
            for policy, choice in POLICIES.items():
                error, spent = _scored(field, choice(field, budget_s, most))
                found.append(Outcome(name, budget, policy, division, error, spent))
    return found


def _divided(table: Table, learned: Learned, predicted_s: Array, random: np.random.Generator) -> Field:
    names = np.unique(table.family)
    asked = set(random.permutation(names)[: len(names) // 2].tolist())
    open_ = np.array([family in asked for family in table.family])
    return Field(table, predicted_s, np.flatnonzero(~open_), np.flatnonzero(open_), random, learned)


def _scored(field: Field, bought: Sequence[int]) -> tuple[float, float]:
    asked = field.table.take(field.questions)
    errors = asked.residual - field.learned(field.table.take(list(bought)), asked)
    spent = sum(run_seconds(field.table.measured[index]) for index in bought)
    return float(np.mean(np.abs(np.expm1(errors)))), spent


def of_devices(
    table: Table, devices: Sequence[str], divisions: int, method: Method, budgets: Sequence[Budget]
) -> list[Outcome]:
    """Hold out each device, train on the others of its platform, and simulate each software configuration of it."""
    hardware = np.array([row.hardware for row in table.rows])
    platforms = np.array([row.platform for row in table.rows])
    outcomes: list[Outcome] = []
    for device in devices or sorted(set(hardware.tolist())):
        out = hardware == device
        fitted = method.fit(table.take(~out & np.isin(platforms, np.unique(platforms[out]))))
        part = table.take(out)
        predicted_s = part.prior * np.exp(fitted.predict(part).residual)

        def corrected(bought: Table, asked: Table, fitted: Fitted = fitted) -> Array:
            return (fitted.adapted(bought) if len(bought) else fitted).predict(asked).residual

        for members in by_software(part.rows).values():
            if len(members) >= ROWS_NEEDED:
                outcomes += simulated(part.take(members), corrected, predicted_s[members], device, divisions, budgets)
    return outcomes


def of_files(table: Table, divisions: int) -> list[Outcome]:
    """Simulate each machine of our own files as the first there is: whoever chooses sees twice the roofline."""
    machines = sorted({row.hardware for row in table.rows})
    parts = [table.take([row.hardware == name for row in table.rows]) for name in machines]
    return [
        outcome
        for name, part in zip(machines, parts, strict=True)
        for outcome in simulated(part, _multiples, 2 * part.prior, name, divisions)
    ]


def _multiples(bought: Table, asked: Table) -> Array:
    return ParametricMethod().fit(bought).predict(asked).residual


def compared(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table: per device and budget the mean error over software configurations, medians over divisions."""
    lines = ["| device | budget | chosen | random | cheapest | chosen better than random | seconds: chosen, random |"]
    lines.append("| --- |" + " --- |" * 6)
    devices = list(dict.fromkeys(one.device for one in outcomes))
    for device in devices:
        for budget in dict.fromkeys(one.budget for one in outcomes):
            by_policy = {policy: _by_division(outcomes, device, budget, policy) for policy in POLICIES}
            cells = [_spread([error for error, _ in by_policy[policy].values()]) for policy in POLICIES]
            pairs = [(error, by_policy["random"][division][0]) for division, (error, _) in by_policy["chosen"].items()]
            won = sum(one < other for one, other in pairs) / len(pairs)
            spent = [
                np.median([seconds for _, seconds in by_policy[policy].values()]) for policy in ("chosen", "random")
            ]
            lines.append(
                f"| {device} | {budget} | " + " | ".join(cells) + f" | {won:.0%} | {spent[0]:.0f}, {spent[1]:.0f} |"
            )
    return lines


def _by_division(outcomes: Sequence[Outcome], device: str, budget: str, policy: str) -> dict[int, tuple[float, float]]:
    """Error and seconds of each division, means over the device's software configurations."""
    found: dict[int, list[tuple[float, float]]] = {}
    for one in outcomes:
        if (one.device, one.budget, one.policy) == (device, budget, policy):
            found.setdefault(one.division, []).append((one.error, one.seconds))
    return {division: tuple(np.mean(values, axis=0)) for division, values in found.items()}


def _spread(values: Sequence[float]) -> str:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{middle:.1%} ({low:.1%}–{high:.1%})"


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path, help="folder of timm's result files")
    parser.add_argument("--traces", type=Path, help="operator traces of the same models")
    parser.add_argument("--files", type=Path, nargs="*", help="files of our own measurements")
    parser.add_argument("--service", action="store_true", help="correct as the service does; an hour")
    parser.add_argument("--devices", nargs="*", default=(), help="of timm's; all by default")
    parser.add_argument("--divisions", type=int, default=DIVISIONS)
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    if options.timm:
        method, budgets = (CalibratedMethod(TREES), SOME) if options.service else (OffsetMethod(TREES), BUDGETS)
        table, _ = timm_table(timm_rows(options.timm)[0], options.traces)
        outcomes += of_devices(table, options.devices, options.divisions, method, budgets)
    if options.files:
        outcomes += of_files(read(options.files), options.divisions)
    print("\n".join(compared(outcomes)))


if __name__ == "__main__":
    main()
