"""How a residual is learned, as a contract: every route from rows to predictions has a method, evaluated alike."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from predictor.features.table import Array, Table

__all__ = ["Base", "Fitted", "Method", "Prediction", "Predictive"]


class Prediction(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One entry a row: `residual` is log(target / prior); `difficulty` (above 0, 1 is usual) scales intervals.

    `widths` are half-widths in log units by nominal coverage, where the method knows them itself, as after a few
    measurements of a device; otherwise they come from the errors on held-out groups.
    """

    residual: Array
    difficulty: Array
    widths: dict[float, Array] | None = None

    @classmethod
    def plain(cls, residual: Array) -> Prediction:
        """Return a prediction that finds every row as hard as any other."""
        return cls(residual=residual, difficulty=np.ones(len(residual)))


class Predictive(Protocol):
    """What was learned from a table."""

    def predict(self, table: Table) -> Prediction:
        """Return the predictions for the rows of a table."""
        ...


class Fitted(Predictive, Protocol):
    """What was learned, ready to be corrected."""

    def adapted(self, shots: Table) -> Fitted:
        """Return what a few measured rows of something new (a device, a model) correct; nothing is fitted anew."""
        ...


class Base(Protocol):
    """How to learn what another method corrects."""

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        ...

    def fit(self, table: Table) -> Predictive:
        """Return what the rows of a table teach; the same table teaches the same, bit for bit."""
        ...


class Method(Protocol):
    """How to learn, and to take in a few measurements of something new."""

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        ...

    def fit(self, table: Table) -> Fitted:
        """Return what the rows of a table teach; the same table teaches the same, bit for bit."""
        ...
