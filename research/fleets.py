"""What an exact plan of a fleet saves over first-fit and over one kind of hardware, on made-up fleets; and how often the
memory that is set aside where only the least need is known was enough, on the measurements in data/.

Answer: first-fit is 2 to 16 % dearer at the median, and 144 % at worst (docs/fleet.md).

python -m research.fleets prints the figures of docs/fleet.md.
"""

from __future__ import annotations

import gzip
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.performance.roofline import memory_estimate
from predictor.features.traces import TraceBook, trace_from_data
from predictor.fleet.deployment import greedy
from predictor.fleet.machines import Machine
from predictor.fleet.patterns import patterns_of
from predictor.fleet.plan import Problem, cheapest
from predictor.fleet.replicas import Replica
from predictor.memory.needs import unmeasured

FLEETS = 40
SIZES = ((2, 6), (4, 6), (6, 6), (4, 12))
BATCHES = (1, 8, 32)
SIZES_OF_ITEMS = ("sequence_length", "image_size", "audio_seconds", "frames", "input_tokens")


@dataclass(frozen=True)
class World:
    """Loads, machines and replicas; memory in GB."""

    problem: Problem
    replicas: list[Replica]
    rooms: dict[str, float | None]


def made(loads: int, kinds: int, seed: int) -> World:
    """Return a fleet: faster devices cost a little less for their speed, larger models are slower, batches raise both."""
    draw = np.random.default_rng(seed)
    names = [f"device-{at:02d}" for at in range(kinds)]
    speed = {name: float(2 ** draw.uniform(0, 5)) for name in names}
    rooms: dict[str, float | None] = {name: float(draw.choice([8, 16, 24, 40, 80])) for name in names}
    machines = [
        Machine(
            hardware=name, devices=1, provider="made-up",
            usd_per_hour=round(0.3 * speed[name] ** 0.9 * float(draw.uniform(0.7, 1.4)), 2),
        )
        for name in names
    ]  # fmt: skip
    size = [float(draw.choice([1, 2, 4, 7])) for _ in range(loads)]
    replicas: list[Replica] = []
    for load in range(loads):
        for name in names:
            fit = float(draw.uniform(0.7, 1.4))
            for batch in BATCHES:
                rate = speed[name] * fit * 10 * batch**0.3 / size[load]
                entry = {"platform": "cuda", "precision": "fp16", "batch_size": batch}
                replicas.append(
                    Replica(
                        load=load, hardware=name, width=1, rates=(rate, rate, rate), entry=entry,
                        memory_bytes=size[load] * (1 + 0.02 * batch), memory_basis="made up",
                    )
                )  # fmt: skip
    rates = tuple(float(draw.uniform(5, 60)) for _ in range(loads))
    problem = Problem(rates=rates, machines=tuple(machines), patterns=(), utilisation=0.7)
    return World(problem=problem, replicas=replicas, rooms=rooms)


def compared(world: World) -> tuple[float, float, float, bool, float]:
    """Return the costs of the plan, of first-fit and of the best single kind, whether it is proven, and seconds."""
    begun = time.perf_counter()
    simple = greedy(world.problem, world.replicas, world.rooms)
    patterns = patterns_of(world.replicas, world.rooms, 0)
    problem = msgspec.structs.replace(world.problem, patterns=(*patterns, *(simple.patterns if simple else ())))
    found = cheapest(problem, None if simple is None else simple.machines)
    took = time.perf_counter() - begun
    assert simple is not None
    assert found is not None
    single = []
    for machine in problem.machines:
        here = tuple(one for one in problem.patterns if one.hardware == machine.hardware)
        alone = cheapest(msgspec.structs.replace(problem, machines=(machine,), patterns=here))
        if alone is not None:
            single.append(float(alone[0][0]) * machine.usd_per_hour)
    cost = sum(count * one.usd_per_hour for count, one in zip(found[0], problem.machines, strict=True))
    return float(cost), simple.usd_per_hour, min(single), found[2], took


def margins() -> dict[str, list[float]]:
    """Return what would be set aside over what was measured at the peak, for every inference row of data/, by platform."""
    events: list[dict[str, Any]] = []
    for path in sorted((Path(__file__).parents[1] / "data").glob("*.ndjson.gz")):
        with gzip.open(path, "rt") as lines:
            events += [json.loads(line) for line in lines]
    book = TraceBook(trace_from_data(one["data"]) for one in events if one["type"] == "assay.model.traced.v1")
    found: dict[str, list[float]] = {}
    for one in events:
        data = one["data"]
        peak = data.get("metrics", {}).get("peak_memory_bytes")
        if one["type"] != "assay.measurement.recorded.v1" or not peak or data["workload"]["mode"] != "inference":
            continue
        work, execution = data["workload"], data["execution"]
        trace = book.find(data["model"]["id"], **{name: work[name] for name in SIZES_OF_ITEMS if work.get(name)})
        floor = trace and memory_estimate(
            {"parameters": trace.parameters, **trace.totals},
            precision=execution["precision"],
            batch_size=work["batch_size"],
        )
        if floor:
            found.setdefault(execution["platform"], []).append(
                float(
                    unmeasured([floor.weights_bytes], [floor.activations_bytes], [math.nan], "inference", 0.8).high[0]
                )
                / peak
            )
    return found


def main() -> None:
    """Print the table, and the margins."""
    print(
        "| loads × kinds of machines | dearer by first-fit: median, worst | by one kind of hardware: median, worst | proven | median s |"
    )
    print("| --- | --- | --- | --- | --- |")
    for loads, kinds in SIZES:
        rows = [compared(made(loads, kinds, seed)) for seed in range(FLEETS)]
        first = [greedy_cost / cost - 1 for cost, greedy_cost, *_ in rows]
        single = [only / cost - 1 for cost, _, only, *_ in rows]
        proven = sum(row[3] for row in rows) / len(rows)
        print(
            f"| {loads} × {kinds} | {np.median(first):.0%}, {max(first):.0%} | {np.median(single):.0%}, {max(single):.0%} "
            f"| {proven:.0%} | {np.median([row[4] for row in rows]):.2f} |",
            flush=True,
        )
    for platform, ratios in sorted(margins().items()):
        enough = np.mean(np.array(ratios) >= 1)
        print(
            f"{platform}: enough for {enough:.0%} of {len(ratios)} rows, at the median {np.median(ratios):.2f} times the peak"
        )


if __name__ == "__main__":
    main()
