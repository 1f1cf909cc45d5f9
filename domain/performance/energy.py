"""Energy of a series of calls: what a meter counted or integrated, less what the device draws at rest, and how far to believe it.

| rule | verdict |
| --- | --- |
| more than 3 s between two readings of the meter | invalid |
| the integral of its power is more than 5 % off its energy counter | suspect |
| the series lasted less than 20 times / 5 times the interval at which the meter renews its figures | suspect / invalid |
| the series drew less than the device at rest | suspect |

Thresholds and where they come from: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec

__all__ = ["Energy", "PowerReading", "doubts", "energy_of", "figures", "longest_gap_s", "per_item_j"]

LONGEST_GAP_S = 3.0
CROSS_CHECK = 0.05
FEW_UPDATES = 20
TOO_FEW_UPDATES = 5

Amount = Annotated[float, msgspec.Meta(ge=0)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class PowerReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a meter showed at one moment of the monotonic clock: power in W, or energy in J since some beginning, or both."""

    at_s: float
    power_w: float | None = None
    energy_j: float | None = None


class Energy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the energy of a series was read; `unread` is why it was not, and then nothing else is there.

    `scope` says whose energy it is. `counted_j` is the difference of the meter's counter over `seconds`, `integrated_j`
    the integral of its power over the same time; each is absent where the meter has no such figure. `idle_w` is the mean
    power of `idle_seconds` before the model was loaded. `update_s` is how often the meter renews its figures.
    """

    meter: str | None = None
    scope: str | None = None
    readings: Whole | None = None
    seconds: Amount | None = None
    longest_gap_s: Amount | None = None
    counted_j: Amount | None = None
    integrated_j: Amount | None = None
    update_s: Amount | None = None
    idle_w: Amount | None = None
    idle_seconds: Amount | None = None
    unread: str | None = None

    @property
    def joules(self) -> float | None:
        """The energy of the series in J: counted where the meter counts, else integrated."""
        return self.counted_j if self.counted_j is not None else self.integrated_j

    @property
    def power_w(self) -> float | None:
        """The mean power of the series in W."""
        return self.joules / self.seconds if self.joules is not None and self.seconds else None


def energy_of(
    readings: Sequence[PowerReading], *, meter: str, scope: str, update_s: float, idle: Energy | None = None
) -> Energy:
    """Return the energy between the first and the last reading; fewer than two give Unread."""
    if len(readings) < 2 or readings[-1].at_s <= readings[0].at_s:
        return Energy(unread=f"{meter} gave {len(readings)} readings; two are the fewest that bound a time")
    counted = _counted(readings)
    integrated = _integrated(readings)
    if counted is None and integrated is None:
        return Energy(unread=f"{meter} was there and showed neither power nor energy")
    return Energy(
        meter=meter,
        scope=scope,
        readings=len(readings),
        seconds=readings[-1].at_s - readings[0].at_s,
        longest_gap_s=longest_gap_s(readings),
        counted_j=counted,
        integrated_j=integrated,
        update_s=update_s,
        idle_w=idle.power_w if idle else None,
        idle_seconds=idle.seconds if idle else None,
    )


def longest_gap_s(readings: Sequence[PowerReading]) -> float:
    """Return the longest time between two readings that show something, in s; 0 for fewer than two."""
    shown = [each.at_s for each in readings if each.power_w is not None or each.energy_j is not None]
    return max((later - earlier for earlier, later in pairwise(shown)), default=0.0)


def _counted(readings: Sequence[PowerReading]) -> float | None:
    first, last = readings[0].energy_j, readings[-1].energy_j
    # A counter that fell was reset meanwhile: the driver was loaded again, or the battery was charged.
    return None if first is None or last is None or last < first else last - first


def _integrated(readings: Sequence[PowerReading]) -> float | None:
    """Return the integral of power by the trapezoidal rule; the ends are held where they show none."""
    shown = [(each.at_s, each.power_w) for each in readings if each.power_w is not None]
    if not shown:
        return None
    held = [(readings[0].at_s, shown[0][1]), *shown, (readings[-1].at_s, shown[-1][1])]
    return sum((later - earlier) * (low + high) / 2 for (earlier, low), (later, high) in pairwise(held))


def doubts(energy: Energy) -> tuple[str, list[str]]:
    """Return the verdict on energy and power, and why."""
    reasons: list[str] = []
    gap = energy.longest_gap_s
    if gap is not None and gap > LONGEST_GAP_S:
        return "invalid", [f"the power meter was not read for {gap:.1f} s"]
    if energy.seconds is not None and energy.update_s and energy.seconds < TOO_FEW_UPDATES * energy.update_s:
        return "invalid", [_short(energy.seconds, energy.update_s)]
    counted, integrated = energy.counted_j, energy.integrated_j
    if counted and integrated is not None and abs(integrated / counted - 1) > CROSS_CHECK:
        reasons.append(f"the integral of power is {integrated / counted:.0%} of what the energy counter says")
    if energy.seconds and energy.update_s and energy.seconds < FEW_UPDATES * energy.update_s:
        reasons.append(_short(energy.seconds, energy.update_s))
    power = energy.power_w
    if power is not None and energy.idle_w is not None and power < energy.idle_w:
        reasons.append(f"drew {power:.3g} W, less than the {energy.idle_w:.3g} W at rest")
    return ("suspect" if reasons else "valid"), reasons


def _short(seconds: float, update_s: float) -> str:
    return f"{seconds:.2g} s are short for a power meter that renews its figures every {update_s:.2g} s"


def figures(energy: Energy | None, *, calls: int, batch_size: int, tokens: int | None) -> dict[str, float]:
    """Return the metrics of energy; empty where none was read.

    `tokens` are the output tokens of one item. What is drawn at rest is part of `energy_j` and no part of
    `energy_above_idle_j`; it is absent where rest was not measured or drew more than the work.
    """
    joules, power = (energy.joules, energy.power_w) if energy else (None, None)
    if energy is None or joules is None or power is None or not calls:
        return {}
    call = joules / calls
    idle_ws = {"energy_j": call, "power_w": power, "energy_per_item_j": call / batch_size}
    if tokens:
        idle_ws["energy_per_token_j"] = call / batch_size / tokens
    if energy.idle_w is not None:
        idle_ws["idle_power_w"] = energy.idle_w
        if energy.idle_w < power:
            idle_ws["energy_above_idle_j"] = call * (1 - energy.idle_w / power)
    return idle_ws


def per_item_j(row: Mapping[str, Any]) -> float | None:
    """Return the energy of one item of a row of `measurements`: as it was said, or that of a call over its batch.

    None where its verdict is invalid, or where nobody says how many items a call has. A call of what is served is a request.
    """
    if row.get("energy_verdict") == "invalid":
        return None
    said, call = row.get("energy_per_item_j"), row.get("energy_j")
    if said is not None or call is None:
        return said
    items = row.get("batch_size") or (1 if row.get("concurrency") or row.get("arrival_rate_per_s") else None)
    return call / items if items else None
