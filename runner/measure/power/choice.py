"""Which meter a platform's work is measured by: that of the device that does it, else none; never that of another."""

from __future__ import annotations

import sys

from runner.measure.power.battery import find_battery
from runner.measure.power.meter import Meter, Unread
from runner.measure.power.powermetrics import find_powermetrics
from runner.measure.power.rapl import find_rapl

__all__ = ["host_meter"]


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
