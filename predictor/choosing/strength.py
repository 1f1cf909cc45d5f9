"""How fast devices are beside each other at work of a model that nobody measured, from other models that were.

The logarithm of a speed is taken to be what the work adds and what the device adds. A device adds what its peak and its
bandwidth suggest, and what its rows say beyond that, the more the more there are of them. Work of the same kind as the
one asked about counts more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from domain.catalogues.hardware import HardwareSpec
from predictor.features.table import Array

__all__ = ["Speed", "facts_of", "strengths"]

OWN_PENALTY = 1.0
"""What a device adds beyond its facts is believed by half where one row of usual weight says it."""
PEAKS = ("int8", "fp8", "fp16", "bf16", "fp32")


class Speed(NamedTuple):
    """Items a second of one device at one work; `weight` is how much the row counts."""

    work: str
    device: str
    per_s: float
    weight: float = 1.0


def facts_of(spec: HardwareSpec | None) -> tuple[float, float] | None:
    """Return the logarithms of the highest peak (FLOP/s) and of the bandwidth (bytes/s); None where one is not known."""
    if spec is None:
        return None
    peaks = [figure.value for name in PEAKS if (figure := spec.peak(name)) is not None]
    width = spec.memory_bandwidth_bytes_per_s or spec.sustained_bandwidth_bytes_per_s
    return (math.log(max(peaks)), math.log(width.value)) if peaks and width is not None else None


def strengths(
    rows: Sequence[Speed], facts: Mapping[str, tuple[float, float] | None], names: Sequence[str]
) -> dict[str, float]:
    """Return for each device that is asked about the logarithm of its speed, up to a summand that all of them share.

    Devices without rows have what their facts suggest, those without facts what their rows say; NaN without either.
    """
    works = sorted({row.work for row in rows})
    devices = sorted({row.device for row in rows} | set(names))
    centre = np.mean([fact for name in devices if (fact := facts.get(name)) is not None] or [(0.0, 0.0)], axis=0)
    columns = len(works) + len(devices) + 3
    design = np.zeros((len(rows), columns))
    for index, row in enumerate(rows):
        design[index, works.index(row.work)] = 1.0
        design[index, len(works) :] = _device(row.device, devices, facts, centre)
    weights = np.array([row.weight for row in rows])
    penalty = np.array([1e-6] * len(works) + [OWN_PENALTY] * len(devices) + [1e-2, 1e-2, 1e-2])
    target = np.array([math.log(row.per_s) for row in rows])
    solved = np.linalg.solve(design.T @ (weights[:, None] * design) + np.diag(penalty), design.T @ (weights * target))[
        len(works) :
    ]
    measured = {row.device for row in rows}
    return {
        name: float(_device(name, devices, facts, centre) @ solved)
        if name in measured or facts.get(name) is not None
        else math.nan
        for name in names
    }


def _device(name: str, devices: Sequence[str], facts: Mapping[str, tuple[float, float] | None], centre: Array) -> Array:
    own = np.zeros(len(devices) + 3)
    own[devices.index(name)] = 1.0
    fact = facts.get(name)
    own[-3:] = (1.0, 0.0, 0.0) if fact is None else (0.0, *(np.array(fact) - centre))
    return own
