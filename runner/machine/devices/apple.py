"""Heat on Apple's machines, as `pmset -g therm` tells it without root.

Source: `man pmset`; the limits are per cent, 100 where nothing is held back, and absent before the first change.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from domain.performance.device_state import DeviceState
from runner.measure.power.choice import host_meter
from runner.measure.power.meter import Meter, Unread

__all__ = ["Apple", "limits_of"]

_LIMIT = re.compile(r"(CPU_Scheduler_Limit|CPU_Speed_Limit|GPU_Speed_Limit)\s*=\s*(\d+)")


def limits_of(text: str) -> dict[str, int]:
    """Return the limits in per cent by name."""
    return {name: int(value) for name, value in _LIMIT.findall(text)}


class Apple:
    """The one graphics processor of a machine; its memory is the machine's."""

    key = "apple-gpu"
    part: str | None = None

    def state(self) -> DeviceState:
        """Return whether heat holds the machine back now."""
        program = shutil.which("pmset")
        if program is None:
            return DeviceState()
        process = subprocess.run([program, "-g", "therm"], capture_output=True, text=True, timeout=5, check=False)
        held = [name for name, limit in limits_of(process.stdout).items() if limit < 100]
        return DeviceState(slowed_by=["thermal_slowdown"] if held else [])

    def meter(self) -> Meter | Unread:
        """Return the meter of the chip, which both processors share."""
        return host_meter()
