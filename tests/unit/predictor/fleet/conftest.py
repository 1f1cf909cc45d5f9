"""Small problems: loads, devices and replicas stated in a line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from domain.answers import RankedOption
from predictor.fleet.machines import Machine
from predictor.fleet.patterns import patterns_of
from predictor.fleet.plan import Problem
from predictor.fleet.replicas import Replica


def option(**members: Any) -> RankedOption:
    """Return an entry of an answer with these members; the others are not known."""
    unknown = dict.fromkeys(RankedOption.__struct_fields__)
    return RankedOption(**{**unknown, "hardware": "a", "platform": "cuda", "precision": "fp16", **members})


def replica(
    load: int, hardware: str, rate: float, memory: float | None = 1.0, width: int = 1, batch: int = 1
) -> Replica:
    entry = option(batch_size=batch, configuration=f"{load}-{hardware}-{batch}")
    return Replica(
        load=load, hardware=hardware, width=width, rates=(rate, rate, rate), memory_bytes=memory,
        memory_basis="measured peak", entry=entry,
    )  # fmt: skip


def machine(hardware: str, usd: float, devices: int = 1, available: int | None = None) -> Machine:
    return Machine(hardware=hardware, devices=devices, usd_per_hour=usd, provider="cloud", available=available)


def problem(
    rates: tuple[float, ...],
    machines: list[Machine],
    replicas: list[Replica],
    rooms: dict[str, float | None],
    **limits: Any,
) -> Problem:
    together = limits.pop("together", True)
    made = {"utilisation": 1.0, **limits}
    patterns = tuple(patterns_of(replicas, rooms, made.get("end", 0), together=together))
    return Problem(rates=rates, machines=tuple(machines), patterns=patterns, **made)


class Small:
    """A random problem of a size that can be tried out whole."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.loads = int(draw.integers(1, 4))
        hardware = ["a", "b"][: int(draw.integers(1, 3))]
        self.rates = tuple(float(draw.uniform(0.2, 2.5)) for _ in range(self.loads))
        self.machines = [machine(name, round(float(draw.uniform(0.5, 3.0)), 2)) for name in hardware]
        self.rooms: dict[str, float | None] = {name: float(draw.integers(2, 6)) for name in hardware}
        self.replicas = [
            replica(load, name, float(draw.uniform(0.5, 3.0)), float(draw.integers(1, 4)), batch=batch)
            for load in range(self.loads)
            for name in hardware
            for batch in (1, 8)
            if draw.uniform() < 0.85
        ]
        self.utilisation = float(draw.choice([0.6, 1.0]))

    def problem(self, **limits: Any) -> Problem:
        made = {"utilisation": self.utilisation, **limits}
        return problem(self.rates, self.machines, self.replicas, self.rooms, **made)


@pytest.fixture
def small() -> Callable[[int], Small]:
    return Small
