"""Looks at a device, and what they say of times."""

from __future__ import annotations

import pytest

from domain.payloads import Observed
from domain.performance.device_state import DeviceConditions, DeviceState, device_doubts, summary
from domain.verdicts import Circumstances, judge

STEADY = [10.0, 10.1, 10.2] * 20
COOL = DeviceState(clock_hz=1.98e9, temperature_c=61.0, slowed_by=["power_cap"], others=0, power_w=640.0)


def test_many_looks_become_the_lowest_clock_the_highest_heat_and_every_reason() -> None:
    hot = DeviceState(clock_hz=1.5e9, temperature_c=88.0, slowed_by=["thermal_slowdown"], others=1, power_w=500.0)
    found = summary([COOL, hot, DeviceState()])
    assert found is not None
    assert (found.clock_hz, found.highest_clock_hz, found.temperature_c) == (1.5e9, 1.98e9, 88.0)
    assert found.slowed_by == ["power_cap", "thermal_slowdown"]
    assert (found.others, found.power_w) == (1, 640.0)
    assert summary([]) is None
    unknown = summary([DeviceState()])
    assert unknown is not None and unknown.slowed_by is None and unknown.others is None


@pytest.mark.parametrize(
    ("found", "doubt"),
    [
        (DeviceConditions(before=COOL, during=COOL, after=COOL, time_ratio=1.01), None),
        (DeviceConditions(unread="nvidia-ml-py is not installed."), None),
        (DeviceConditions(during=DeviceState(slowed_by=["power_cap", "idle", "application_clocks"])), None),
        (DeviceConditions(during=DeviceState(slowed_by=["hardware_thermal_slowdown"])), "hardware thermal slowdown"),
        (DeviceConditions(during=DeviceState(clock_hz=1.5e9, highest_clock_hz=1.98e9)), "fell from 1980 to 1500 MHz"),
        (DeviceConditions(during=DeviceState(clock_hz=1.9e9, highest_clock_hz=1.98e9)), None),
        (DeviceConditions(before=DeviceState(others=2), during=DeviceState(others=0)), "2 other processes"),
        (DeviceConditions(after=DeviceState(others=1)), "1 other process used"),
        (DeviceConditions(time_ratio=40.0), "not all was waited for"),
    ],
)
def test_what_makes_times_suspect(found: DeviceConditions, doubt: str | None) -> None:
    reasons = list(device_doubts(found))
    assert (not reasons) if doubt is None else (len(reasons) == 1 and doubt in reasons[0])
    row = judge(STEADY, ["latency_ms", "device_time_ms", "peak_memory_bytes"], Circumstances(device=found))
    assert (
        row.metrics["latency_ms"].verdict == row.metrics["device_time_ms"].verdict == ("suspect" if doubt else "valid")
    )
    assert row.metrics["peak_memory_bytes"].verdict == "valid"


def test_operators_that_were_moved_one_by_one_make_all_suspect() -> None:
    observed = Observed(platform="mps", fallback_share=0.0, details={"moved_to_cpu": ["aten.linalg_eigh"]})
    row = judge(STEADY, ["latency_ms"], Circumstances(observed=observed))
    assert row.reasons == ["operators were moved to the processor and back: aten.linalg_eigh"]
