"""The energy counters of Intel's and AMD's processors, as Linux shows them under powercap (RAPL).

Zones are taken that add up: packages, and the memory beside each. Cores and uncore are parts of a package, `psys` is the
platform around it, and `intel-rapl-mmio` the same package by another way; adding any of them would count twice.
Source: the kernel's Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_common.c.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import ClassVar

from domain.performance.energy import PowerReading
from runner.measure.power.meter import Unread

__all__ = ["POWERCAP", "Rapl", "find_rapl", "zones"]

POWERCAP = Path("/sys/class/powercap")
_CONTROL_TYPE = "intel-rapl:"
_MICRO = 1e-6


class Rapl:
    """Counters of energy; their overflow is seen where they are read once in the time that it takes, minutes at least."""

    name: ClassVar[str] = "rapl"
    update_s = 0.001

    def __init__(self, folders: list[Path]) -> None:
        self._files = [folder / "energy_uj" for folder in folders]
        self._range = [int((folder / "max_energy_range_uj").read_text()) for folder in folders]
        self._last = [int(file.read_text()) for file in self._files]
        self._total = 0
        self._names = [_name(folder) for folder in folders]

    @property
    def scope(self) -> str:
        """The zones that are added up."""
        return f"the processor's {' and '.join(self._names)} (everything that runs on it)"

    def read(self) -> PowerReading:
        """Return the energy of all zones since this meter was made."""
        try:
            now = [int(file.read_text()) for file in self._files]
        except (OSError, ValueError):
            return PowerReading(at_s=perf_counter())
        at = perf_counter()
        steps = zip(now, self._last, self._range, strict=True)
        self._total += sum((new - old) % (most + 1) if new < old else new - old for new, old, most in steps)
        self._last = now
        return PowerReading(at_s=at, energy_j=self._total * _MICRO)

    def close(self) -> None:
        """Hold nothing open."""


def zones(root: Path = POWERCAP) -> list[Path]:
    """Return the folders of packages and of the memory beside them, in order."""
    tops = [folder for folder in root.glob(f"{_CONTROL_TYPE}*") if folder.name.count(":") == 1]
    packages = sorted(folder for folder in tops if _name(folder).startswith("package"))
    inner = [
        folder for package in packages for folder in sorted(root.glob(f"{package.name}:*")) if _name(folder) == "dram"
    ]
    return [*packages, *inner]


def find_rapl(root: Path = POWERCAP) -> Rapl | Unread:
    """Return the meter, or why there is none."""
    if not root.is_dir():
        return Unread(
            f"{root} is absent: no processor here shows its energy, as in most virtual machines.",
            "Measure on the machine itself, or load the module: modprobe intel_rapl_msr.",
        )
    result = zones(root)
    if not result:
        return Unread(f"{root} has no package.", "Load the module of this processor: modprobe intel_rapl_msr.")
    try:
        return Rapl(result)
    except PermissionError:
        return Unread("the energy counters may be read by root only.", f"chmod a+r {root}/intel-rapl:*/energy_uj")
    except (OSError, ValueError) as error:
        return Unread(f"the energy counters cannot be read: {error}.")


def _name(folder: Path) -> str:
    try:
        return (folder / "name").read_text().strip()
    except OSError:
        return ""
