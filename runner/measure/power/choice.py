"""Which meter a platform's work is measured by: that of the device that does it, else none; never that of another."""

from __future__ import annotations

import os
import platform
import plistlib
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import IO, Any, ClassVar

from domain.operating_system import user_id
from domain.performance.energy import PowerReading
from runner.measure.power.battery import find_battery
from runner.measure.power.meter import Meter, Unread

__all__ = [
    "POWERCAP",
    "Powermetrics",
    "Rapl",
    "find_powermetrics",
    "find_rapl",
    "host_meter",
    "power_of_sample",
    "zones",
]

POWERCAP = Path("/sys/class/powercap")
_CONTROL_TYPE = "intel-rapl:"
_MICRO = 1e-6


class Rapl:
    """Counters of energy; their overflow is seen where they are read once in the time that it takes, minutes at least."""

    name: ClassVar[str] = "rapl"
    update_s = 0.001

    def __init__(self, folders: list[Path]) -> None:
        self._files = [folder / "energy_uj" for folder in folders]
        self._range = [int((folder / "max_energy_range_uj").read_text("utf-8")) for folder in folders]
        self._last = [int(file.read_text("utf-8")) for file in self._files]
        self._total = 0
        self._names = [_name(folder) for folder in folders]

    @property
    def scope(self) -> str:
        """The zones that are added up."""
        return f"the processor's {' and '.join(self._names)} (everything that runs on it)"

    def read(self) -> PowerReading:
        """Return the energy of all zones since this meter was made."""
        try:
            now = [int(file.read_text("utf-8")) for file in self._files]
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
        return (folder / "name").read_text("utf-8").strip()
    except OSError:
        return ""


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
        """End the program: nobody reads it any longer, and a program of root's gets no signal from us."""
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
    if user_id() == 0:
        return Powermetrics(command)
    allowed = subprocess.run(["sudo", "-n", "-l", program], capture_output=True, timeout=10, check=False)
    if allowed.returncode:
        return Unread("powermetrics asks for root.", "Allow it without a password in sudoers, or run as root.")
    return Powermetrics(["sudo", "-n", *command])


def host_meter() -> Meter | Unread:
    """Return the meter of this machine's processor, of the whole machine where only that is shown, or why there is none."""
    ways = (find_powermetrics, find_battery) if sys.platform == "darwin" else (find_rapl, find_battery)
    reasons: list[Unread] = []
    for find in ways:
        host_meter = find()
        if not isinstance(host_meter, Unread):
            return host_meter
        reasons.append(host_meter)
    first = reasons[0]
    return Unread("; ".join(each.reason.rstrip(".") for each in reasons) + ".", first.remedy)
