"""The cheapest plan, exactly: a mixed-integer program over kinds of machines and what can stand together on a device.

Machines and devices of a pattern are whole numbers, the share of a load that a pattern serves is not. Among plans of the
same cost that with the fewest machines is taken, then by name, then the one that spreads models least. The limit on the
work of the solver is a number of nodes, so that the answer does not depend on the speed of the computer.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from predictor.fleet.machines import Machine
from predictor.fleet.patterns import Pattern

__all__ = ["Array", "Plan", "Problem", "cheapest", "growth", "served_share", "solve"]

NODES = 2_000
SECONDS = 5.0
"""A second limit, on the search for the cheapest; an answer cut short by it says so."""
SIDE_SECONDS = 1.5
"""The same for what only orders or compares plans."""
GAP, SIDE_GAP = 1e-6, 1e-4
"""What is within such a share of the best counts as the best: whole numbers of thousands of machines take for ever."""
SLACK = 1e-7
LEAST_BUSY = 1e-3
"""A load counts as at least so much of a device: what is less would drown in the solver's tolerance."""
RANK = 1e-3
"""Of a machine, all ranks by name together: they decide between plans of as many machines."""

Array = NDArray[np.float64]


class Problem(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Loads in their own unit a second, machines, patterns, and limits. `end` is the end of the intervals in force."""

    rates: tuple[float, ...]
    machines: tuple[Machine, ...]
    patterns: tuple[Pattern, ...]
    utilisation: float
    most: int | None = None
    end: int = 0

    def busy(self, pattern: int, load: int) -> float | None:
        """Return how many devices of a pattern all of a load would keep busy; None where it has no replica there."""
        for replica in self.patterns[pattern].replicas:
            if replica.load == load:
                return max(self.rates[load] / replica.rates[self.end], LEAST_BUSY)
        return None


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How many of each machine, how many places of each pattern, and the share of each load there, (patterns, loads)."""

    machines: Array
    places: Array
    shares: Array
    usd_per_hour: float
    bound_usd_per_hour: float
    proven: bool


def solve(problem: Problem, values: Array | None = None) -> Plan | None:
    """Return the cheapest plan, or None where there is none; `known` are machines that serve all, if some are known."""
    result = cheapest(problem, values, gap=GAP, seconds=SECONDS)
    if result is None:
        return None
    machines, bound, proven = result
    prices = _prices(problem)
    if proven:
        machines = _fewest(problem, machines)
    places, shares = _spread(problem, machines)
    total = float(prices @ machines)
    return Plan(
        machines=machines,
        places=places,
        shares=shares,
        usd_per_hour=total,
        bound_usd_per_hour=total if proven else bound,
        proven=proven,
    )


def cheapest(
    problem: Problem, values: Array | None = None, *, gap: float = SIDE_GAP, seconds: float = SIDE_SECONDS
) -> tuple[Array, float, bool] | None:
    """Return machines that serve all for the least money, a bound of that an hour, and whether it is proven."""
    program = _Program(problem)
    prices = _prices(problem)
    result = program.minimised(program.over(machines=prices), gap, seconds)
    machines = None if result.x is None else program.parts(result.x)[0]
    if values is not None and (machines is None or prices @ values < prices @ machines - SLACK):
        machines = values
    if machines is None:
        return None
    total = float(prices @ machines)
    return machines, max(0.0, min(float(result.mip_dual_bound or 0.0), total)), result.status == 0


def _fewest(problem: Problem, machines: Array) -> Array:
    """Of the machines that cost as much those that are fewest, then first by name."""
    prices = _prices(problem)
    total = float(prices @ machines)
    program = _Program(problem)
    program.at_most(program.over(machines=prices), total + SLACK * max(1.0, total))
    ranks = np.arange(len(prices), dtype=np.float64) * (RANK / max(len(prices), 1))
    result = program.minimised(program.over(machines=np.asarray(1.0 + ranks)), GAP)
    return machines if result.x is None else program.parts(result.x)[0]


def _prices(problem: Problem) -> Array:
    return np.array([machine.usd_per_hour for machine in problem.machines])


def growth(problem: Problem, plan: Plan, load: int | None) -> float:
    """Return how many times as much of a load (None: of all) the plan's machines could serve, the others as they are."""
    program = _Program(problem, machines=plan.machines, places=plan.places, growing=load)
    result = program.minimised(program.over(growth=-1.0))
    return 1.0 if result.x is None else max(1.0, float(result.x[-1]))


def served_share(problem: Problem) -> float:
    """Return the share of all loads, 0 to 1, that the machines can serve at the most."""
    program = _Program(problem, growing=None, most=1.0)
    result = program.minimised(program.over(growth=-1.0))
    return 0.0 if result.x is None else min(1.0, float(result.x[-1]))


def _spread(problem: Problem, machines: Array) -> tuple[Array, Array]:
    """Share the loads out over the machines: over as few kinds of places as can be, and as evenly as can be there."""
    used = {machine.hardware for machine, count in zip(problem.machines, machines, strict=True) if count > 0}
    here = [at for at, pattern in enumerate(problem.patterns) if pattern.hardware in used]
    part = msgspec.structs.replace(problem, patterns=tuple(problem.patterns[at] for at in here))
    program = _Program(part, machines=machines, chosen=True)
    result = program.minimised(program.over(chosen=1.0))
    if result.x is None:
        program = _Program(part, machines=machines)
        result = program.minimised(program.over(places=1.0))
    if result.x is None:  # Machines that served all a moment ago, within the tolerance of the solver.
        raise ArithmeticError("no way to share the loads out over machines that serve them")
    _, places, shares = program.parts(result.x)
    even = _Program(part, machines=machines, places=places, allowed=shares > SLACK, levelled=True)
    level = even.minimised(even.over(level=1.0))
    shares = shares if level.x is None else even.parts(level.x)[2]
    all_places, all_shares = np.zeros(len(problem.patterns)), np.zeros((len(problem.patterns), len(problem.rates)))
    all_places[here], all_shares[here] = places, np.where(shares > SLACK, shares, 0.0)
    return all_places, all_shares


class _Program:
    """The program's columns: machines, places, shares, then growth, level or choices where they are asked for."""

    def __init__(
        self,
        problem: Problem,
        *,
        machines: Array | None = None,
        places: Array | None = None,
        growing: Any = "nothing",
        most: float = 1e6,
        chosen: bool = False,
        allowed: Any = None,
        levelled: bool = False,
    ) -> None:
        self.problem = problem
        self.pairs = [
            (place, replica.load)
            for place, pattern in enumerate(problem.patterns)
            for replica in pattern.replicas
            if allowed is None or allowed[place, replica.load]
        ]
        sizes = {
            "machines": len(problem.machines),
            "places": len(problem.patterns),
            "shares": len(self.pairs),
            "growth": int(growing != "nothing"),
            "level": int(levelled),
            "chosen": len(self.pairs) if chosen else 0,
        }
        ends = np.cumsum([0, *sizes.values()])
        self.columns = {name: np.arange(ends[at], ends[at + 1]) for at, name in enumerate(sizes)}
        self.size = int(ends[-1])
        self.low, self.high = np.zeros(self.size), np.full(self.size, np.inf)
        self.whole_columns = np.zeros(self.size)
        for name in ("machines", "places", "chosen"):
            self.whole_columns[self.columns[name]] = 1
        self.high[self.columns["chosen"]] = 1.0
        self.high[self.columns["growth"]] = most
        for name, fixed in (("machines", machines), ("places", places)):
            if fixed is not None:
                self.low[self.columns[name]] = self.high[self.columns[name]] = fixed
        if machines is None:
            self.high[self.columns["machines"]] = [
                np.inf if machine.available is None else machine.available for machine in problem.machines
            ]
        self._rows: list[tuple[list[tuple[int, float]], float, float]] = []
        self._serve(growing)
        self._fill(levelled)
        self._hold()
        if problem.most is not None and machines is None:
            self._row([(int(column), 1.0) for column in self.columns["machines"]], -np.inf, problem.most)
        for at in range(sizes["chosen"]):
            self._row([(int(self.columns["shares"][at]), 1.0), (int(self.columns["chosen"][at]), -1.0)], -np.inf, 0.0)

    def over(self, **weights: float | Array) -> Array:
        """Return an objective with these weights on groups of columns."""
        objective = np.zeros(self.size)
        for name, weight in weights.items():
            objective[self.columns[name]] = weight
        return objective

    def at_most(self, weights: Array, limit: float) -> None:
        """Add a limit on a weighted sum."""
        self._row([(int(at), float(weights[at])) for at in np.flatnonzero(weights)], -np.inf, limit)

    def minimised(self, objective: Array, gap: float = SIDE_GAP, seconds: float = SIDE_SECONDS) -> Any:
        """Return what HiGHS finds within a share `gap` of the best, or in `seconds`."""
        rows = [at for at, (entries, *_) in enumerate(self._rows) for _ in entries]
        columns = [column for entries, *_ in self._rows for column, _ in entries]
        values = [value for entries, *_ in self._rows for _, value in entries]
        matrix = csr_array((values, (rows, columns)), shape=(len(self._rows), self.size))
        limits = LinearConstraint(matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows])
        return milp(
            objective,
            integrality=self.whole_columns,
            bounds=Bounds(self.low, self.high),
            constraints=limits,
            options={"node_limit": NODES, "time_limit": seconds, "mip_rel_gap": gap},
        )

    def whole(self, solution: Array) -> Array:
        """Return a solution with its whole numbers rounded to them."""
        return np.where(self.whole_columns > 0, np.round(solution), solution)

    def parts(self, solution: Array) -> tuple[Array, Array, Array]:
        """Return machines, places and shares of a solution, the shares as (patterns, loads)."""
        solution = self.whole(solution)
        shares = np.zeros((len(self.problem.patterns), len(self.problem.rates)))
        for (place, load), share in zip(self.pairs, solution[self.columns["shares"]], strict=True):
            shares[place, load] = share
        return solution[self.columns["machines"]], solution[self.columns["places"]], shares

    def _row(self, entries: list[tuple[int, float]], low: float, high: float) -> None:
        self._rows.append((entries, low, high))

    def _serve(self, growing: Any) -> None:
        """Every load is served whole; a growing one (None: all) as many times as the column of growth says."""
        for load in range(len(self.problem.rates)):
            entries = [
                (int(self.columns["shares"][at]), 1.0) for at, (_, served) in enumerate(self.pairs) if served == load
            ]
            grows = growing is None or growing == load
            if grows:
                entries.append((int(self.columns["growth"][0]), -1.0))
            self._row(entries, 0.0 if grows else 1.0, 0.0 if grows else 1.0)

    def _fill(self, levelled: bool) -> None:
        """The devices of a pattern are busy for no more than the share of the time that is allowed."""
        for place in range(len(self.problem.patterns)):
            entries = [
                (int(self.columns["shares"][at]), float(self.problem.busy(place, load) or 0.0))
                for at, (here, load) in enumerate(self.pairs)
                if here == place
            ]
            self._row([*entries, (int(self.columns["places"][place]), -self.problem.utilisation)], -np.inf, 0.0)
            if levelled and self.high[self.columns["places"][place]] > 0:
                count = float(self.high[self.columns["places"][place]])
                self._row([*entries, (int(self.columns["level"][0]), -count)], -np.inf, 0.0)

    def _hold(self) -> None:
        """Places need devices; one over several devices needs them in one machine."""
        for hardware in sorted({pattern.hardware for pattern in self.problem.patterns}):
            here = [at for at, pattern in enumerate(self.problem.patterns) if pattern.hardware == hardware]
            for width in sorted({self.problem.patterns[at].width for at in here} | {1}):
                entries = [
                    (int(self.columns["places"][at]), float(self.problem.patterns[at].width))
                    for at in here
                    if self.problem.patterns[at].width >= width
                ]
                entries += [
                    (int(self.columns["machines"][at]), -float(machine.devices // width * width))
                    for at, machine in enumerate(self.problem.machines)
                    if machine.hardware == hardware and machine.devices >= width
                ]
                self._row(entries, -np.inf, 0.0)
