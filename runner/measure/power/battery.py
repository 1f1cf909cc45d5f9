"""A battery that is being emptied: the power of the whole machine, screen and all.

Source: the kernel's Documentation/ABI/testing/sysfs-class-power. Power in µW, current in µA, voltage in µV, energy in µWh.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import ClassVar

from domain.performance.energy import PowerReading
from runner.measure.power.meter import Unread

__all__ = ["SUPPLIES", "Battery", "find_battery"]

SUPPLIES = Path("/sys/class/power_supply")


class Battery:
    """The power that flows out of one battery. Its stock of energy moves in steps too coarse to count by."""

    name: ClassVar[str] = "battery"
    scope = "the whole machine, by its battery"
    update_s = 5.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> PowerReading:
        """Return the power now; none as soon as the battery is no longer discharging."""
        at = perf_counter()
        if _word(self._folder / "status") != "Discharging":
            return PowerReading(at_s=at)
        power = _number(self._folder / "power_now")
        if power is None:
            current, voltage = (_number(self._folder / name) for name in ("current_now", "voltage_now"))
            power = current * voltage / 1e6 if current is not None and voltage is not None else None
        # Some drivers count what flows out as negative.
        return PowerReading(at_s=at, power_w=abs(power) / 1e6 if power else None)

    def close(self) -> None:
        """Hold nothing open."""


def find_battery(root: Path = SUPPLIES) -> Battery | Unread:
    """Return the meter, or why there is none."""
    folders = sorted(root.iterdir()) if root.is_dir() else []
    # A mouse and a pen have batteries too; theirs have the scope of a device.
    own = [each for each in folders if _word(each / "type") == "Battery" and _word(each / "scope") != "Device"]
    if not own:
        return Unread("there is no battery.")
    if len(own) > 1:
        return Unread(f"there are {len(own)} batteries, and which of them feeds the machine changes.")
    if _word(own[0] / "status") != "Discharging":
        return Unread("the battery is not being emptied.", "Unplug the machine to measure by its battery.")
    battery = Battery(own[0])
    return battery if battery.read().power_w is not None else Unread("the battery shows neither power nor current.")


def _word(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return None


def _number(file: Path) -> float | None:
    word = _word(file)
    return float(word) if word and word.lstrip("-").isdigit() else None
