"""Energy of a call: the power that a device draws at work, times how long the call takes.

Power is learned as a share of what the device is rated for, because few rows have it: the share of a device is shrunk
to that of its kind under the same load. Published figures are of whole systems, so a share may lie above 1. Where
nothing was measured, or a device's rating is not known, there is no answer. On a device that was measured with other
models the error is 16 %; of one that never was, the share of its kind says no more than its rating does (39 and 38 %,
`python -m research.other_targets power`), and the interval shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from domain.catalogues.hardware import HardwareSpec
from domain.vocabulary import NO_EVIDENCE
from predictor.features.operators_route import SpecOf
from predictor.learning.shrinkage import Nested

__all__ = ["Draw", "EnergyModel", "Power", "draw_from_row", "fit_energy"]

BETWEEN = 0.4
"""Spread of devices of a kind about it, in log units of the share."""
WITHIN = 0.3
"""Spread of systems and workloads with the same device."""
_NORMAL = {0.8: 1.2816, 0.9: 1.6449}


_BUSY = ("offline", "server", "serving")
"""Scenarios that keep a device busy; one call after another leaves most of a large one idle."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """What one row says of power: watts of all its devices together."""

    hardware: str
    scenario: str | None
    count: int
    power_w: float


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Watts with an interval, the energy of a call in joules where its time is given, and on how many rows it rests."""

    power_w: float
    low_w: float
    high_w: float
    energy_j: float | None
    rows: int
    own_rows: int


class EnergyModel(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of rated power by kind, load and device."""

    shares: Nested

    def power(
        self,
        hardware: str,
        spec_of: SpecOf,
        *,
        count: int = 1,
        scenario: str | None = None,
        latency_ms: float | None = None,
        nominal: float = 0.8,
    ) -> Power | None:
        """Return what devices at work draw; None where their rating is not known, or none of their kind was measured."""
        spec = spec_of(hardware)
        if spec is None or spec.power_w is None:
            return None
        path = _path(spec, scenario)
        if "/".join(path[:2]) not in self.shares.groups:
            return None
        result = self.shares.at(path)
        own = self.shares.groups.get("/".join(path))
        watts = math.exp(result.mean) * float(spec.power_w.value) * count
        reach = _NORMAL[nominal] * math.hypot(result.spread, self.shares.within)
        return Power(
            power_w=watts,
            low_w=watts * math.exp(-reach),
            high_w=watts * math.exp(reach),
            energy_j=None if latency_ms is None else watts * latency_ms / 1e3,
            rows=result.rows,
            own_rows=own.rows if own is not None else 0,
        )


def draw_from_row(row: Mapping[str, Any]) -> Draw | None:
    """Return what a row of the view `measurements` says of power; None where it says nothing that may teach.

    What counts is the verdict on energy and power, which is not that on the row's times.
    Power comes as such, or as the energy of a call over its time.
    """
    if row.get("origin") in NO_EVIDENCE or row.get("energy_verdict") == "invalid":
        return None
    if row.get("origin") == "measured" and row.get("energy_verdict") != "valid":
        return None
    watts = row.get("power_w")
    time_ms = row.get("latency_mean_ms") or row.get("latency_p50_ms") or row.get("latency_p90_ms")
    if watts is None and row.get("energy_j") and time_ms:
        watts = row["energy_j"] / time_ms * 1e3
    if not watts or not math.isfinite(watts) or watts <= 0:
        return None
    return Draw(
        hardware=row["hardware_id"],
        scenario=row.get("scenario"),
        count=int(row.get("hardware_count") or 1),
        power_w=float(watts),
    )


def fit_energy(draws: Iterable[Draw], spec_of: SpecOf) -> EnergyModel | None:
    """Return shares of rated power; None where no row has both a power and a device whose rating is known."""
    shares: list[float] = []
    paths: list[tuple[str, ...]] = []
    for draw in draws:
        spec = spec_of(draw.hardware)
        if spec is None or spec.power_w is None:
            continue
        shares.append(math.log(draw.power_w / (draw.count * float(spec.power_w.value))))
        paths.append(_path(spec, draw.scenario))
    if not shares:
        return None
    return EnergyModel(shares=Nested.fitted(np.array(shares), paths, between=BETWEEN, within=WITHIN))


def _path(spec: HardwareSpec, scenario: str | None) -> tuple[str, ...]:
    return (spec.kind or "-", "busy" if scenario in _BUSY else "one at a time", spec.id)
