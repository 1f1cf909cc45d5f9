"""An AMD device through amdsmi, and what its answers mean.

Sources: amdsmi_interface.py of ROCm 7 (dictionaries whose unreadable members are "N/A"; power in W, clocks in MHz,
temperature in °C, energy as `energy_accumulator` × `counter_resolution` in µJ, `active_*` of the violation status).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar

from domain.performance.device_state import DeviceState
from domain.performance.energy import PowerReading
from runner.machine.devices.processes import own_names, shared
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Meter, Unread

__all__ = [
    "Amd",
    "AmdMeter",
    "RocmSmi",
    "card_at",
    "energy_j",
    "find_amd",
    "find_rocm_smi",
    "power_w",
    "state_of",
    "state_of_card",
]

_QUESTION = (
    "--showbus",
    "--showmeminfo",
    "vram",
    "--showpower",
    "--showmaxpower",
    "--showtemp",
    "--showclocks",
    "--json",
)
_ANSWER_S = 10.0
_POWERS = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
_HEATS = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_CLOCK = re.compile(r"\(?(\d+(?:\.\d+)?)\s*Mhz\)?", re.I)


def card_at(text: str, bdf: str) -> dict[str, Any] | None:
    """Return what was answered of the card at that PCI address; None where it is not there or nothing can be read."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    cards = document.values() if isinstance(document, dict) else ()
    return next((card for card in cards if isinstance(card, dict) and _same(card.get("PCI Bus"), bdf)), None)


def state_of_card(card: Mapping[str, Any]) -> DeviceState:
    """Return the state that these figures are; what is absent or no number is None, and never 0."""
    used = _rocm_smi_number(card.get("VRAM Total Used Memory (B)"))
    return DeviceState(
        clock_hz=_clock_hz(card.get("sclk clock speed:")),
        memory_clock_hz=_clock_hz(card.get("mclk clock speed:")),
        temperature_c=_first(card, _HEATS),
        power_w=_first(card, _POWERS) or None,
        power_limit_w=_rocm_smi_number(card.get("Max Graphics Package Power (W)")) or None,
        used_bytes=None if used is None else int(used),
    )


def find_rocm_smi(bdf: str) -> RocmSmi | Unread:
    """Return the device at that PCI address (`0000:c1:00.0`), or why rocm-smi does not show it."""
    program = shutil.which("rocm-smi") or shutil.which("/opt/rocm/bin/rocm-smi")
    if program is None:
        return Unread(
            "neither amdsmi nor rocm-smi is installed.", "Both come with ROCm: pip install /opt/rocm/share/amd_smi"
        )
    device = RocmSmi(program, bdf)
    return (
        device if device.card() is not None else Unread(f"rocm-smi shows no device at {bdf}.", "Look whether it runs.")
    )


class RocmSmi:
    """One GPU. Each look starts a program of half a second, so that there are few of them."""

    part: str | None = None
    period_s = 2.0

    def __init__(self, program: str, bdf: str) -> None:
        self._program = program
        self.key = bdf

    def card(self) -> dict[str, Any] | None:
        """Return what it answers of the device now; None where it does not."""
        try:
            process = subprocess.run(
                [self._program, *_QUESTION], capture_output=True, text=True, timeout=_ANSWER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return card_at(process.stdout, self.key)

    def state(self) -> DeviceState:
        """Return the state now."""
        return state_of_card(self.card() or {})

    def meter(self) -> Meter | Unread:
        """Return the kernel driver's meter of the card, which rocm-smi shows too: to start that five times a second would cost more."""
        return find_hwmon(("amdgpu",), address=self.key)


def _same(result: Any, bdf: str) -> bool:
    return isinstance(result, str) and result.strip().lower() == bdf.lower()


def _first(card: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    return next((number for name in names if (number := _rocm_smi_number(card.get(name))) is not None), None)


def _rocm_smi_number(value: Any) -> float | None:
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _clock_hz(value: Any) -> float | None:
    match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) * 1e6 if match else None


_VIOLATIONS = {
    "active_prochot_thrm": "processor_hot",
    "active_ppt_pwr": "power_cap",
    "active_socket_thrm": "thermal_slowdown",
    "active_vr_thrm": "regulator_hot",
    "active_hbm_thrm": "memory_hot",
}


def power_w(row: Mapping[str, Any]) -> float | None:
    """Return the power of amdsmi_get_power_info: now where the device shows that, else its average, else None."""
    for name in ("current_socket_power", "socket_power", "average_socket_power"):
        value = _number(row.get(name))
        if value:
            return value
    return None


def energy_j(row: Mapping[str, Any]) -> float | None:
    """Return the energy of amdsmi_get_energy_count; a counter at 0 is one that the device does not have."""
    accumulator, resolution = _number(row.get("energy_accumulator")), _number(row.get("counter_resolution"))
    return accumulator * resolution * 1e-6 if accumulator and resolution else None


def state_of(
    *,
    power: Mapping[str, Any],
    clock: Mapping[str, Any],
    memory_clock: Mapping[str, Any],
    temperature: Any,
    violations: Mapping[str, Any],
    processes: Sequence[Mapping[str, Any]] | None,
    memory: Mapping[str, Any],
    own: frozenset[int],
) -> DeviceState:
    """Return the state that these answers are; an empty mapping is a question that was not answered."""
    listed = None if processes is None else [(int(each["pid"]), _vram(each)) for each in processes]
    using = None if listed is None else shared(listed, own)
    matching_violations = [name for name in _VIOLATIONS if isinstance(violations.get(name), bool | int)]
    used = _number(memory.get("vram_used"))
    return DeviceState(
        clock_hz=_scaled(clock.get("clk"), 1e6),
        memory_clock_hz=_scaled(memory_clock.get("clk"), 1e6),
        temperature_c=_number(temperature),
        power_w=power_w(power),
        power_limit_w=_number(power.get("power_limit")) or None,
        slowed_by=[_VIOLATIONS[name] for name in matching_violations if violations[name]]
        if matching_violations
        else None,
        used_bytes=None if used is None else int(used * 2**20),
        own_bytes=using.own_bytes if using else None,
        others=using.others if using else None,
        others_bytes=using.others_bytes if using else None,
    )


def find_amd(bdf: str) -> Amd | RocmSmi | Unread:
    """Return the device at that PCI address (`0000:c1:00.0`), by rocm-smi where there is no amdsmi, or why nothing shows it."""
    if importlib.util.find_spec("amdsmi") is None:
        return find_rocm_smi(bdf)
    try:
        # The library of ROCm is loaded on import, and ends badly where it is not there.
        smi = importlib.import_module("amdsmi")
        smi.amdsmi_init()
        handle = smi.amdsmi_get_processor_handle_from_bdf(bdf)
    except Exception as error:
        return Unread(
            f"amdsmi does not show the device: {type(error).__name__}: {error}.", "Look whether amd-smi does."
        )
    return Amd(smi, handle, key=bdf)


class Amd:
    """One GPU."""

    part: str | None = None

    def __init__(self, smi: Any, handle: Any, *, key: str) -> None:
        self._smi = smi
        self._handle = handle
        self.key = key

    def _ask(self, question: str, *arguments: Any) -> Any:
        ask = getattr(self._smi, question, None)
        with contextlib.suppress(self._smi.AmdSmiException):
            return ask(self._handle, *arguments) if ask else None
        return None

    def state(self) -> DeviceState:
        """Return the state now."""
        smi = self._smi
        return state_of(
            power=self._ask("amdsmi_get_power_info") or {},
            clock=self._ask("amdsmi_get_clock_info", smi.AmdSmiClkType.GFX) or {},
            memory_clock=self._ask("amdsmi_get_clock_info", smi.AmdSmiClkType.MEM) or {},
            temperature=self._ask(
                "amdsmi_get_temp_metric", smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
            ),
            violations=self._ask("amdsmi_get_violation_status") or {},
            processes=self._ask("amdsmi_get_gpu_process_list"),
            memory=self._ask("amdsmi_get_gpu_vram_usage") or {},
            own=own_names(),
        )

    def meter(self) -> Meter | Unread:
        """Return its meter; where the library shows none, that of the kernel's driver."""
        reading = self.power()
        if reading.power_w is None and reading.energy_j is None:
            return find_hwmon(("amdgpu",), address=self.key)
        return AmdMeter(self)

    def power(self) -> PowerReading:
        """Return power and energy now."""
        power = power_w(self._ask("amdsmi_get_power_info") or {})
        energy = energy_j(self._ask("amdsmi_get_energy_count") or {})
        return PowerReading(at_s=perf_counter(), power_w=power, energy_j=energy)


class AmdMeter:
    """The power of one socket."""

    name: ClassVar[str] = "amdsmi"
    scope = "the GPU's socket"
    update_s = 0.1

    def __init__(self, device: Amd) -> None:
        self._device = device

    def read(self) -> PowerReading:
        """Return what it shows now."""
        return self._device.power()

    def close(self) -> None:
        """The library ends with the process."""


def _vram(process: Mapping[str, Any]) -> int | None:
    memory = process.get("memory_usage") or {}
    number = _number(memory.get("vram_mem")) or _number(process.get("mem"))
    return None if number is None else int(number)


def _scaled(value: Any, factor: float) -> float | None:
    number = _number(value)
    return None if number is None else number * factor


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
