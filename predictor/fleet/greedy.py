"""What a person would do without a solver: one load after the other, first on machines that are there, then on cheap ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from predictor.fleet.machines import Machine
from predictor.fleet.patterns import Pattern
from predictor.fleet.plan import Array, Problem
from predictor.fleet.replicas import Replica

__all__ = ["Greedy", "greedy"]


class _Device(msgspec.Struct, kw_only=True, eq=False):
    """A device that was taken: the share of the time that it has left, its memory, and what stands on it by load."""

    hardware: str
    time: float
    room: float | None
    standing: dict[int, Replica] = {}


class Greedy(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How many of each machine it takes, what they cost an hour, and what stands on their devices."""

    machines: Array
    usd_per_hour: float
    patterns: tuple[Pattern, ...]


def greedy(problem: Problem, replicas: Sequence[Replica], room_bytes: Mapping[str, float | None]) -> Greedy | None:
    """Return what first-fit comes to, or None where it finds no way within the limits.

    Of the problem all but its patterns counts. Replicas over several devices are not considered.
    """
    devices: list[_Device] = []
    taken: dict[str, int] = {}
    total = 0.0
    for load in sorted(range(len(problem.rates)), key=lambda at: (-problem.rates[at], at)):
        left = problem.rates[load]
        here = [replica for replica in replicas if replica.load == load and replica.width == 1]
        here.sort(key=lambda entry: (-entry.rates[problem.end], entry.memory_bytes or math.inf))
        rates = _fastest(here, room_bytes, problem.end)
        by_hardware: dict[str, list[Replica]] = {}
        for item in here:
            by_hardware.setdefault(item.hardware, []).append(item)
        for device in devices:
            left -= _filled(device, by_hardware.get(device.hardware, []), left, problem.end)
        while left > problem.rates[load] * 1e-9:
            machine = _cheapest(problem, rates, taken, left)
            if machine is None:
                return None
            taken[machine.name] = taken.get(machine.name, 0) + 1
            total += machine.usd_per_hour
            for _ in range(machine.devices):
                room = room_bytes.get(machine.hardware)
                devices.append(_Device(hardware=machine.hardware, time=problem.utilisation, room=room))
                left -= _filled(devices[-1], by_hardware[machine.hardware], left, problem.end)
    standing = {
        (device.hardware, *(id(entry) for entry in device.standing.values())): Pattern(
            hardware=device.hardware, replicas=tuple(device.standing.values())
        )
        for device in devices if device.standing
    }  # fmt: skip
    counts = np.array([float(taken.get(entry.name, 0)) for entry in problem.machines])
    return Greedy(machines=counts, usd_per_hour=total, patterns=tuple(standing.values()))


def _filled(device: _Device, here: Sequence[Replica], left: float, end: int) -> float:
    """Put as much of a load on a device as it takes, and return how much that is."""
    if left <= 0 or device.time <= 1e-12:
        return 0.0
    for item in here:
        alone = device.room is None or item.memory_bytes is None
        fits = not device.standing if alone else (item.memory_bytes or 0.0) <= (device.room or 0.0)
        if fits:
            amount = min(left, device.time * item.rates[end])
            device.time = 0.0 if alone else device.time - amount / item.rates[end]
            device.room = None if alone else (device.room or 0.0) - (item.memory_bytes or 0.0)
            device.standing = {**device.standing, item.load: item}
            return amount
    return 0.0


def _cheapest(problem: Problem, rates: Mapping[str, float], taken: Mapping[str, int], left: float) -> Machine | None:
    """The machine that costs least for what it would serve of the rest, by name among equals."""
    ranked: list[tuple[float, str, Machine]] = []
    if problem.most is not None and sum(taken.values()) >= problem.most:
        return None
    for machine in problem.machines:
        if machine.available is not None and taken.get(machine.name, 0) >= machine.available:
            continue
        rate = rates.get(machine.hardware, 0.0)
        if rate > 0:
            served = min(left, machine.devices * rate * problem.utilisation)
            ranked.append((machine.usd_per_hour / served, machine.name, machine))
    return min(ranked, key=lambda item: item[:2])[2] if ranked else None


def _fastest(here: Sequence[Replica], room_bytes: Mapping[str, float | None], end: int) -> dict[str, float]:
    """The most that one device of each hardware serves of a load."""
    matches: dict[str, float] = {}
    for item in here:
        room = room_bytes.get(item.hardware)
        if room is None or (item.memory_bytes or 0.0) <= room:
            matches[item.hardware] = max(matches.get(item.hardware, 0.0), item.rates[end])
    return matches
