"""Apple's `powermetrics`: the power of processor, graphics and neural engine together, a property list a sample.

Source: `man powermetrics` (-f plist: one list a sample, each ended by a NUL) and the lists that asitop and mactop read:
`elapsed_ns`, and under `processor` `combined_power`, `cpu_power`, `gpu_power` and `ane_power` in mW.
"""

from __future__ import annotations

import os
import platform
import plistlib
import shutil
import subprocess
import threading
from contextlib import suppress
from time import perf_counter
from typing import IO, Any, ClassVar

from domain.performance.energy import PowerReading
from runner.measure.power.meter import Unread

__all__ = ["Powermetrics", "find_powermetrics", "power_of_sample"]

_INTERVAL_MS = 250
_CHUNK = 1 << 14
_END_S = 5.0


def power_of_sample(text: bytes) -> float | None:
    """Return the power in W of one property list, or None where it has none; older systems name only the parts."""
    try:
        document: Any = plistlib.loads(text.strip(b"\x00\n "))
    except (plistlib.InvalidFileException, ValueError):
        return None
    processor = document.get("processor", {}) if isinstance(document, dict) else {}
    whole = processor.get("combined_power")
    if whole is None:
        parts = [processor[name] for name in ("cpu_power", "gpu_power", "ane_power") if name in processor]
        whole = sum(parts) if parts else None
    return None if whole is None else float(whole) / 1e3


class Powermetrics:
    """The last sample of a `powermetrics` that runs beside; each is the mean power of its interval."""

    name: ClassVar[str] = "powermetrics"
    scope = "processor, graphics and neural engine together (powermetrics)"
    update_s = _INTERVAL_MS / 1e3

    def __init__(self, command: list[str]) -> None:
        self._last: float | None = None
        self._closing = threading.Event()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        self._thread = threading.Thread(target=self._follow, args=(self._process.stdout,), daemon=True)
        self._thread.start()

    def _follow(self, pipe: IO[bytes]) -> None:
        pending = b""
        with pipe:
            while not self._closing.is_set() and (chunk := os.read(pipe.fileno(), _CHUNK)):
                *lists, pending = (pending + chunk).split(b"\x00")
                for text in lists:
                    self._last = power_of_sample(text) or self._last
        self._last = None

    def read(self) -> PowerReading:
        """Return the power of the interval that ended last; none before the first and after the program has ended."""
        return PowerReading(at_s=perf_counter(), power_w=self._last)

    def close(self) -> None:
        """End the program: nobody reads it any longer, and what runs as root cannot be told otherwise."""
        self._closing.set()
        with suppress(PermissionError):
            self._process.terminate()
        self._thread.join(timeout=_END_S)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_S)


def find_powermetrics() -> Powermetrics | Unread:
    """Return the meter, or why there is none."""
    program = shutil.which("powermetrics")
    if platform.system() != "Darwin" or program is None:
        return Unread("powermetrics is part of macOS.")
    command = [program, "--samplers", "cpu_power,gpu_power,ane_power", "-i", str(_INTERVAL_MS), "-f", "plist"]
    if os.geteuid() == 0:
        return Powermetrics(command)
    allowed = subprocess.run(["sudo", "-n", "-l", program], capture_output=True, timeout=10, check=False)
    if allowed.returncode:
        return Unread("powermetrics asks for root.", "Allow it without a password in sudoers, or run as root.")
    return Powermetrics(["sudo", "-n", *command])
