"""What this machine offers to jobs: its name among workers, its devices, and the platforms that worked on each."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from domain.errors import TooBusy
from domain.jobs.needs import DeviceDescription, WorkerDescription
from domain.vocabulary import SECOND_RUNTIMES
from runner.campaign.campaign import survey_machine
from runner.campaign.event_payloads import RUNNER_VERSION, Machine
from runner.machine.devices.lock import DeviceLock, take
from runner.platforms.registry import names

__all__ = ["Addresses", "describe_worker", "device_argument", "take_name"]

Addresses = Mapping[str, Mapping[str, str]]
"""By the address of a device in a worker's description: what each platform calls it."""
_NOT_NAME = re.compile(r"[^A-Za-z0-9.-]+")
_MOST_WORKERS = 64


def take_name(name: str | None) -> tuple[str, DeviceLock]:
    """Return the worker's name with the lock that keeps it for this process.

    Without a name it is that of the host, with a number for a second worker on it. Raises TooBusy where another worker
    of this machine has the name that was asked for.
    """
    if name is not None:
        try:
            return name, take(f"worker-{name}")
        except TooBusy as busy:
            raise TooBusy(
                f"a worker called {name} runs on this machine already.",
                field="name",
                remedy="Stop that one, or give this one another name: --name.",
            ) from busy
    host = _NOT_NAME.sub("-", socket.gethostname()).strip("-.")[:50] or "worker"
    for number in range(1, _MOST_WORKERS + 1):
        candidate = host if number == 1 else f"{host}-{number}"
        try:
            return candidate, take(f"worker-{candidate}")
        except TooBusy:
            continue
    raise TooBusy(f"{_MOST_WORKERS} workers run on this machine.", field="name", remedy="Stop some of them.")


def describe_worker(name: str, labels: tuple[str, ...]) -> tuple[WorkerDescription, Addresses]:
    """Try every platform in a child, which takes seconds, and return the description with the addresses of its devices.

    A platform counts for a device only where it answered there. Raises PartMissing where the machine cannot be surveyed.
    """
    machine, _ = survey_machine(names())
    devices, addresses = devices_of(machine)
    description = WorkerDescription(
        name=name,
        os={"win32": "windows"}.get(sys.platform, sys.platform),
        devices=devices,
        labels=labels,
        assay=RUNNER_VERSION,
        python=".".join(map(str, sys.version_info[:3])),
    )
    return description, addresses


def devices_of(machine: Machine) -> tuple[tuple[DeviceDescription, ...], Addresses]:
    """Return the devices of a survey, the processor first. A device without a platform that works is left out."""
    devices: list[DeviceDescription] = []
    addresses: dict[str, Mapping[str, str]] = {}
    for place, called in zip(machine.placement, _platforms_by_place(machine), strict=True):
        if not called:
            continue
        hardware = place["hardware"]
        address = "cpu" if place is machine.placement[0] else hardware["id"]
        described = next(item for item in machine.hardware if item["hardware"]["id"] == hardware["id"])
        memory = (described.get("spec") or {}).get("memory_bytes")
        devices.append(
            DeviceDescription(
                address=address,
                hardware=hardware["id"],
                platforms=tuple(called),
                memory_bytes=int(memory["value"]) if memory else None,
                # Sockets of a processor are one device: a job has them all.
                count=1 if address == "cpu" else hardware.get("count") or 1,
            )
        )
        addresses[address] = called
    return tuple(devices), addresses


def _platforms_by_place(machine: Machine) -> Iterator[dict[str, str]]:
    """Yield for each device the platforms that work on it, each with its first address there."""
    present = [name for name in machine.platforms if machine.available(name)]
    placed = {name for place in machine.placement for name in place["addresses"]}
    for index, place in enumerate(machine.placement):
        called = place["addresses"]
        here: dict[str, str] = {}
        for name in present:
            base = name if name in placed else SECOND_RUNTIMES.get(name, name)
            if called.get(base):
                here[name] = called[base][0]
            elif base not in placed and index == 0:
                # A platform of another package says only that it works.
                here[name] = "cpu"
        yield here


def device_argument(plan: Mapping[str, Any], device: str, addresses: Addresses) -> str | None:
    """Return what `assay bench --device` needs so that a plan runs on a device; None where it does so by itself.

    A platform takes its first device by itself, which is another one where a machine has several kinds.
    """
    platforms = [name for sweep in plan.get("sweeps", ()) for name in sweep.get("platforms") or ()]
    called = addresses.get(device, {})
    for name in platforms:
        first = next((each[name] for each in addresses.values() if name in each), None)
        if name in called and called[name] != first:
            return called[name]
    return None
