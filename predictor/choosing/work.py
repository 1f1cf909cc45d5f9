"""A piece of work that many deployments were measured on, what is asked of it, and what is true of the answers."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array

__all__ = ["Need", "Work"]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to the first token and between tokens at the most, and how many requests are in work at once."""

    ttft_s: float
    tpot_s: float
    users: int


class Work(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One model with so many tokens in and out; one entry a load, which is a deployment under a concurrency.

    `machine` numbers devices and how many of them (`machines` names them), `deployment` also tells engine, precision
    and layout apart. `usd_per_hour` is that of one deployment; `ttft_s` and `tpot_s` were measured.
    """

    model: str
    machines: tuple[str, ...]
    machine: NDArray[np.intp]
    deployment: NDArray[np.intp]
    concurrency: Array
    usd_per_hour: Array
    ttft_s: Array
    tpot_s: Array

    def __len__(self) -> int:
        return len(self.concurrency)

    def copies(self, users: int) -> Array:
        """Return how many copies of each deployment serve so many requests, each under its load's concurrency."""
        return np.asarray(np.ceil(users / self.concurrency), dtype=np.float64)

    def costs(self, users: int) -> Array:
        """Return USD an hour of each load's copies."""
        return self.copies(users) * self.usd_per_hour

    def meets(self, need: Need) -> NDArray[np.bool_]:
        """Return whether a load was measured within both limits."""
        return (self.ttft_s <= need.ttft_s) & (self.tpot_s <= need.tpot_s)

    def most(self, need: Need) -> Array:
        """Return by machine the highest concurrency at which one of its deployments was within the limits, or 0."""
        return self._highest(self.machine, len(self.machines), self.meets(need))

    def most_of_deployments(self, need: Need) -> Array:
        """Return the same by deployment."""
        return self._highest(self.deployment, int(self.deployment.max()) + 1, self.meets(need))

    def cheapest(self, need: Need) -> Array:
        """Return by machine USD an hour of what meets the need at the least cost; inf where nothing does."""
        full = np.full(len(self.machines), np.inf)
        good = self.meets(need)
        np.minimum.at(full, self.machine[good], self.costs(need.users)[good])
        return full

    def _highest(self, groups: NDArray[np.intp], count: int, good: NDArray[np.bool_]) -> Array:
        zeros = np.zeros(count)
        np.maximum.at(zeros, groups[good], self.concurrency[good])
        return zeros
