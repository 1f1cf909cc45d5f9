"""How much the error of one prediction says about that of another: the covariance of errors between rows.

Errors on a device that training never saw hang together: all of them by the device, those of one software
configuration more, of neighbouring versions nearly as much, and those of like work by what the work consists of. The
figures below are spreads in log units; they were chosen by how well a few rows of each of timm's GPUs predicted the
others, and are round.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Names, Table

__all__ = ["Kin", "covariance", "kin_of", "own_variance", "version_steps"]

AXES: dict[tuple[str, ...], float] = {
    ("balance",): 1.5,
    ("log_batch",): 1.5,
    ("log_operators",): 0.6,
    ("launch_share",): 0.1,
    ("under_20us_share",): 0.25,
    ("compute_bound_share",): 0.3,
    ("cache_share",): 0.3,
    ("time_share.depthwise",): 0.1,
    ("time_share.grouped",): 0.15,
    ("time_share.attention", "time_share.bmm", "time_share.softmax"): 0.1,
    ("time_share.norm",): 0.08,
    ("time_share.elementwise",): 0.12,
    ("time_share.copy",): 0.1,
    ("time_share.conv",): 0.2,
    ("time_share.conv1x1",): 0.15,
    ("time_share.mm",): 0.25,
}
"""What work is compared by: sums of features, each in its unit (about its spread over models)."""
SLOPES = {0: (0.08, 0.05), 3: (0.04, 0.06), 7: (0.03, 0.03), 8: (0.03, 0.03), 9: (0.03, 0.08), 10: (0.03, 0.03)}
"""On which axes errors may rise or fall straight: spread of the slope over devices, and over configurations of one."""
DEVICE, SOFTWARE, MODEL = 0.15, 0.1, 0.12
SEEN = 0.3
"""A device or a model that trained has this share of the spread of one that did not."""
VERSIONS = 6.0
"""Minor versions over which a configuration forgets."""
OTHER_LAYOUT, OTHER_MODE, OTHER_PRECISION = 0.5, 0.3, 0.3
REACH = 2.0
MINORS = 14
"""Minor versions that a major one counts as: torch went from 1.13 to 2.0."""


class Kin(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What of rows decides how alike their errors are; one entry a row. `device` and `model` are 1 where new."""

    axes: Matrix
    hardware: Names
    precision: Names
    compiled: Names
    layout: Names
    version: Array
    architecture: Names
    new_device: Array
    new_model: Array

    def take(self, chosen: NDArray[np.intp]) -> Kin:
        """Return the chosen rows."""
        return Kin(**{name: getattr(self, name)[chosen] for name in self.__struct_fields__})


@lru_cache(maxsize=1024)
def version_steps(version: str) -> float:
    """Return a version as minor versions since zero, so that 1.13 and 2.0 are neighbours; 0 where unknown."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return float(int(match[1]) * MINORS + int(match[2])) if match else 0.0


def kin_of(table: Table, devices: Collection[str], models: Collection[str]) -> Kin:
    """Return what decides kinship of a table's rows; `devices` and `models` (architectures) are those that trained."""
    axes, values = np.zeros((len(table), len(AXES))), np.nan_to_num(table.values)
    for place, (names, unit) in enumerate(AXES.items()):
        for name in names:
            if name in table.names:
                axes[:, place] += values[:, table.names.index(name)] / unit
    rows = table.rows
    return Kin(
        axes=axes,
        hardware=np.array([f"{row.hardware}/{row.platform}" for row in rows], dtype=str),
        precision=np.array([f"{row.runtime}/{row.precision}/{row.mode}" for row in rows], dtype=str),
        compiled=np.array([str(row.compiled) for row in rows], dtype=str),
        layout=np.array([str(row.channels_last) for row in rows], dtype=str),
        version=np.array([version_steps(row.runtime_version) for row in rows]),
        architecture=table.architecture,
        new_device=np.array([SEEN if row.hardware in devices else 1.0 for row in rows]),
        new_model=np.array([SEEN if name in models else 1.0 for name in table.architecture]),
    )


def covariance(kin: Kin, other: Kin, centre: Array) -> tuple[Matrix, Matrix, Matrix]:
    """Return the parts of the covariance between rows: levels, straight slopes about `centre`, and bends."""
    device = np.equal.outer(kin.hardware, other.hardware) * np.outer(kin.new_device, other.new_device)
    software = (
        np.exp(-np.abs(np.subtract.outer(kin.version, other.version)) / VERSIONS)
        * np.where(np.equal.outer(kin.layout, other.layout), 1.0, OTHER_LAYOUT)
        * np.where(np.equal.outer(kin.compiled, other.compiled), 1.0, OTHER_MODE)
        * np.where(np.equal.outer(kin.precision, other.precision), 1.0, OTHER_PRECISION)
    )
    model = np.equal.outer(kin.architecture, other.architecture) * np.outer(kin.new_model, other.new_model)
    levels = device * (DEVICE**2 + SOFTWARE**2 * software) + MODEL**2 * model
    slopes = np.zeros_like(levels)
    for axis, (wide, narrow) in SLOPES.items():
        product = np.outer(kin.axes[:, axis] - centre[axis], other.axes[:, axis] - centre[axis])
        slopes += (wide**2 + narrow**2 * software) * product
    squares = np.add.outer((kin.axes**2).sum(axis=1), (other.axes**2).sum(axis=1)) - 2 * kin.axes @ other.axes.T
    bends = (1 + 0.5 * software) * np.exp(-np.maximum(squares, 0.0) / (kin.axes.shape[1] * REACH**2))
    return levels, device * slopes, device * bends


def own_variance(kin: Kin, centre: Array) -> tuple[Array, Array, Array]:
    """Return the diagonals of the parts of the covariance of rows with themselves."""
    device = kin.new_device**2
    levels = device * (DEVICE**2 + SOFTWARE**2) + MODEL**2 * kin.new_model**2
    slopes = np.zeros(len(device))
    for axis, (wide, narrow) in SLOPES.items():
        slopes += (wide**2 + narrow**2) * (kin.axes[:, axis] - centre[axis]) ** 2
    return levels, device * slopes, device * 1.5
