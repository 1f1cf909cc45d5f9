"""The power of an NVIDIA device: that of the moment where the driver has it, with answers as an H100 gave them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.machine.devices.nvidia import Nvidia

INSTANT = 186
AVERAGE_MW, INSTANT_MW = 629_984, 654_368


class Error(Exception):
    """What NVML raises."""


def nvml(**answers: Any) -> Any:
    """Return the part of pynvml that reads power, with the codes of its header."""

    def fields(_handle: object, asked: list[int]) -> list[Any]:
        assert asked == [INSTANT]
        return [answers["field"]]

    names: dict[str, Any] = {
        "NVMLError": Error,
        "NVML_SUCCESS": 0,
        "nvmlDeviceGetPowerUsage": lambda _handle: AVERAGE_MW,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _handle: 1_468_941,
    }
    if "field" in answers:
        names |= {"NVML_FI_DEV_POWER_INSTANT": INSTANT, "nvmlDeviceGetFieldValues": fields}
    return SimpleNamespace(**names)


def field(code: int, milliwatts: int) -> Any:
    return SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=milliwatts))


@pytest.mark.parametrize(
    ("answers", "watts"),
    [
        ({"field": field(0, INSTANT_MW)}, INSTANT_MW / 1000),
        ({"field": field(3, 0)}, AVERAGE_MW / 1000),
        ({"field": field(0, 0)}, AVERAGE_MW / 1000),
        ({}, AVERAGE_MW / 1000),
    ],
    ids=["of the moment", "not supported", "no figure", "an older library"],
)
def test_power_is_that_of_the_moment_or_else_the_average(answers: dict[str, Any], watts: float) -> None:
    reading = Nvidia(nvml(**answers), object(), object(), key="GPU-0", name="NVIDIA H100 80GB HBM3").power()
    assert reading.power_w == pytest.approx(watts)
    assert reading.energy_j == pytest.approx(1468.941)
