"""Which devices have rows of their own that correct the general route, and how far each route is off on them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import cachetools
import msgspec
import numpy as np

from predictor.artifact.calibrated import Calibrated
from predictor.artifact.calibrations import Calibrations, Contradiction, Place, Prefixes, corrections_of
from predictor.features.dataset import Row, version_key
from predictor.features.table import Array, Table
from predictor.general.calibration import GeneralBase
from predictor.general.inputs import runtime_of
from predictor.general.method import FittedGeneral
from predictor.learning.few_shot import Few
from predictor.learning.siblings import Siblings

__all__ = ["WIDTHS", "Learned", "OwnRows", "RouteErrors", "software_key", "width_factor"]

WIDTHS = "own_row_widths.json"
"""How many times as wide intervals must be after ten rows of a device to hold what they promise, by platform and runtime, and
of any other under `ANY`; measured on devices that were left out (`python -m benchmarks.accuracy --own-rows`)."""
ANY = "any"
USUAL_ERROR, USUAL_ROWS = 0.2, 1.0
"""Every route is taken to have been off by as much on so many rows besides: few rows choose with caution."""
PER_OCTAVE = 0.5
"""A row whose batch is one doubling away says so much as one at the batch itself."""
OTHER_SOFTWARE = 0.25
"""A row of another software or precision says so much as one of the same."""
LEAST = 0.1
"""A route with a smaller share is left out."""


def software_key(row: Row) -> str:
    """Return what width factors are measured by: platform and runtime."""
    return f"{row.platform}|{runtime_of(row)}"


def width_factor(row: Row, nominal: float) -> float:
    """Return by what an interval that rests on rows of the device is multiplied to hold the share `nominal`."""
    factors = _width_factors()
    return factors.get(software_key(row), factors.get(ANY, {})).get(str(nominal), 1.0)


@cache
def _width_factors() -> dict[str, dict[str, float]]:
    return msgspec.json.decode(files(__package__).joinpath(WIDTHS).read_bytes(), type=dict[str, dict[str, float]])


class RouteErrors(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Log errors of the rows of a place by route (`general`, `few`, `trees`), with the model of each row left out; NaN where a route does not have the row."""

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


class Learned(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What rows of devices correct, and beside what: the general route, what trained it, and the other routes of the same rows.

    `architectures` are those of models that trained, `siblings` rows of the same work on other devices. Equal rows under the
    same `digest` are worked out once; without a digest each time.
    """

    fitted: FittedGeneral
    modes: Collection[str]
    architectures: Collection[str]
    siblings: Table
    few: Few | None = None
    trees: Calibrations = Calibrations()
    digest: str = ""


class _OfPlace(NamedTuple):
    made: Calibrations
    routes: RouteErrors | None


class OwnRows:
    """Corrections of the general route by rows that did not train it: those of a place are made when they are first asked for."""

    def __init__(self, table: Table | None = None, learned: Learned | None = None) -> None:
        """Take the rows of all devices, and what they correct."""
        self._table, self._learned = table, learned
        self._members: dict[Place, list[int]] = {}
        self._of_software: dict[tuple[str, str, str, str], list[Row]] = {}
        self._made: dict[Place, _OfPlace] = {}
        self._lock = threading.Lock()
        self._siblings = None if learned is None else Siblings(learned.siblings)
        if table is not None and learned is not None:
            for index, row in enumerate(table.rows):
                if row.mode in learned.modes:
                    self._members.setdefault((row.hardware, row.platform), []).append(index)
                    self._of_software.setdefault((row.hardware, row.platform, row.precision, row.mode), []).append(row)

    @property
    def places(self) -> list[Place]:
        """Return the devices and platforms that have rows."""
        return sorted(self._members)

    def prepare(self, ending: Callable[[], bool]) -> None:
        """Make the corrections that do not exist yet; stop between two where `ending()` is true."""
        for place in self.places:
            if ending():
                return
            self._of(place)

    def at(self, hardware: str, platform: str) -> Calibrated | None:
        """Return the correction of a device under a platform, or None where nothing was measured that can be."""
        if (hardware, platform) not in self._members:
            return None
        return self._of((hardware, platform)).made.at(hardware, platform)

    def of(self, row: Row) -> Calibrated | None:
        """Return the correction of a row, None where its runtime was not measured on its device in its mode."""
        wanted = (runtime_of(row), row.mode)
        rows = self._rows(row.hardware, row.platform)
        return self.at(row.hardware, row.platform) if any((runtime_of(r), r.mode) == wanted for r in rows) else None

    def routes(self, hardware: str, platform: str) -> RouteErrors:
        """Return the errors of the routes at a place that has a correction."""
        routes = self._of((hardware, platform)).routes
        assert routes is not None
        return routes

    def contradictions(self, hardware: Collection[str] | None = None) -> list[Contradiction]:
        """Return the rows that contradict what is known of their device, of all devices or of some."""
        places = [place for place in self.places if hardware is None or place[0] in hardware]
        return [item for place in places for item in self._of(place).made.contradictions]

    def document(self) -> list[dict[str, Any]]:
        """Return the public description of the corrections, one entry a device and platform."""
        return [entry for place in self.places for entry in self._of(place).made.document()]

    def software_of(self, hardware: str, platform: str, precision: str, mode: str, usual: str) -> dict[str, Any] | None:
        """Return the software of a device that was measured in a precision and mode: `usual`, else what most rows have."""
        rows = self._of_software.get((hardware, platform, precision, mode))
        if rows is None:
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

    def _rows(self, hardware: str, platform: str) -> list[Row]:
        members = self._members.get((hardware, platform), ())
        return [] if self._table is None else [self._table.rows[index] for index in members]

    def _of(self, place: Place) -> _OfPlace:
        with self._lock:
            if place not in self._made:
                assert self._table is not None
                assert self._learned is not None
                assert self._siblings is not None
                self._made[place] = _corrected(self._table.take(self._members[place]), self._learned, self._siblings)
            return self._made[place]


_KEPT: cachetools.LRUCache[Hashable, Calibrations] = cachetools.LRUCache(512)
_KEPT_LOCK = threading.Lock()


def _corrected(shots: Table, learned: Learned, siblings: Siblings) -> _OfPlace:
    """Return what the rows of one place correct; `siblings` finds theirs among `learned.siblings`."""
    place = (shots.rows[0].hardware, shots.rows[0].platform)
    beside = learned.siblings.take(sorted({at for row in shots.rows if (at := siblings.nearest(row)) is not None}))
    profiles = tuple(repr(learned.fitted.profile(row)) for row in shots.rows)
    key = (learned.digest, profiles, _identity(shots), _identity(beside))
    with _KEPT_LOCK:
        made = _KEPT.get(key) if learned.digest else None
    if made is None:
        # A machine of one's own is new even where its kind trained: its host is another.
        existing = GeneralBase(learned.fitted, beside, devices=(), models=Prefixes(learned.architectures))
        made = corrections_of(shots, range(len(shots)), existing)
        with _KEPT_LOCK:
            _KEPT[key] = made
    named = {event for item in learned.trees.contradictions for event in item.evidence}
    made = msgspec.structs.replace(
        made, contradictions=[item for item in made.contradictions if not named.issuperset(item.evidence)]
    )
    calibrated = made.at(*place)
    if calibrated is None:
        return _OfPlace(made, None)
    errors = _errors(calibrated, learned.few, learned.trees.at(*place))
    return _OfPlace(made, RouteErrors(rows=calibrated.shots.rows, errors=errors))


def _identity(table: Table) -> Hashable:
    """Return what decides a correction by the rows of a table: their events, their work, and the limits of their devices."""
    return tuple(
        (row.event_id, row.position, str(architecture), limits, seconds)
        for row, architecture, limits, seconds in zip(
            table.rows, table.architecture, table.limits, table.measured.tolist(), strict=True
        )
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
