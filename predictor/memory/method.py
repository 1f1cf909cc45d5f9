"""Learn peak memory: lines of weights and activations, and a Gaussian process over what they leave.

The process sees what kind of work it is and where it runs, so that a model takes after its like on the same runtime and
device. How far off it is was measured with each model left out, and gives intervals and the chance that a need fits.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Table
from predictor.learning.method import Prediction
from predictor.memory.lines import Lines, fit_lines, parts_of

__all__ = ["SPARED", "SURE", "MemoryFitted", "MemoryMethod"]

MOST_ROWS = 1000
SIZES = 8
"""The first facts are logs of sizes, the others shares."""
SHARE_SPREAD = 0.4
"""Shares are distinguished on this scale, sizes on the scale of their own spread."""
REACH = 1.5
"""Distance of facts over which models are alike."""
# Variances in squared log units, chosen on AI Hub's rows with models left out.
ALIKE, ALIKE_RUNTIME, ALIKE_PLACE = 0.15, 0.15, 0.15
NOISE = 0.06
ODD = 0.3
ROUNDS = 3
USUAL = 0.3
"""The standard deviation of a usual row, in log units: difficulty 1."""
SURE, SPARED = 0.95, 0.8
"""Found on first-party peaks of models left out; timm's lowered batches were looked at afterwards."""
NORMAL_MODELS = 5.0
"""As many models of a normal distribution stand beside the measured errors in the chance of fitting."""

_NORMAL_SAMPLE = np.array([NormalDist().inv_cdf((index + 0.5) / 99) for index in range(99)])

Codes = NDArray[np.intp]


class _Seen(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the process sees of rows: facts on a common scale, and which runtime and which device it was."""

    facts: Matrix
    runtime: Codes
    place: Codes


class MemoryMethod:
    """Peak memory from traces; see `MemoryFitted`."""

    name = "memory"

    def fit(self, table: Table) -> MemoryFitted:
        """Return what the rows teach; of more than can be solved every n-th is taken."""
        if len(table) > MOST_ROWS:
            table = table.take(np.linspace(0, len(table) - 1, MOST_ROWS).astype(np.intp))
        return MemoryFitted(table)


class MemoryFitted:
    """Predicts the peak memory of traced work."""

    def __init__(self, table: Table) -> None:
        """Take a table of at most some thousand rows; an empty one leaves what holds for any runtime."""
        self._table = table
        self._numbers: dict[object, int] = {}
        sizes = table.values[:, :SIZES]
        self._centre = sizes.mean(axis=0) if len(table) else np.zeros(SIZES)
        self._spread = np.maximum(sizes.std(axis=0), 0.5) if len(table) else np.ones(SIZES)
        self.lines: Lines = fit_lines(table.rows, *_bytes(table), table.measured)
        self._seen = self._sight(table)
        deviations = np.log(table.measured) - self._by_lines(table)
        covariance = _covariance(self._seen, self._seen)
        noise = np.full(len(table), NOISE)
        for _ in range(ROUNDS):
            self._inverse: Matrix = np.asarray(np.linalg.inv(covariance + np.diag(noise)))
            self._solved: Array = self._inverse @ deviations
            last, noise = noise, NOISE / np.clip(ODD / np.maximum(np.abs(noise * self._solved), 1e-9), 0.1, 1.0) ** 2
        self._scores, self._weights = self._left_out(last)

    def predict(self, table: Table) -> Prediction:
        """Return log(need / prior) and difficulties."""
        seen = self._sight(table)
        across = _covariance(seen, self._seen)
        own = ALIKE + ALIKE_RUNTIME + ALIKE_PLACE
        left = np.maximum(own - ((across @ self._inverse) * across).sum(axis=1), 0.0)
        need = self._by_lines(table) + across @ self._solved
        return Prediction(residual=need - np.log(table.prior), difficulty=np.sqrt(left + NOISE) / USUAL)

    def adapted(self, shots: Table) -> MemoryFitted:
        """Return what is known with these rows too."""
        return MemoryMethod().fit(self._table.joined(shots))

    def chance(self, table: Table, room_bytes: Array, predicted: Prediction | None = None) -> Array:
        """Return the chance, 0 to 1, that each row needs no more than its room.

        By how far off the needs of models were that took no part; where few models are known a normal distribution
        of the process's own width stands beside them. More than `SURE` is said only where the same would be said of
        a share `SPARED` of the room: a reader who sees a sure fit does not check it.
        """
        predicted = predicted or self.predict(table)
        need = predicted.residual + np.log(table.prior)
        room = np.log(room_bytes)
        far, spared = ((item - need) / predicted.difficulty for item in (room, room + math.log(SPARED)))
        return np.minimum(self._reached(far), np.maximum(self._reached(spared), SURE))

    def _reached(self, far: Array) -> Array:
        """Return the share of errors, in units of difficulty, that are not above each of these."""
        order = np.argsort(self._scores, kind="stable")
        reached = np.concatenate([[0.0], np.cumsum(self._weights[order])])
        models = float(reached[-1])
        counted = reached[np.searchsorted(self._scores[order], far, side="right")]
        return np.asarray((counted + NORMAL_MODELS * _normal(far / USUAL)) / (models + NORMAL_MODELS), dtype=np.float64)

    def reach(self, nominal: float) -> float:
        """Return the half-width, in log units at difficulty 1, that covers a share of the models left out.

        As many models of the process's own width as stand in `chance` stand here.
        """
        normal = USUAL * np.abs(_NORMAL_SAMPLE)
        errors = np.concatenate([np.abs(self._scores), normal])
        weights = np.concatenate([self._weights, np.full(len(normal), NORMAL_MODELS / len(normal))])
        order = np.argsort(errors, kind="stable")
        reached = np.cumsum(weights[order]) / weights.sum()
        return float(errors[order[min(int(np.searchsorted(reached, nominal)), len(errors) - 1)]])

    def _by_lines(self, table: Table) -> Array:
        weights, activations = _bytes(table)
        return np.log(
            [
                self.lines.of(row, weight, activation)
                for row, weight, activation in zip(table.rows, weights.tolist(), activations.tolist(), strict=True)
            ]
        )

    def _sight(self, table: Table) -> _Seen:
        sizes = (table.values[:, :SIZES] - self._centre) / self._spread
        parts = [parts_of(row) for row in table.rows]
        return _Seen(
            facts=np.hstack([sizes, table.values[:, SIZES:] / SHARE_SPREAD]),
            runtime=self._numbered([part[-3] for part in parts]),
            place=self._numbered([part[-2] for part in parts]),
        )

    def _numbered(self, values: list[tuple[object, ...]]) -> Codes:
        return np.array([self._numbers.setdefault(value, len(self._numbers)) for value in values], dtype=np.intp)

    def _left_out(self, noise: Array) -> tuple[Array, Array]:
        """Return errors in units of difficulty with each row's model left out, and weights: one for each model."""
        scores, weights = np.zeros(len(noise)), np.zeros(len(noise))
        for name in np.unique(self._table.architecture):
            here = np.flatnonzero(self._table.architecture == name)
            apart = np.linalg.inv(self._inverse[np.ix_(here, here)])
            deviation = np.sqrt(np.maximum(np.diag(apart) - noise[here], 0.0) + NOISE)
            scores[here] = apart @ self._solved[here] / (deviation / USUAL)
            weights[here] = 1 / len(here)
        return scores, weights


def _bytes(table: Table) -> tuple[Array, Array]:
    return np.exp(table.column("weights")), np.exp(table.column("activations"))


def _covariance(item: _Seen, other: _Seen) -> Matrix:
    runtime = np.asarray(item.runtime[:, None] == other.runtime[None], dtype=np.float64)
    place = np.asarray(item.place[:, None] == other.place[None], dtype=np.float64)
    squares = np.square(item.facts).sum(axis=1)[:, None] + np.square(other.facts).sum(axis=1)[None]
    alike = np.exp(-0.5 * np.maximum(squares - 2 * item.facts @ other.facts.T, 0.0) / REACH**2)
    return np.asarray(alike * (ALIKE + ALIKE_RUNTIME * runtime + ALIKE_PLACE * place))


def _normal(values: Array) -> Array:
    return np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in values.tolist()], dtype=np.float64)
