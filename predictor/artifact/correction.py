"""What a few measurements say about the errors to come: kriging of log residuals, and how wide it leaves them.

Several guesses of the mean compete (the trees at several effective peaks, a sibling at several shares of what the trees
see) and several strengths of the covariance. Each combination is weighed by how likely it makes the measurements, and
predictions are their weighted mean. Odd rows are taken less seriously, as Student's distribution does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.conformal import COVERAGES, width
from predictor.features.table import Array, Matrix
from predictor.learning.covariance import Kin, covariance, own_variance

__all__ = ["Correction", "Guess"]

SLOPE_STRENGTHS = (0.0, 0.5, 1.0, 2.0)
BEND_SPREAD = 0.08
LOUDNESS = (0.65, 1.0, 1.6, 2.5)
"""How many times the usual noise is tried: another kind of device may differ from row to row more than those seen."""
FREEDOM = 4.0
ROUNDS = 4
BOLD_FROM = 8
"""Fewer models than this may agree by chance: they are not taken for a quiet device, nor for one with steep slopes."""
OFFSET_ONLY_BELOW = 3
"""With fewer models than this nothing but levels is learned: neither slopes nor another peak."""
NEGLIGIBLE = 0.02
_REFERENCE = tuple(
    2.0 * math.sqrt(math.cos(math.acos(math.sqrt(a)) / 3) / math.sqrt(a) - 1)
    for a in (1 - ((place + 0.5) / 20) ** 2 for place in range(20))
)
"""Twenty evenly likely sizes of a Student's error with 4 degrees of freedom: what scores are held to be beforehand."""


class Guess(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One guess of the mean at the measured rows (log residuals), and the log of how likely it is beforehand."""

    residual: Array
    doubt: float = 0.0


class _Solved(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One combination of a guess and the strengths of the covariance; `usual` is the noise of rows that are not odd."""

    guess: str
    slope: float
    pull: Array
    usual: Array
    noise: Array
    evidence: float


class Correction:
    """Kriging fitted on measured rows; `scores` are their errors, in expected spreads, with their model left out."""

    def __init__(
        self, kin: Kin, residual: Array, guesses: Mapping[str, Guess], *, noise: float, difficulty: Array
    ) -> None:
        """Fit on log residuals of measured rows; `noise` is what remains between rows of no kinship (log units)."""
        self.kin = kin
        self.models = len(set(kin.architecture.tolist()))
        self._centre = kin.axes.mean(axis=0)
        self._parts = covariance(kin, kin, self._centre)
        few = self.models < OFFSET_ONLY_BELOW
        slopes = (
            (0.0,)
            if few
            else tuple(
                slope_strength for slope_strength in SLOPE_STRENGTHS if slope_strength <= 1 or self.models >= BOLD_FROM
            )
        )
        loudness = (1.0,) if few else tuple(loud for loud in LOUDNESS if loud >= 1 or self.models >= BOLD_FROM)
        likely = max(guesses, key=lambda name: guesses[name].doubt)
        solved = [
            self._solved(name, residual - guess.residual, slope, guess.doubt, loud * noise * difficulty)
            for name, guess in guesses.items()
            if not few or name == likely
            for slope in slopes
            for loud in loudness
        ]
        best = max(item.evidence for item in solved)
        weights = np.exp(np.array([item.evidence for item in solved]) - best)
        weights /= weights.sum()
        self._solved_by_weight = sorted(
            ((float(weight), item) for weight, item in zip(weights, solved, strict=True) if weight > NEGLIGIBLE),
            key=lambda pair: -pair[0],
        )
        self.weights: dict[str, float] = {}
        for weight, value in self._solved_by_weight:
            self.weights[value.guess] = self.weights.get(value.guess, 0.0) + weight
        first = self._solved_by_weight[0][1]
        self._spread = self._sum(self._parts, first) + np.diag(first.noise**2)
        self._inverse = np.linalg.inv(self._spread)
        self._noise = float(np.mean(first.usual / difficulty))
        self.errors, self.scores = self._left_out(residual - guesses[first.guess].residual, first.usual)

    @staticmethod
    def _sum(parts: tuple[Matrix, Matrix, Matrix], item: _Solved) -> Matrix:
        return np.asarray(parts[0] + item.slope**2 * parts[1] + BEND_SPREAD**2 * parts[2], dtype=np.float64)

    def _solved(self, name: str, left: Array, slope: float, doubt: float, noise: Array) -> _Solved:
        kernel = self._parts[0] + slope**2 * self._parts[1] + BEND_SPREAD**2 * self._parts[2]
        weights = np.ones(len(left))
        for _ in range(ROUNDS):
            spread = kernel + np.diag(noise**2 / weights)
            pull, kept = np.asarray(np.linalg.solve(spread, left), dtype=np.float64), weights
            weights = (FREEDOM + 1) / (FREEDOM + ((left - kernel @ pull) / noise) ** 2)
        # The evidence of the reweighted normal, less what it costs to hold rows for odd.
        evidence = -0.5 * float(left @ pull) - 0.5 * float(np.linalg.slogdet(spread)[1])
        evidence -= 0.5 * FREEDOM * float((kept - np.log(kept)).sum())
        return _Solved(
            guess=name, slope=slope, pull=pull, usual=noise, noise=noise / np.sqrt(kept), evidence=evidence + doubt
        )

    def _left_out(self, left: Array, noise: Array) -> tuple[Array, Array]:
        """Errors of each row with all rows of its model left out, as they are and in units of the expected spread."""
        errors, scores = np.zeros(len(left)), np.zeros(len(left))
        pull = self._inverse @ left
        own = self._solved_by_weight[0][1].noise
        for name in sorted(set(self.kin.architecture.tolist())):
            out = np.flatnonzero(self.kin.architecture == name)
            block = np.linalg.inv(self._inverse[np.ix_(out, out)])
            errors[out] = block @ pull[out]
            variance = np.maximum(np.diag(block) - own[out] ** 2, 0.0) + noise[out] ** 2
            scores[out] = np.abs(errors[out]) / np.sqrt(variance)
        return errors, scores

    def corrected(self, kin: Kin, guesses: Mapping[str, Array], difficulty: Array) -> tuple[Array, Array]:
        """Return log residuals of other rows and the expected spread of their errors, in log units.

        `guesses` holds the means of those named in `weights`.
        """
        parts = covariance(kin, self.kin, self._centre)
        total = sum(weight for weight, _ in self._solved_by_weight)
        answer = np.zeros(len(kin.version))
        for weight, value in self._solved_by_weight:
            answer += weight / total * (guesses[value.guess] + self._sum(parts, value) @ value.pull)
        return answer, self._left(kin, parts, difficulty)

    def _left(self, kin: Kin, parts: tuple[Matrix, Matrix, Matrix], difficulty: Array) -> Array:
        """Return the spread that the measured rows leave of others, whose covariance with them is given."""
        solved_by_weight = self._solved_by_weight[0][1]
        across = self._sum(parts, solved_by_weight)
        levels, slopes, bends = own_variance(kin, self._centre)
        variance = levels + solved_by_weight.slope**2 * slopes + BEND_SPREAD**2 * bends
        einsum = np.einsum("ij,jk,ik->i", across, self._inverse, across)
        return np.asarray(
            np.sqrt(np.maximum(variance - einsum, 0.0) + (self._noise * difficulty) ** 2), dtype=np.float64
        )

    def reach(self) -> dict[float, float]:
        """Return how many spreads cover each nominal share: conformal, over the models measured and a reference."""
        scores = np.concatenate([self.scores, np.array(_REFERENCE)])
        names: Sequence[Any] = [*self.kin.architecture.tolist(), *(f" {place}" for place in range(len(_REFERENCE)))]
        return {nominal: width(scores, nominal, names) for nominal in COVERAGES}
