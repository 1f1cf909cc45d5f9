"""Machines that no plan needs: another does all that they do, as fast, in no less memory, for no more money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from predictor.fleet.machines import Machine
from predictor.fleet.replicas import Replica

__all__ = ["worth_having"]


def worth_having(
    machines: Sequence[Machine], replicas: Sequence[Replica], room_bytes: Mapping[str, float | None], most: int | None
) -> list[Machine]:
    """Return the machines without those that another betters at every end of the intervals; a plan loses nothing by it."""
    by_hardware: dict[str, list[Replica]] = {}
    for replica in replicas:
        by_hardware.setdefault(replica.hardware, []).append(replica)
    kept: list[Machine] = []
    for machine in sorted(machines, key=lambda item: (item.usd_per_hour / item.devices, -item.devices, item.name)):
        if machine.hardware in by_hardware and not any(
            _betters(other, machine, by_hardware, room_bytes, most) for other in kept
        ):
            kept.append(machine)
    return [item for item in machines if item in kept]


def _betters(
    other: Machine,
    machine: Machine,
    replicas: Mapping[str, Sequence[Replica]],
    room_bytes: Mapping[str, float | None],
    most: int | None,
) -> bool:
    """Whether as many of another as have its devices cost no more and serve whatever it serves."""
    if other.available is not None or machine.devices % other.devices or (most and machine.devices != other.devices):
        return False
    if other.usd_per_hour * (machine.devices // other.devices) > machine.usd_per_hour:
        return False
    if other.hardware == machine.hardware:
        return other.devices == machine.devices or all(
            item.width <= other.devices for item in replicas[machine.hardware]
        )
    room, others = room_bytes.get(machine.hardware), room_bytes.get(other.hardware)
    if others is None or (room is not None and room > others):
        return False
    return all(
        any(_serves(new, item, other) for new in replicas[other.hardware]) for item in replicas[machine.hardware]
    )


def _serves(new: Replica, replica: Replica, other: Machine) -> bool:
    if new.load != replica.load or new.memory_bytes is None or new.width > min(replica.width, other.devices):
        return False
    less = replica.memory_bytes is None or new.memory_bytes <= replica.memory_bytes
    return less and all(mine >= theirs for mine, theirs in zip(new.rates, replica.rates, strict=True))
