"""What a job needs, what a worker has, and whether the one satisfies the other.

A need is met by what `assay detect` proved on the worker's machine: a platform that answered there, the memory of the
device that it ran on. Labels are names that the owner of a worker gave it, such as a rack; they are needs of their own
and stand for no capability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from domain.errors import UsageError
from domain.vocabulary import PLATFORMS, SECOND_RUNTIMES

__all__ = ["DeviceDescription", "Needs", "WorkerDescription", "closest", "device_for", "read_needs", "unmet"]

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_KNOWN_PLATFORMS = (*PLATFORMS, *SECOND_RUNTIMES)
_FORMS = "a platform such as cuda, memory=16GB, hardware=SLUG, os=linux, devices=2 or label=NAME"


Name = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*)$(?!\n)")
]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Devices = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=64)]


class Needs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a machine must have. Every platform must work on the same device, with `memory_bytes` of memory.

    `devices` is how many of that device. `os` is the operating system's name in lower case: linux, darwin, windows.
    """

    platforms: Names = ()
    memory_bytes: Bytes | None = None
    hardware: Name | None = None
    os: Name | None = None
    devices: Devices = 1
    labels: Names = ()

    def __str__(self) -> str:
        parts = list(self.platforms)
        if self.memory_bytes is not None:
            parts.append(f"memory={self.memory_bytes / 1e9:.3g}GB")
        if self.hardware is not None:
            parts.append(f"hardware={self.hardware}")
        if self.os is not None:
            parts.append(f"os={self.os}")
        if self.devices > 1:
            parts.append(f"devices={self.devices}")
        return ",".join([*parts, *(f"label={label}" for label in self.labels)])


class DeviceDescription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One kind of device that `assay detect` found: its slug, the platforms that worked on it, and its memory in bytes.

    `address` names it among the worker's devices, `count` is how many of it there are.
    """

    address: Name
    hardware: Name
    platforms: Names
    memory_bytes: Bytes | None = None
    count: Devices = 1


class WorkerDescription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A worker: a name that stays the same over its restarts, what was proved on its machine, and its labels."""

    name: Name
    os: Name
    devices: Annotated[tuple[DeviceDescription, ...], msgspec.Meta(max_length=256)]
    labels: Names = ()
    assay: Name | None = None
    python: Name | None = None


def read_needs(text: str) -> Needs:
    """Return the needs of `cuda,memory=16GB,label=lab`; UsageError (field `needs`) naming the part that is not one."""
    platforms: list[str] = []
    labels: list[str] = []
    members: dict[str, object] = {}
    for word in (part.strip() for part in text.split(",")):
        name, sign, value = word.partition("=")
        if name in members:
            raise UsageError(f"{name} is named twice.", field="needs", remedy="Name each need once.")
        if not sign and name in _KNOWN_PLATFORMS:
            platforms.append(name)
        elif name == "memory" and value:
            members["memory"] = _bytes(value)
        elif name == "devices" and value.isdecimal() and 1 <= int(value) <= 1024:
            members["devices"] = int(value)
        elif name in ("hardware", "os") and value:
            members[name] = value.lower() if name == "os" else value
        elif name == "label" and _LABEL.match(value):
            labels.append(value)
        else:
            raise UsageError(f"{word!r} is not a need.", field="needs", remedy=f"A need is {_FORMS}, parted by commas.")
    if "memory" in members:
        members["memory_bytes"] = members.pop("memory")
    return msgspec.convert(
        {**members, "platforms": list(dict.fromkeys(platforms)), "labels": list(dict.fromkeys(labels))}, Needs
    )


def device_for(needs: Needs, worker: WorkerDescription, busy: Iterable[str] = ()) -> str | None:
    """Return the address of the worker's first idle device that meets the needs, or None."""
    if _unmet_by_machine(needs, worker):
        return None
    idle = (device for device in worker.devices if device.address not in set(busy))
    return next((device.address for device in idle if not _unmet_by_device(needs, device)), None)


def unmet(needs: Needs, worker: WorkerDescription) -> tuple[str, ...]:
    """Return what the worker lacks, a phrase each; empty where it can do the job. Of its devices the best one counts."""
    machine = _unmet_by_machine(needs, worker)
    devices = [_unmet_by_device(needs, device) for device in worker.devices]
    return (*machine, *min(devices, key=len, default=("no device was found on it",)))


def closest(needs: Needs, workers: Iterable[WorkerDescription]) -> tuple[WorkerDescription, tuple[str, ...]] | None:
    """Return the worker that lacks the fewest needs and what it lacks, or None where there is no worker."""
    rows = [(worker, unmet(needs, worker)) for worker in workers]
    return min(rows, key=lambda row: (len(row[1]), row[0].name), default=None)


def _unmet_by_machine(needs: Needs, worker: WorkerDescription) -> tuple[str, ...]:
    lacks = [f"label {label} is not its own" for label in needs.labels if label not in worker.labels]
    if needs.os is not None and needs.os != worker.os:
        lacks.append(f"it runs {worker.os}, not {needs.os}")
    return tuple(lacks)


def _unmet_by_device(needs: Needs, device: DeviceDescription) -> tuple[str, ...]:
    lacks = [f"{platform} does not work on it" for platform in needs.platforms if platform not in device.platforms]
    if needs.hardware is not None and needs.hardware != device.hardware:
        lacks.append(f"it is {device.hardware}, not {needs.hardware}")
    if needs.devices > device.count:
        lacks.append(f"it has {device.count} of {needs.devices} devices")
    if needs.memory_bytes is not None and (device.memory_bytes or 0) < needs.memory_bytes:
        needed = f"{needs.memory_bytes / 1e9:.3g} GB"
        if device.memory_bytes is None:
            lacks.append(f"{needed} are needed, and its memory is not known")
        else:
            lacks.append(f"it has {device.memory_bytes / 1e9:.3g} GB of {needed}")
    return tuple(lacks)


def _bytes(value: str) -> int:
    match = _AMOUNT.match(value.strip())
    factor = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None or float(match[1]) <= 0:
        raise UsageError(
            f"{value!r} is no amount of memory.", field="needs", remedy="Write memory=16GB or memory=512MiB."
        )
    return int(float(match[1]) * factor)
