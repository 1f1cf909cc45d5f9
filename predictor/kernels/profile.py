"""What measured kernels say of a device as a whole: the shares of peak and bandwidth that it reaches, and its floor.

A profile corrects every answer about the device at once, because every model is a sum of kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from domain.performance.roofline import Limits
from predictor.features.table import Array
from predictor.kernels.columns import Columns
from predictor.kernels.physics import Parameters, seconds_of
from predictor.kernels.rows import KernelRows
from predictor.learning.single_thread import single_threaded

__all__ = ["DeviceProfile", "Place", "profile_of", "under"]

Place = tuple[str, str]
"""(hardware, platform)."""

SPREADS = {"compute": 0.5, "traffic": 0.4, "floor": 1.5}
"""How far devices lie off what kernels of all devices say, in log units: what few kernels are held against."""
NOISE = 0.2
"""How far one kernel lies off its device, in log units."""
ODD = 0.3
"""Errors beyond as many log units count linearly."""
FEWEST = 5
"""With fewer kernels there is no profile."""


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Of a device under a platform at one width of numbers: shares of what other devices reach of their data sheets.

    `floor_us` is the time of the smallest kernel, launch included; `kernels` is how many were measured, `spread` how far they
    lie off the profile in log units, and `before` how far they lay off without it.
    """

    compute: float
    traffic: float
    floor_us: float
    kernels: int
    spread: float
    before: float
    evidence: list[str] = []
    """Events of the kernels."""


def under(limits: Limits, profile: DeviceProfile) -> Limits:
    """Return limits with the peak and the bandwidth that the profile says."""
    return msgspec.structs.replace(
        limits,
        peak_flops=limits.peak_flops * profile.compute,
        bandwidth_bytes_per_s=limits.bandwidth_bytes_per_s * profile.traffic,
    )


def profile_of(rows: Mapping[str, KernelRows], parameters: Mapping[str, Parameters]) -> DeviceProfile | None:
    """Return the profile that kernels of one device teach, by class; None of fewer than FEWEST."""
    from scipy.optimize import least_squares  # Half a second of an import that few questions need.

    used = {name: part for name, part in rows.items() if name in parameters and len(part)}
    count = sum(len(part) for part in used.values())
    if count < FEWEST:
        return None
    wanted = np.log(np.concatenate([part.seconds for part in used.values()]))
    floor = float(np.median(np.concatenate([parameters[n].floor_s(p.columns.regime) for n, p in used.items()])))

    def times(shares: Array) -> Array:
        compute, traffic, factor = np.exp(shares)
        return np.concatenate(
            [
                np.log(
                    seconds_of(
                        name, _floored(parameters[name], floor * factor), _scaled(part.columns, compute, traffic)
                    )
                )
                for name, part in used.items()
            ]
        )

    before = times(np.zeros(3)) - wanted
    spreads = np.array(list(SPREADS.values()))
    weight = 1.0 / NOISE

    def errors(shares: Array) -> Array:
        return np.concatenate([weight * (times(shares) - wanted), shares / spreads])

    with single_threaded():
        fitted = least_squares(errors, np.zeros(3), loss="soft_l1", f_scale=ODD * weight).x
    compute, traffic, factor = np.exp(fitted).tolist()
    return DeviceProfile(
        compute=round(compute, 6),
        traffic=round(traffic, 6),
        floor_us=round(floor * factor * 1e6, 4),
        kernels=count,
        spread=round(_spread(times(fitted) - wanted), 4),
        before=round(_spread(before), 4),
    )


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
