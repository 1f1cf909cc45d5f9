"""An NVIDIA device through NVML (`nvidia-ml-py`): its state and its power. What figures mean: `nvidia_facts`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable
from time import perf_counter
from typing import Any, ClassVar

from domain.performance.device_state import DeviceState
from domain.performance.energy import PowerReading
from runner.machine.devices.nvidia_facts import mig_profile, slowed_by
from runner.machine.devices.processes import own_names, shared
from runner.measure.power.meter import Meter, Unread

__all__ = ["Nvidia", "NvidiaMeter", "find_nvidia"]

_INSTALL = "pip install 'assay-bench[nvidia]'"


def find_nvidia(uuid: str, name: str) -> Nvidia | Unread:
    """Return the device of that UUID (`GPU-…` or `MIG-…`), or why NVML does not show it. `name` is the runtime's."""
    if importlib.util.find_spec("pynvml") is None:
        return Unread("nvidia-ml-py is not installed.", _INSTALL)
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        board = handle
        if nvml.nvmlDeviceIsMigDeviceHandle(handle):
            board = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    except nvml.NVMLError as error:
        return Unread(f"NVML does not show the device: {error}.", "Look whether nvidia-smi does.")
    return Nvidia(nvml, handle, board, key=uuid, name=name)


class Nvidia:
    """One GPU or MIG slice. Clocks, heat and power are those of the board, which its slices share."""

    def __init__(self, nvml: Any, handle: Any, board: Any, *, key: str, name: str) -> None:
        self._nvml = nvml
        self._handle = handle
        self._board = board
        self.key = key
        self.part = mig_profile(name) or (None if handle is board else "mig")

    def _ask(self, question: str, *arguments: Any, of: Any = None) -> Any:
        """Return NVML's answer, or None where this device or this driver has none."""
        ask: Callable[..., Any] | None = getattr(self._nvml, question, None)
        if ask is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError):
            return ask(self._board if of is None else of, *arguments)
        return None

    def state(self) -> DeviceState:
        """Return the state now."""
        nvml = self._nvml
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses", of=self._handle)
        using = None if listed is None else shared([(each.pid, each.usedGpuMemory) for each in listed], own_names())
        memory = self._ask("nvmlDeviceGetMemoryInfo", of=self._handle)
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return DeviceState(
            clock_hz=_times(self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), 1e6),
            memory_clock_hz=_times(self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), 1e6),
            temperature_c=_times(self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU), 1.0),
            power_w=self._power_w(),
            power_limit_w=_times(self._ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            slowed_by=None if reasons is None else slowed_by(int(reasons)),
            used_bytes=None if memory is None else int(memory.used),
            own_bytes=using.own_bytes if using else None,
            others=using.others if using else None,
            others_bytes=using.others_bytes if using else None,
        )

    def meter(self) -> Meter | Unread:
        """Return the board's meter; a slice has none of its own, because the board's figure is that of all slices."""
        if self.part is not None:
            return Unread("the power of a MIG slice is not shown, only that of the board which other slices share.")
        if self._power_w() is None and self._ask("nvmlDeviceGetTotalEnergyConsumption") is None:
            return Unread("this device shows neither power nor energy to NVML.")
        return NvidiaMeter(self)

    def power(self) -> PowerReading:
        """Return power and the energy since the driver was loaded, now."""
        power_w, energy = self._power_w(), self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return PowerReading(at_s=perf_counter(), power_w=power_w, energy_j=_times(energy, 1e-3))

    def _power_w(self) -> float | None:
        """Return the power of this moment; where the driver has no such figure, that of `nvmlDeviceGetPowerUsage`.

        On most devices since Ampere the latter is the average of the last second: over the 2.5 s of a self-test on an H100
        its integral was 83 % of what the energy counter said.
        """
        field = getattr(self._nvml, "NVML_FI_DEV_POWER_INSTANT", None)
        values = None if field is None else self._ask("nvmlDeviceGetFieldValues", [field])
        if values is not None and values[0].nvmlReturn == self._nvml.NVML_SUCCESS and values[0].value.uiVal:
            return float(values[0].value.uiVal) * 1e-3
        return _times(self._ask("nvmlDeviceGetPowerUsage"), 1e-3)


class NvidiaMeter:
    """The power of one board."""

    name: ClassVar[str] = "nvml"
    scope = "the GPU board"
    update_s = 0.1

    def __init__(self, device: Nvidia) -> None:
        self._device = device

    def read(self) -> PowerReading:
        """Return what the board shows now."""
        return self._device.power()

    def close(self) -> None:
        """NVML ends with the process."""


def _times(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor
