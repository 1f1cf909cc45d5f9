"""Which devices have rows of their own that correct the general route, and how far each route is off on them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.calibrated import Calibrated
from predictor.artifact.calibrations import Calibrations, Place, Prefixes, corrections_of
from predictor.features.dataset import Row, version_key
from predictor.features.table import Array, Table
from predictor.general.calibration import GeneralBase
from predictor.general.inputs import runtime_of
from predictor.general.method import FittedGeneral
from predictor.learning.few_shot import Few

__all__ = ["ROUTES", "OwnRows", "RouteErrors", "own_rows_of"]

ROUTES = ("general", "few", "trees")
"""Routes that rows of a device may correct, each with its errors on rows that were left out."""
USUAL_ERROR, USUAL_ROWS = 0.2, 1.0
"""Every route is taken to have been off by as much on so many rows besides: few rows choose with caution."""
PER_OCTAVE = 0.5
"""A row whose batch is one doubling away says so much as one at the batch itself."""
OTHER_SOFTWARE = 0.25
"""A row of another software or precision says so much as one of the same."""
LEAST = 0.1
"""A route with a smaller share is left out."""


class RouteErrors(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Log errors of the rows of a place by route, with the model of each row left out; NaN where a route does not have the row."""

    rows: Sequence[Row]
    errors: Mapping[str, Array]

    def shares(self, row: Row, routes: Collection[str]) -> dict[str, float]:
        """Return the share of each of these routes in an answer about a row: the less it is off on like rows, the more.

        Rows that all of the routes have count; without any the general route answers alone.
        """
        errors = [self.errors[name] for name in routes if name in self.errors]
        here = np.isfinite(errors).all(axis=0) if len(errors) == len(routes) else np.zeros(len(self.rows), dtype=bool)
        if len(routes) < 2 or not here.any():
            return {"general": 1.0}
        weights = np.array([_likeness(row, other) for other in self.rows])[here]
        missed = {
            name: (float(weights @ self.errors[name][here] ** 2) + USUAL_ROWS * USUAL_ERROR**2)
            / (float(weights.sum()) + USUAL_ROWS)
            for name in routes
        }
        inverse = {name: missed[name] ** -1 for name in sorted(routes)}
        shares = {name: value / sum(inverse.values()) for name, value in inverse.items()}
        kept = {name: share for name, share in shares.items() if share >= LEAST}
        return {name: share / sum(kept.values()) for name, share in kept.items()}


def _likeness(row: Row, other: Row) -> float:
    octaves = abs(math.log2((row.batch_size or 1) / (other.batch_size or 1)))
    same = (row.runtime, row.precision, row.compiled, row.mode) == (
        other.runtime,
        other.precision,
        other.compiled,
        other.mode,
    )
    return float(PER_OCTAVE**octaves) * (1.0 if same else OTHER_SOFTWARE)


class OwnRows(Calibrations, frozen=True, kw_only=True, eq=False):
    """Corrections of the general route by place, and the errors of the routes there."""

    routes: Mapping[Place, RouteErrors] = {}

    def of(self, row: Row) -> Calibrated | None:
        """Return the correction of a row, None where its runtime was not measured on its device in its mode."""
        result = self.at(row.hardware, row.platform)
        if result is None:
            return None
        wanted = (runtime_of(row), row.mode)
        return result if any((runtime_of(shot), shot.mode) == wanted for shot in result.shots.rows) else None

    def software_of(self, hardware: str, platform: str, precision: str, mode: str, usual: str) -> dict[str, Any] | None:
        """Return the software of a device that was measured in a precision and mode: `usual`, else what most rows have."""
        result = self.at(hardware, platform)
        rows = (
            []
            if result is None
            else [row for row in result.shots.rows if (row.precision, row.mode) == (precision, mode)]
        )
        if not rows:
            return None
        names = [row.runtime for row in rows]
        row = max(
            rows,
            key=lambda item: (
                item.runtime == usual,
                names.count(item.runtime),
                item.runtime,
                not item.compiled,
                not item.channels_last,
                version_key(item.runtime_version),
            ),
        )
        return {name: getattr(row, name) for name in ("runtime", "compiled", "runtime_version", "layout", "threads")}


def own_rows_of(
    table: Table,
    fitted: FittedGeneral,
    modes: Collection[str],
    architectures: Collection[str],
    siblings: Table,
    few: Few | None,
    trees: Calibrations,
) -> OwnRows:
    """Return what rows that did not train the general route correct of it, by place.

    `modes` are those that the route knows, `architectures` those of models that trained, `siblings` rows of the same models on
    other devices, `few` and `trees` the other routes that the rows correct. Rows that contradict physics are named unless
    `trees` names them.
    """
    chosen = [index for index, row in enumerate(table.rows) if row.mode in modes]
    # A machine of one's own is new even where its kind trained: its host is another.
    existing = GeneralBase(fitted, siblings, devices=(), models=Prefixes(architectures))
    made = corrections_of(table, chosen, existing)
    named = {event for item in trees.contradictions for event in item.evidence}
    return OwnRows(
        by_place=made.by_place,
        contradictions=[item for item in made.contradictions if not named.issuperset(item.evidence)],
        routes={
            place: RouteErrors(rows=item.shots.rows, errors=_errors(item, few, trees.at(*place)))
            for place, item in made.by_place.items()
        },
    )


def _errors(general: Calibrated, few: Few | None, trees: Calibrated | None) -> dict[str, Array]:
    errors = {"general": general.left_out}
    if few is not None:
        errors["few"] = few.model.left_out(general.shots)
    if trees is not None:
        existing = {id(row): error for row, error in zip(trees.shots.rows, trees.left_out.tolist(), strict=True)}
        by_event = {row.event_id: existing[id(row)] for row in trees.shots.rows if row.event_id}
        errors["trees"] = np.array(
            [existing.get(id(row), by_event.get(row.event_id, math.nan)) for row in general.shots.rows]
        )
    return errors
