"""A Gaussian process over what one device's figures add to the levels that its siblings give.

What is alike deviates alike: software configurations that shift the siblings in the same way, pieces on which the
siblings differ in the same way. Weights on siblings and shifts of software come out of the same sum, so that ten
figures on a device correct everything else that was ever measured on others. Saying which platform or model a piece is
of added nothing beside that when it was tried; which software it ran does where few siblings ran it.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix

__all__ = ["DEVICE", "DEVICE_WITH_FIGURES", "SCATTER", "Posterior", "View"]

# Standard deviations in log units, chosen on AI Hub's devices; a search on either half of them did as well on the other.
DEVICE = 0.7
DEVICE_WITH_FIGURES = 0.35
"""How far a device is off what its siblings say: of one that a data sheet compares with them, half as far."""
LEVEL = 0.1
SIBLING_SHIFT = 0.5
SIBLING_PROFILE = 0.5
SOFTWARE = 0.3
"""How far a device shifts with a software configuration apart from its siblings, where a single sibling ran it: of many
siblings the shifts tell, and this falls with the root of their number."""
OPTIONS = 0.3
"""How far a device shifts with a value of an option that was switched, with any software (flash attention, for one)."""
ALIKE = 0.15
ALIKE_WITHIN = 0.6
NOISE = 0.08
SCATTER = 0.3
"""The share of the siblings' own scatter on a piece that a device adds to the noise."""
ODD = 1.9
"""Standard deviations beyond which a figure is odd and counts less."""
ROUNDS = 6
FEWEST_WEIGHT = 1e-2
USUAL_SHOTS = 10
"""As many shots of a usual device stand beside a device's own when the error of its figures is stated."""
NORMAL_80 = 1.2816


class View(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the process sees of rows, one entry a row: levels, and shifts, profiles and scatter of siblings, all
    in log units; levels of one `scale` can be compared. `device` is DEVICE or DEVICE_WITH_FIGURES.

    `options` (rows, values) is 1 where a row has the value of a switched option; `software` numbers software
    configurations, and `rare` is one over the root of how many siblings ran it.
    """

    level: Array
    shift: Matrix
    profile: Matrix
    scatter: Array
    scale: NDArray[np.intp]
    device: Array
    options: Matrix
    software: NDArray[np.intp]
    rare: Array

    def __len__(self) -> int:
        return len(self.level)

    @property
    def variance(self) -> Array:
        """Return the variance of a figure that the process cannot explain."""
        return np.asarray(NOISE**2 + np.square(SCATTER * self.scatter), dtype=np.float64)


def _covariance(view: View, other: View) -> Matrix:
    apart = (
        np.square(view.profile).sum(axis=1)[:, None]
        + np.square(other.profile).sum(axis=1)[None]
        - 2 * view.profile @ other.profile.T
        + np.square(0.1 * (view.level[:, None] - other.level[None]))
    )
    return np.asarray(
        np.outer(view.device, other.device) * (view.scale[:, None] == other.scale[None])
        + OPTIONS**2 * view.options @ other.options.T
        + SOFTWARE**2 * (view.software[:, None] == other.software[None]) * np.outer(view.rare, other.rare)
        + LEVEL**2 * np.outer(view.level, other.level) / 4
        + SIBLING_SHIFT**2 * view.shift @ other.shift.T
        + SIBLING_PROFILE**2 * view.profile @ other.profile.T
        + ALIKE**2 * np.exp(-0.5 * np.maximum(apart, 0.0) / ALIKE_WITHIN**2)
    )


class Posterior:
    """What one device's figures say of its others."""

    def __init__(self, shots: View, deviations: Array) -> None:
        """Take the rows that were measured on the device, and how far off their levels they were.

        Odd shots count less: a figure off by many standard deviations took another path through the software.
        """
        self._shots = shots
        covariance = _covariance(shots, shots)
        weights: Array = np.ones(len(shots))
        for _ in range(ROUNDS):
            self._inverse: Matrix = np.asarray(np.linalg.inv(covariance + np.diag(shots.variance / weights)))
            self._solved: Array = self._inverse @ deviations
            noise = shots.variance / weights
            far = np.abs(noise * self._solved)
            limit = ODD * np.sqrt(shots.variance)
            weights = np.clip(limit / np.maximum(far, 1e-9), FEWEST_WEIGHT, 1.0) ** 2
        self.scale = self._measured_scale(noise) if len(shots) else 1.0

    def of(self, view: View) -> tuple[Array, Array]:
        """Return mean and standard deviation of the asked rows' deviations from their levels."""
        across = _covariance(view, self._shots)
        left = np.maximum(_own(view) - np.einsum("ij,jk,ik->i", across, self._inverse, across, optimize=True), 0.0)
        return across @ self._solved, self.scale * np.sqrt(left + view.variance)

    def _measured_scale(self, noise: Array) -> float:
        """How far off shots are from what the others say of them, as a share of what was thought.

        A device on which nothing goes by the siblings is described by its own shots.
        """
        apart = 1 / np.diag(self._inverse)
        usual = np.sqrt(np.maximum(apart - noise, 0.0) + self._shots.variance)
        reach = float(np.quantile(np.abs(self._solved * apart) / usual, 0.8)) / NORMAL_80
        return (len(noise) * reach + USUAL_SHOTS) / (len(noise) + USUAL_SHOTS)


def _own(view: View) -> Array:
    """The covariance of each row with itself."""
    return np.asarray(
        np.square(view.device)
        + OPTIONS**2 * view.options.sum(axis=1)
        + ALIKE**2
        + SOFTWARE**2 * np.square(view.rare)
        + LEVEL**2 * np.square(view.level) / 4
        + SIBLING_SHIFT**2 * np.square(view.shift).sum(axis=1)
        + SIBLING_PROFILE**2 * np.square(view.profile).sum(axis=1)
    )
