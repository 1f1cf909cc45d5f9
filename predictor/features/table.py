"""Rows with what is learned from: a prior from physics, features, and the measured target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import Limits
from predictor.features.dataset import Row

__all__ = ["Array", "Matrix", "Names", "Table"]

Array = NDArray[np.float64]
Matrix = NDArray[np.float64]
Names = NDArray[np.str_]


class Table(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a method learns from and predicts; every sequence has one entry a row.

    `names` are the columns of `values`. `prior` is the estimate of physics and `measured` the target, both in the
    target's own unit (seconds or bytes). `subjects` holds what the prior was made from (an operator trace, the facts
    of a language model, or None), `limits` those of the device. `architecture` and `family` are the groups of models.
    `dropped` counts the rows that had to stay out, by reason.
    """

    target: str
    rows: list[Row]
    names: tuple[str, ...]
    values: Matrix
    prior: Array
    measured: Array
    subjects: list[Any]
    limits: list[Limits | None]
    architecture: Names
    family: Names
    dropped: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def residual(self) -> Array:
        """Return log(measured / prior)."""
        return np.asarray(np.log(self.measured / self.prior), dtype=np.float64)

    def column(self, name: str) -> Array:
        """Return the values of one feature."""
        return np.asarray(self.values[:, self.names.index(name)], dtype=np.float64)

    def take(self, chosen: Sequence[int] | NDArray[Any]) -> Table:
        """Return the chosen rows, by indexes or by a mask."""
        indexes = np.asarray(chosen)
        if indexes.dtype == bool:
            indexes = np.flatnonzero(indexes)
        indexes = indexes.astype(np.intp)
        return msgspec.structs.replace(
            self,
            rows=[self.rows[index] for index in indexes],
            values=self.values[indexes],
            prior=self.prior[indexes],
            measured=self.measured[indexes],
            subjects=[self.subjects[index] for index in indexes],
            limits=[self.limits[index] for index in indexes],
            architecture=self.architecture[indexes],
            family=self.family[indexes],
        )

    def joined(self, other: Table) -> Table:
        """Return the rows of both tables, which are of one target and the same features."""
        lists = {name: [*getattr(self, name), *getattr(other, name)] for name in ("rows", "subjects", "limits")}
        arrays = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("values", "prior", "measured", "architecture", "family")
        }
        return msgspec.structs.replace(self, **lists, **arrays)
