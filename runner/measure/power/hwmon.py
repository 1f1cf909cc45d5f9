"""Power and energy of a graphics card as its Linux driver shows it under hwmon: Intel's i915 and xe, AMD's amdgpu.

Source: the kernel's Documentation/hwmon/sysfs-interface.rst (power in µW, energy in µJ) and
Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and -xe-hwmon (energy1_input: the card, energy2_input: its package).
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import ClassVar

from domain.performance.energy import PowerReading
from runner.measure.power.meter import Unread

__all__ = ["CARDS", "Hwmon", "find_hwmon"]

CARDS = Path("/sys/class/drm")
_POWER = ("power1_input", "power1_average")
_ENERGY = ("energy1_input", "energy2_input")


class Hwmon:
    """One card."""

    name: ClassVar[str] = "hwmon"
    update_s = 0.1

    def __init__(self, folder: Path, card: str) -> None:
        self._power = _readable(folder, _POWER)
        self._energy = _readable(folder, _ENERGY)
        self.scope = f"the graphics card {card}"

    @property
    def shows(self) -> bool:
        """Whether there is anything to read."""
        return self._power is not None or self._energy is not None

    def read(self) -> PowerReading:
        """Return power and energy now."""
        power, energy = _micro(self._power), _micro(self._energy)
        return PowerReading(at_s=perf_counter(), power_w=power, energy_j=energy)

    def close(self) -> None:
        """Hold nothing open."""


def find_hwmon(drivers: tuple[str, ...], root: Path = CARDS, *, address: str | None = None) -> Hwmon | Unread:
    """Return the meter of the one card that such a driver drives, or why there is none; of several, that at a PCI address."""
    folders = sorted(each for each in root.glob("card*/device/hwmon/hwmon*") if _text(each / "name") in drivers)
    if len(folders) > 1 and address is not None:
        folders = [each for each in folders if each.parents[1].resolve().name.lower() == address.lower()] or folders
    if not folders:
        return Unread(f"no card of the driver {' or '.join(drivers)} shows power under {root}.")
    if len(folders) > 1:
        return Unread(f"{len(folders)} cards show power, and which of them is measured is unknown.")
    meter = Hwmon(folders[0], folders[0].parents[2].name)
    return meter if meter.shows else Unread("the card's driver shows neither power nor energy.", "Read it as root.")


def _readable(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if _micro(folder / name) is not None), None)


def _micro(file: Path | None) -> float | None:
    text = _text(file) if file else None
    return int(text) / 1e6 if text and text.isdigit() else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return None
