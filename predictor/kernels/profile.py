"""What measured kernels say of a device as a whole: the shares of peak and bandwidth that it reaches, and its floor.

A profile corrects every answer about the device at once, because every model is a sum of kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from domain.performance.roofline import Limits
from domain.vocabulary import arithmetic_precision
from predictor.features.table import Array
from predictor.kernels.columns import Columns
from predictor.kernels.physics import Parameters, seconds_of
from predictor.kernels.rows import KernelRows
from predictor.learning.single_thread import single_threaded

__all__ = ["ANY", "DeviceProfile", "Place", "profile_at", "profiles_of", "under"]

Place = tuple[str, str, str]
"""(hardware, platform, arithmetic precision); ANY in the place of the last is every precision without kernels of its own."""
ANY = ""
_ALIKE = {"fp16": "bf16", "bf16": "fp16"}
"""Precisions whose arithmetic runs on the same units at the same rate, so that one stands in for the other."""

SPREADS = {"compute": 0.5, "traffic": 0.4, "floor": 1.5}
"""How far devices lie off what kernels of all devices say, in log units: what few kernels are held against."""
NOISE = 0.2
"""How far one kernel lies off its device, in log units."""
ODD = 0.3
"""Errors beyond as many log units count linearly."""
FEWEST = 5
"""With fewer kernels there is no profile."""


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What kernels of a device reach under a platform in one precision, as shares of what other devices reach of their data sheets.

    `compute` is of that precision alone, `traffic` and `floor_us` (the time of the smallest kernel, launch included) are of all
    kernels of the device. `kernels` is how many were measured, `spread` how far they lie off the profile in log units, and
    `before` how far they lay off without it.
    """

    compute: float
    traffic: float
    floor_us: float
    kernels: int
    spread: float
    before: float
    evidence: list[str] = []
    """Events of the kernels."""


def profile_at(
    profiles: Mapping[Place, DeviceProfile], hardware: str, platform: str, precision: str
) -> DeviceProfile | None:
    """Return the profile of a device in a precision; without kernels in it, bandwidth and floor alone; None without any."""
    if not profiles:
        return None
    arithmetic = arithmetic_precision(precision)
    for name in (arithmetic, _ALIKE.get(arithmetic, ANY), ANY):
        profile = profiles.get((hardware, platform, name))
        if profile is not None:
            return profile
    return None


def under(limits: Limits, profile: DeviceProfile) -> Limits:
    """Return limits with the peak and the bandwidth that the profile says."""
    return msgspec.structs.replace(
        limits,
        peak_flops=limits.peak_flops * profile.compute,
        bandwidth_bytes_per_s=limits.bandwidth_bytes_per_s * profile.traffic,
    )


class _Part(NamedTuple):
    """Kernels of one class in one precision; `place` is that of the precision among the fitted peaks."""

    name: str
    rows: KernelRows
    place: int


def profiles_of(
    rows: Mapping[str, Mapping[str, KernelRows]], parameters: Mapping[str, Parameters]
) -> dict[str, DeviceProfile]:
    """Return the profiles that kernels of one device teach, by arithmetic precision and for ANY other.

    `rows` are the kernels by arithmetic precision and class. Bandwidth and floor are fitted over all of them, the peak of each
    precision over its own. With fewer than FEWEST kernels there is no profile.
    """
    from scipy.optimize import least_squares  # Half a second of an import that few questions need.

    precisions = sorted(rows)
    used = [
        _Part(name, part, place)
        for place, precision in enumerate(precisions)
        for name, part in rows[precision].items()
        if name in parameters and len(part)
    ]
    count = sum(len(part.rows) for part in used)
    if count < FEWEST:
        return {}
    wanted = np.log(np.concatenate([part.rows.seconds for part in used]))
    floors = [parameters[part.name].floor_s(part.rows.columns.regime) for part in used]
    floor = float(np.median(np.concatenate(floors)))

    def times(shares: Array) -> Array:
        traffic, factor, *compute = np.exp(shares)
        return np.concatenate(
            [
                np.log(
                    seconds_of(
                        part.name,
                        _floored(parameters[part.name], floor * factor),
                        _scaled(part.rows.columns, compute[part.place], traffic),
                    )
                )
                for part in used
            ]
        )

    start = np.zeros(2 + len(precisions))
    before = times(start) - wanted
    spreads = np.array([SPREADS["traffic"], SPREADS["floor"], *[SPREADS["compute"]] * len(precisions)])
    weight = 1.0 / NOISE

    def errors(shares: Array) -> Array:
        return np.concatenate([weight * (times(shares) - wanted), shares / spreads])

    with single_threaded():
        fitted = least_squares(errors, start, loss="soft_l1", f_scale=ODD * weight).x
    traffic, factor, *compute = np.exp(fitted).tolist()
    other = DeviceProfile(
        compute=1.0,
        traffic=round(traffic, 6),
        floor_us=round(floor * factor * 1e6, 4),
        kernels=count,
        spread=round(_spread(times(fitted) - wanted), 4),
        before=round(_spread(before), 4),
    )
    own = {
        name: msgspec.structs.replace(other, compute=round(share, 6))
        for name, share in zip(precisions, compute, strict=True)
    }
    return {**own, ANY: other}


def _floored(parameters: Parameters, floor_s: float) -> Parameters:
    floors = dict.fromkeys(parameters.floors_us, floor_s * 1e6)
    return msgspec.structs.replace(parameters, floors_us=floors)


def _scaled(columns: Columns, compute: float, traffic: float) -> Columns:
    device = columns.device
    return msgspec.structs.replace(
        columns,
        device={
            **device,
            "peak": device["peak"] * compute,
            "bandwidth": device["bandwidth"] * traffic,
            # The rated power stays what it is: an operation of a slower device takes more of it.
            "power": device["power"] / compute,
        },
    )


def _spread(errors: Array) -> float:
    return math.sqrt(float(np.mean(np.square(errors))))
