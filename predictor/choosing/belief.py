"""What is believed of figures that nobody measured, and how one measurement changes what is believed of the others."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.choosing.chance import below
from predictor.features.table import Array, Matrix

__all__ = ["Belief"]


class Belief(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Logarithms of figures, normally distributed together; `mean` has one entry a figure, `covariance` one a pair."""

    mean: Array
    covariance: Matrix

    @property
    def spread(self) -> Array:
        """Return the standard deviation of each logarithm; 0 where the figure was measured."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def told(self, index: int, figure: float) -> Belief:
        """Return what is believed once one figure was measured; measuring it again changes nothing."""
        variance = self.covariance[index, index]
        if variance <= 1e-9:
            return self
        gain = self.covariance[:, index] / variance
        mean = self.mean + gain * (np.log(figure) - self.mean[index])
        covariance = self.covariance - np.outer(gain, self.covariance[index])
        mean[index] = np.log(figure)
        covariance[index], covariance[:, index] = 0.0, 0.0
        return Belief(mean=mean, covariance=covariance)

    def part(self, chosen: NDArray[np.intp]) -> Belief:
        """Return what is believed of some of the figures."""
        return Belief(mean=self.mean[chosen], covariance=self.covariance[np.ix_(chosen, chosen)])

    def chances(self, limit: float, widening: float = 1.0) -> Array:
        """Return the chance that each figure is at most `limit`; 1 or 0 where it was measured."""
        return below(np.log(limit) - self.mean, self.spread * widening)
