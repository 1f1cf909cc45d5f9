"""Learned predictions on a device that training never saw, corrected by a few measurements made there.

Trees are never fitted anew: the measurements choose the device's effective peak, and what is left of their errors is
carried over to other rows by kinship. Where the model was measured on a sibling device that measurement is the start
instead of the trees, in the share that the measurements speak for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.artifact.conformal import COVERAGES
from predictor.artifact.correction import Correction, Guess
from predictor.features.dataset import Row
from predictor.features.effective_peaks import PEAKS, at_peaks, doubt
from predictor.features.table import Array, Table
from predictor.learning.covariance import Kin, kin_of
from predictor.learning.method import Base, Prediction, Predictive
from predictor.learning.siblings import Matched, Siblings

__all__ = ["Calibrated", "CalibratedMethod", "LearnedBase", "MeasuredLimits", "PeakLimits", "few"]

TREE_NOISE, SIBLING_NOISE = 0.08, 0.06
"""What is left between rows of no kinship after correcting the trees, and after correcting a sibling; log units."""
SHARES = (0.0, 0.3, 0.6, 1.0)
"""Shares that are tried of the difference which the trees see between a row and its sibling."""
UNMEASURED_SHARE = 0.6
"""The share where nothing was measured to choose it by."""
MOST = 300
"""Rows that a calibration rests on at the most: its cost grows with their cube, and it is made while someone waits."""
SIBLINGS_FROM = 3
"""With fewer measured rows that have siblings, siblings are not used."""


class LearnedBase:
    """What was learned, and from what: the base of every calibration."""

    def __init__(
        self,
        fitted: Predictive,
        table: Table,
        devices: Collection[str] | None = None,
        models: Collection[str] | None = None,
    ) -> None:
        """Take what learned and the rows among which siblings are looked for.

        `devices` and `models` (architectures) are those that trained: the table's, where it is what was learned from.
        """
        self.fitted = fitted
        self.siblings = Siblings(table)
        self._devices = {row.hardware for row in table.rows} if devices is None else devices
        self._models = set(table.architecture.tolist()) if models is None else models

    def kin(self, table: Table) -> Kin:
        """Return what decides kinship of the rows of a table."""
        return kin_of(table, self._devices, self._models)

    def predict(self, table: Table) -> Prediction:
        """Return what was learned; on a device that did not train, beside a sibling device's measurement if there is one."""
        learned = self.fitted.predict(table)
        return msgspec.structs.replace(learned, residual=self.unmeasured(table, learned.residual))

    def unmeasured(self, table: Table, learned: Array) -> Array:
        """Return the log residuals where no measurement of the device tells more; `learned` is what the trees say."""
        new = np.array([row.hardware not in self._devices for row in table.rows], dtype=bool)
        if not new.any():
            return learned
        matched = self.siblings.matched(table, self.fitted, learned)
        return np.where(new & matched.found, matched.residual_at(UNMEASURED_SHARE), learned)

    def adapted(self, shots: Table) -> Calibrated:
        """Return predictions corrected by measured rows. Raises ValueError where there are none."""
        return Calibrated(self, shots)

    def limits(self, shots: Table, learned: Array) -> MeasuredLimits:  # noqa: ARG002
        """Return the limits of the device that are tried, and how likely each is; `learned` is what was learned of the rows."""
        return PeakLimits(self.fitted)

    def guesses(
        self, names: Sequence[str], table: Table, learned: Array, matched: Matched | None, limits: MeasuredLimits
    ) -> dict[str, Array]:
        """Return the log residuals of the rows by each named guess; those that cannot be made of these rows are left out."""
        siblings = {} if matched is None else {name: matched for name in names if name.startswith("sibling ")}
        made = limits.residuals([name for name in names if not name.startswith("sibling ")], table, learned)
        return made | {name: rows.residual_at(float(name.split(" ")[1])) for name, rows in siblings.items()}


class MeasuredLimits(Protocol):
    """Limits of a device that are tried against measured rows, by the names of the guesses that they make."""

    @property
    def guesses(self) -> Mapping[str, float]:
        """The log of how likely each is before anything was measured."""
        ...

    def peak(self, name: str) -> float:
        """Return the share of the stated peak in a guess."""
        ...

    def residuals(self, names: Sequence[str], table: Table, learned: Array) -> dict[str, Array]:
        """Return the log residuals of the rows under each named guess; those that cannot be made of these rows are left out."""
        ...


class PeakLimits:
    """Several shares of the stated peak, under each of which the trees are asked again."""

    def __init__(self, fitted: Predictive) -> None:
        """Take what was learned."""
        self._fitted = fitted
        self.guesses: dict[str, float] = {f"peak {share}": doubt(share) for share in PEAKS}

    def peak(self, name: str) -> float:
        """Return the share of the stated peak in a guess."""
        return float(name.split(" ")[1])

    def residuals(self, names: Sequence[str], table: Table, learned: Array) -> dict[str, Array]:
        """Return what the trees say at each peak; of rows without traces at the stated one alone.

        All peaks are asked at once, which takes little longer than one.
        """
        made = {name: learned for name in names if self.peak(name) == 1.0}
        others = [name for name in names if name not in made]
        moved = at_peaks(table, [self.peak(name) for name in others]) if others else None
        if moved is not None:
            residual = self._fitted.predict(moved).residual + np.log(moved.prior)
            each = np.split(residual, len(others))
            made |= {name: np.asarray(part - np.log(table.prior)) for name, part in zip(others, each, strict=True)}
        return {name: made[name] for name in names if name in made}


class Calibrated:
    """Predictions corrected by measured rows of one or several devices (or models): their `shots`."""

    def __init__(self, context: LearnedBase, shots: Table) -> None:
        """Fit the corrections; the shots of all software configurations of a device help each other.

        Of more than `MOST` some of each software configuration are taken, other models before other rows of a model.
        """
        if not len(shots):
            raise ValueError("a calibration needs at least one measured row")
        shots = shots.take(few(shots.rows))
        self._known = context
        self.shots = shots
        self._places = {(row.hardware, row.platform) for row in shots.rows}
        kin, learned = context.kin(shots), context.fitted.predict(shots)
        self.limits = context.limits(shots, learned.residual)
        plain = max(self.limits.guesses, key=lambda name: self.limits.guesses[name])
        self.trees = self._fit(shots, kin, learned, list(self.limits.guesses), None, TREE_NOISE)
        self.left_out = self.trees.errors.copy()
        """Log error of each shot with all shots of its model left out."""
        self.reference: Correction | None = None
        matched = context.siblings.matched(shots, context.fitted, learned.residual)
        chosen = np.flatnonzero(matched.found)
        if len(chosen) >= SIBLINGS_FROM:
            some = shots.take(chosen)
            self.reference = self._fit(
                some,
                kin.take(chosen),
                Prediction(residual=learned.residual[chosen], difficulty=learned.difficulty[chosen]),
                [*(f"sibling {share}" for share in SHARES), plain],
                matched.take(chosen),
                SIBLING_NOISE,
            )
            self.left_out[chosen] = self.reference.errors

    def _fit(
        self, shots: Table, kin: Kin, learned: Prediction, names: list[str], matched: Matched | None, noise: float
    ) -> Correction:
        guesses: dict[str, Guess] = {}
        for name, residual in self._known.guesses(names, shots, learned.residual, matched, self.limits).items():
            before = self.limits.guesses.get(name, -math.log(len(SHARES)))
            guesses[name] = Guess(residual=residual, doubt=before)
        return Correction(kin, shots.residual, guesses, noise=noise, difficulty=np.sqrt(learned.difficulty))

    @property
    def effective_peak(self) -> float:
        """Return the share of its stated peak that the device reaches, as far as the measurements tell."""
        parts = [(self.limits.peak(name), weight) for name, weight in self.trees.weights.items()]
        return float(
            np.exp(sum(weight * np.log(share) for share, weight in parts) / sum(weight for _, weight in parts))
        )

    def predict(
        self,
        table: Table,
        siblings: Siblings | None = None,
        learned: Prediction | None = None,
        matched: Matched | None = None,
    ) -> Prediction:
        """Return corrected residuals with the half-widths that the measurements leave.

        Rows of devices that no shot measured get what was learned, without widths (NaN). `siblings` are looked for
        instead of those that were known when the measurements were made; `learned` is what was learned of these rows, and
        `matched` are their siblings, where the caller has them already.
        """
        if learned is None:
            learned = self._known.fitted.predict(table)
        residual = learned.residual.copy()
        widths = {nominal: np.full(len(table), np.nan) for nominal in COVERAGES}
        here = np.array([(row.hardware, row.platform) in self._places for row in table.rows], dtype=bool)
        zeros = np.zeros(len(table), dtype=bool)
        if self.reference is not None and here.any():
            if matched is None:
                matched = (siblings or self._known.siblings).matched(table, self._known.fitted, learned.residual)
            zeros = here & matched.found
            self._correct(self.reference, table, matched, zeros, learned, residual, widths)
        self._correct(self.trees, table, None, here & ~zeros, learned, residual, widths)
        if not here.all():
            residual[~here] = self._known.unmeasured(table.take(~here), learned.residual[~here])
        return Prediction(residual=residual, difficulty=learned.difficulty, widths=widths)

    def _correct(
        self,
        correction: Correction,
        table: Table,
        matched: Matched | None,
        chosen: NDArray[np.bool_],
        learned: Prediction,
        residual: Array,
        widths: dict[float, Array],
    ) -> None:
        """Write the chosen rows' corrected residuals and half-widths."""
        place = np.flatnonzero(chosen)
        if not len(place):
            return
        some = table.take(place)
        kin = self._known.kin(some)
        matched = None if matched is None else matched.take(place)
        trees = learned.residual[place]
        guesses = self._known.guesses(list(correction.weights), some, trees, matched, self.limits)
        residual[place], spread = correction.corrected(kin, guesses, np.sqrt(learned.difficulty[place]))
        for nominal, reach in correction.reach().items():
            widths[nominal][place] = reach * spread

    def adapted(self, shots: Table) -> Calibrated:
        """Return the calibration by these measurements instead."""
        return Calibrated(self._known, shots)


def few(rows: Sequence[Row], most: int = MOST) -> NDArray[np.intp]:
    """Return the indexes of at most so many rows: of every software and model in turn, the newest first."""
    if len(rows) <= most:
        return np.arange(len(rows))
    seen: Counter[Any] = Counter()
    turns: list[tuple[int, int, int]] = []
    for index in sorted(range(len(rows)), key=lambda index: (rows[index].position, index), reverse=True):
        software = rows[index].software
        again = seen[software, rows[index].model]
        turns.append((again, seen[software, again, "turn"], index))
        seen[software, rows[index].model] += 1
        seen[software, again, "turn"] += 1
    return np.array(sorted(index for _, _, index in sorted(turns)[:most]), dtype=np.intp)


class CalibratedMethod:
    """A method whose predictions a few measurements of something new correct."""

    def __init__(self, method: Base) -> None:
        """Take the method that learns."""
        self._method = method

    @property
    def name(self) -> str:
        """Return the name of the method within."""
        return self._method.name

    def fit(self, table: Table) -> LearnedBase:
        """Return what the rows teach, ready to be calibrated."""
        return LearnedBase(self._method.fit(table), table)
