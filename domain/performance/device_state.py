"""An accelerator while a series was taken: clocks, heat, what slowed it and who else used it, and what that means.

| rule | verdict |
| --- | --- |
| the device slowed itself down for heat, or for power that its supply could not give | times suspect |
| its clock fell by more than 10 % within the series | times suspect |
| processes of others were on it | times suspect |
| its own clock says that calls took more than 5 % longer than the host's | times suspect |

A power cap that is set is no fault: it is how the device runs, and it is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

__all__ = ["STATED", "DeviceConditions", "DeviceState", "device_doubts", "summary"]

CLOCK_FELL = 0.10
LONGER = 1.05
STATED = frozenset({"idle", "application_clocks", "power_cap", "sync_boost", "display_clocks"})
"""What keeps clocks down by somebody's choice; every other reason is a fault of the moment."""

Amount = Annotated[float, msgspec.Meta(ge=0)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class DeviceState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device at one moment, or over a while: then the lowest clocks, the highest of the rest, and every reason seen.

    `slowed_by` are the reasons that the device gives for clocks below its highest. `own_bytes` is what it holds for this
    process by the driver's count (context, libraries and allocator together), `others` how many other processes use it.
    """

    clock_hz: Amount | None = None
    highest_clock_hz: Amount | None = None
    memory_clock_hz: Amount | None = None
    temperature_c: float | None = None
    power_w: Amount | None = None
    power_limit_w: Amount | None = None
    slowed_by: list[str] | None = None
    used_bytes: Whole | None = None
    own_bytes: Whole | None = None
    others: Whole | None = None
    others_bytes: Whole | None = None


class DeviceConditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device before the model was loaded, while the samples were taken and after them.

    `part` is the slice that a device was cut into (a MIG profile). `allocated_bytes` and `reserved_bytes` are the highest
    of the runtime's allocator. `time_ratio` is the median of a call by the device's own clock over that of the host's.
    `unread` is why nothing else is there.
    """

    before: DeviceState | None = None
    during: DeviceState | None = None
    after: DeviceState | None = None
    part: str | None = None
    allocated_bytes: Whole | None = None
    reserved_bytes: Whole | None = None
    time_ratio: Amount | None = None
    unread: str | None = None


_LOWEST = ("clock_hz", "memory_clock_hz", "power_limit_w")
_HIGHEST = ("temperature_c", "power_w", "used_bytes", "own_bytes", "others", "others_bytes")


def summary(states: Sequence[DeviceState]) -> DeviceState | None:
    """Return one state for many, as `DeviceState` says; None for none."""
    if not states:
        return None
    overs: dict[str, Any] = {name: _over(min, states, name) for name in _LOWEST}
    overs |= {name: _over(max, states, name) for name in _HIGHEST}
    reasons = [each.slowed_by for each in states if each.slowed_by is not None]
    slowed = sorted({reason for each in reasons for reason in each}) if reasons else None
    return DeviceState(**overs, highest_clock_hz=_over(max, states, "clock_hz"), slowed_by=slowed)


def _over(choose: Any, states: Sequence[DeviceState], name: str) -> Any:
    return choose((value for each in states if (value := getattr(each, name)) is not None), default=None)


def device_doubts(device_conditions: DeviceConditions) -> Iterable[str]:
    """Say what the device was seen to do that makes times suspect."""
    during, before = device_conditions.during, device_conditions.before
    faults = [reason for reason in (during.slowed_by if during else None) or [] if reason not in STATED]
    if faults:
        yield f"throttled: the device reported {', '.join(reason.replace('_', ' ') for reason in faults)}"
    if during and during.clock_hz and during.highest_clock_hz:
        low, high = during.clock_hz, during.highest_clock_hz
        if low < (1 - CLOCK_FELL) * high:
            yield f"throttled: the device's clock fell from {high / 1e6:.0f} to {low / 1e6:.0f} MHz within the series"
    others = max((state.others or 0 for state in (before, during, device_conditions.after) if state), default=0)
    if others:
        word = "process" if others == 1 else "processes"
        yield f"{others} other {word} used the device"
    if device_conditions.time_ratio is not None and device_conditions.time_ratio > LONGER:
        yield f"the device's clock says that calls took {device_conditions.time_ratio:.2f} times what the host's says: not all was waited for"
