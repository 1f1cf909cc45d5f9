"""An AMD device through amdsmi, and what its answers mean.

Sources: amdsmi_interface.py of ROCm 7 (dictionaries whose unreadable members are "N/A"; power in W, clocks in MHz,
temperature in °C, energy as `energy_accumulator` × `counter_resolution` in µJ, `active_*` of the violation status).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar

from domain.performance.device_state import DeviceState
from domain.performance.energy import PowerReading
from runner.machine.devices.processes import own_names, shared
from runner.machine.devices.rocm_smi import RocmSmi, find_rocm_smi
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Meter, Unread

__all__ = ["Amd", "AmdMeter", "energy_j", "find_amd", "power_w", "state_of"]

_VIOLATIONS = {
    "active_prochot_thrm": "processor_hot", "active_ppt_pwr": "power_cap", "active_socket_thrm": "thermal_slowdown",
    "active_vr_thrm": "regulator_hot", "active_hbm_thrm": "memory_hot",
}  # fmt: skip


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
