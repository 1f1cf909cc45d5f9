"""Learn by reference: levels from the siblings of a device, corrected by whatever was measured on the device itself.

Nothing is fitted but sums over the rows, so a row more is known at once. A device's own rows never are its siblings:
they are its shots, whether they were in the table or came later.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.device_transfer.levels import Levels, decompose
from predictor.device_transfer.pieces import Option, Piece, options_of, piece_of, without
from predictor.device_transfer.process import DEVICE, DEVICE_WITH_FIGURES, SCATTER, Posterior, View
from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix, Table
from predictor.learning.method import Prediction

__all__ = ["ReferenceFitted", "ReferenceMethod"]

MOST_SHOTS = 300
"""Of a device with more rows the newest ones correct it: the process solves one equation a shot."""
USUAL = 0.15
"""The standard deviation of an ordinary row after ten measurements, in log units: difficulty 1."""

UNKNOWN = 1.0
"""The least standard deviation of a piece that no sibling did, in log units."""

_TIMES = ("latency", "throughput", "ttft", "tpot")
_SOFTWARE = slice(1, 7)
"""Where a piece holds platform, runtime, precision, compiled, channels last and version."""


class _Siblings(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The siblings of one device: their pieces, decomposed.

    `software` and `options` number software configurations and the values of options that were switched; `rare` is by
    software configuration one over the root of how many siblings ran it.
    """

    places: dict[Piece, int]
    software: dict[Piece, int]
    options: dict[Option, int]
    rare: Array
    levels: Levels
    centre: float

    def view(self, pieces: Sequence[Piece], compared: NDArray[np.bool_]) -> View:
        """Return what the process sees of pieces; a piece that no sibling did is at the mean of all levels.

        `compared` says of each whether a data sheet compares the device with its siblings.
        """
        at = np.array([self.places.get(piece, -1) for piece in pieces], dtype=np.intp)
        group = np.array([self.software.get(piece[_SOFTWARE], -1) for piece in pieces], dtype=np.intp)
        seen, levels = at >= 0, self.levels
        return View(
            level=np.where(seen, levels.level[at] - self.centre, 0.0),
            shift=np.where((group >= 0)[:, None], levels.shifts[group], levels.shifts.mean(axis=0)),
            profile=np.where(seen[:, None], levels.profile[at], 0.0),
            scatter=np.where(seen, levels.scatter[at], max(float(np.std(levels.level)), UNKNOWN) / SCATTER),
            scale=np.where(group >= 0, levels.scale[group], -1),
            options=self._options_of(pieces),
            software=group,
            rare=np.where(group >= 0, self.rare[group], 1.0),
            device=np.where(compared, DEVICE_WITH_FIGURES, DEVICE),
        )

    def _options_of(self, pieces: Sequence[Piece]) -> Matrix:
        """Return which of the switched options each piece has, 1 or 0: a column a value of an option."""
        chosen = np.zeros((len(pieces), len(self.options)))
        for place, piece in enumerate(pieces):
            for option in options_of(piece):
                if option in self.options:
                    chosen[place, self.options[option]] = 1.0
        return chosen


class ReferenceMethod:
    """Same work, other device; see `ReferenceFitted`."""

    name = "reference"

    def fit(self, table: Table) -> ReferenceFitted:
        """Return what the rows of a table say of each other's devices."""
        return ReferenceFitted(table)


class ReferenceFitted:
    """Predicts a row from the same piece on other devices; needs no trace and no figure of any device."""

    def __init__(self, table: Table) -> None:
        """Take a table of siblings."""
        self._table = table
        self._rows = table.rows
        speeds = _speeds(table)
        speed = speeds[np.isfinite(speeds)]
        self._usual = float(speed.mean()) if len(speed) else 0.0
        self._compared = np.isfinite(speeds)
        self._figures = np.log(table.measured) + self._faster(speeds)
        self._pieces = [piece_of(row) for row in self._rows]
        self._devices: dict[str, tuple[_Siblings, Posterior]] = {}

    def predict(self, table: Table) -> Prediction:
        """Return the predictions; a piece that no sibling did gets the mean of all levels, and a difficulty that says so."""
        speeds = _speeds(table)
        mean, deviation = np.zeros(len(table)), np.ones(len(table))
        hardware = np.array([row.hardware for row in table.rows], dtype=str)
        for device in np.unique(hardware):
            here = np.flatnonzero(hardware == device)
            pieces = [piece_of(table.rows[index]) for index in here]
            mean[here], deviation[here] = self._predicted(str(device), pieces, np.isfinite(speeds[here]))
        return Prediction(residual=mean - self._faster(speeds) - np.log(table.prior), difficulty=deviation / USUAL)

    def adapted(self, shots: Table) -> ReferenceFitted:
        """Return what is known with these rows too; those of a device correct it, and are siblings to all others."""
        return ReferenceFitted(self._table.joined(shots))

    def evidence(self, row: Row, most: int = 5) -> tuple[str, ...]:
        """Return the events of the siblings that did the piece of a row, the newest first."""
        piece = piece_of(row)
        siblings = [
            other
            for other, its in zip(self._rows, self._pieces, strict=True)
            if its == piece and other.hardware != row.hardware and other.event_id
        ]
        siblings.sort(key=lambda other: (other.time or "", other.position), reverse=True)
        return tuple(other.event_id for other in siblings[:most])

    def siblings(self, row: Row) -> tuple[str, ...]:
        """Return the other devices that did the piece of a row, by name."""
        piece = piece_of(row)
        hardwares = {
            other.hardware
            for other, its in zip(self._rows, self._pieces, strict=True)
            if its == piece and other.hardware != row.hardware
        }
        return tuple(sorted(hardwares))

    def _faster(self, speeds: Array) -> Array:
        """How much faster than usual a device should be, in log units; one without figures counts as usual."""
        return np.where(np.isfinite(speeds), speeds - self._usual, 0.0)

    def _predicted(self, device: str, pieces: Sequence[Piece], compared: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of log figures on one device, as if it were of the usual speed."""
        if device not in self._devices:
            self._devices[device] = self._device(device)
        siblings, posterior = self._devices[device]
        view = siblings.view(pieces, compared)
        mean, deviation = posterior.of(view)
        return siblings.centre + view.level + mean, deviation

    def _device(self, device: str) -> tuple[_Siblings, Posterior]:
        siblings = self._siblings_of(device)
        own = self._shots_of(device, siblings)
        view = siblings.view([self._pieces[index] for index in own], self._compared[own])
        return siblings, Posterior(view, self._figures[own] - siblings.centre - view.level)

    def _shots_of(self, device: str, siblings: _Siblings) -> NDArray[np.intp]:
        """The device's own rows whose piece a sibling did, the newest of too many."""
        own = [
            index
            for index, row in enumerate(self._rows)
            if row.hardware == device and self._pieces[index] in siblings.places
        ]
        own.sort(key=lambda index: (self._rows[index].time or "", self._rows[index].position, index))
        return np.array(own[-MOST_SHOTS:], dtype=np.intp)

    def _siblings_of(self, device: str) -> _Siblings:
        """Decompose what the other devices did; of a figure that was taken again the last one counts."""
        others = [index for index, row in enumerate(self._rows) if row.hardware != device]
        names = {name: place for place, name in enumerate(sorted({self._rows[index].hardware for index in others}))}
        places: dict[Piece, int] = {}
        software: dict[Piece, int] = {}
        for index in others:
            piece = self._pieces[index]
            places.setdefault(piece, len(places))
            software.setdefault(piece[_SOFTWARE], len(software))
        if not places:
            nothing = decompose(np.zeros((1, 1)), [0])
            return _Siblings(places={}, software={}, options={}, rare=np.ones(1), levels=nothing, centre=0.0)
        figures = np.full((len(places), len(names)), np.nan)
        for index in others:
            figures[places[self._pieces[index]], names[self._rows[index].hardware]] = self._figures[index]
        groups = np.array([software[piece[_SOFTWARE]] for piece in places], dtype=np.intp)
        levels = decompose(figures, groups)
        ran = np.zeros((len(software), len(names)), dtype=bool)
        np.logical_or.at(ran, groups, np.isfinite(figures))
        rare = 1 / np.sqrt(ran.sum(axis=1))
        centre = float(np.mean(levels.level))
        return _Siblings(
            places=places, software=software, options=_switched(places), rare=rare, levels=levels, centre=centre
        )


def _switched(pieces: Collection[Piece]) -> dict[Option, int]:
    """Number the values of the options that were switched: measured with several values while all else was alike."""
    values: dict[tuple[str, Piece], set[str]] = {}
    for piece in pieces:
        for name, value in options_of(piece):
            values.setdefault((name, without(piece, name)), set()).add(value)
    names = {name for (name, _), several in values.items() if len(several) > 1}
    switched = {option for piece in pieces for option in options_of(piece) if option[0] in names}
    return {option: place for place, option in enumerate(sorted(switched))}


def _speeds(table: Table) -> Array:
    """Return the logs of how fast a data sheet says that each row's device works on the target, NaN where it does not say.

    What a token takes is read from memory; any other time is as much arithmetic as traffic, as long as nothing is traced.
    """
    if table.target not in _TIMES:
        return np.full(len(table), math.nan)
    traffic = 1.0 if table.target == "tpot" else 0.5
    return np.array(
        [
            math.nan
            if limit is None
            else traffic * math.log(limit.bandwidth_bytes_per_s) + (1 - traffic) * math.log(limit.peak_flops)
            for limit in table.limits
        ],
        dtype=np.float64,
    )
