"""What few rows taught: software that the trees do not know, by device, with the widths of its intervals."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from domain.errors import UsageError
from predictor.artifact.conformal import Widths
from predictor.features.dataset import Row, version_key
from predictor.features.table import Table
from predictor.learning.evaluation import hold_out
from predictor.learning.parametric import MOST_ROWS, ParametricMethod, ParametricModel, SolvedInputs

__all__ = ["Few", "MeasuredDevice", "few_of"]

EVIDENCE = 20
CHECKED_ROWS = 400
"""Widths are measured on as many of the newest rows: each takes part in seventeen fits."""
_LEVELS = {"interpolation": "random", "new_architecture": "architecture", "new_family": "family"}


class MeasuredDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device with a software on it that was measured: what of, how often, and the newest events."""

    hardware: str
    platform: str
    runtime: str
    precision: str
    mode: str
    compiled: bool
    layout: str | None
    runtime_version: str
    threads: int | None
    rows: int
    architectures: list[str]
    families: list[str]
    categories: list[str]
    evidence: list[str]


class Few(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The rows of a parametric model, where they come from (`events`), and how wide its intervals are by level."""

    known: SolvedInputs
    events: list[str]
    places: list[MeasuredDevice]
    widths: Widths

    def document(self) -> dict[str, Any]:
        """Return its public description: the rows that taught, where, on how many architectures, and the widths.

        An event holds it: the architectures themselves, thousands after an import, stand in the artifact alone.
        """
        return {
            "rows": len(self.known.log_time),
            "places": [
                {**msgspec.to_builtins(place), "architectures": len(place.architectures)} for place in self.places
            ],
            "widths": msgspec.to_builtins(self.widths),
        }

    @cached_property
    def model(self) -> ParametricModel:
        """The model, solved when it is first asked."""
        return ParametricModel.restored(self.known)

    @cached_property
    def _by_use(self) -> dict[tuple[str, str, str], list[MeasuredDevice]]:
        places: dict[tuple[str, str, str], list[MeasuredDevice]] = {}
        for place in self.places:
            places.setdefault((place.platform, place.precision, place.mode), []).append(place)
        return places

    def place(self, hardware: str, platform: str, precision: str, mode: str) -> MeasuredDevice | None:
        """Return the plainest and newest measured software of a device, else of any device, else None."""
        return max(
            self._by_use.get((platform, precision, mode), ()),
            key=lambda item: (
                item.hardware == hardware,
                not item.compiled,
                version_key(item.runtime_version),
                item.rows,
            ),
            default=None,
        )

    def level(self, hardware: str, place: MeasuredDevice, architecture: str, family: str | None) -> str:
        """Return how far a question lies from what was measured."""
        if place.hardware != hardware:
            return "new_hardware"
        here = [item for item in self.places if item.hardware == hardware]
        if any(architecture in item.architectures for item in here):
            return "interpolation"
        return "new_architecture" if any(family in item.families for item in here) else "new_family"


def few_of(table: Table, base: Few | None = None, *, measure: bool = True) -> Few | None:
    """Return what the rows of a table and those of a base teach together; None where there is no row.

    Rows that the base holds already count once. With `measure` the widths are measured on groups held out of the table's
    own rows, where there are enough of them; they are the base's otherwise.
    """
    seen = set(base.events if base is not None else ())
    new = table.take([index for index, row in enumerate(table.rows) if not row.event_id or row.event_id not in seen])
    if not len(new):
        return base
    model = ParametricMethod().fit(new) if base is None else base.model.adapted(_newest(new, MOST_ROWS - len(seen)))
    return Few(
        known=model.known(),
        events=sorted({*seen, *(row.event_id for row in new.rows if row.event_id)}),
        places=_places(new, base.places if base is not None else ()),
        widths=_widths(_newest(table, CHECKED_ROWS), base) if measure or base is None else base.widths,
    )


def _newest(table: Table, most: int) -> Table:
    order = sorted(range(len(table)), key=lambda index: (table.rows[index].time or "", table.rows[index].position))
    return table.take(sorted(order[-max(most, 1) :]))


def _widths(table: Table, base: Few | None) -> Widths:
    errors: dict[str, tuple[Any, Any]] = {}
    for level, split in _LEVELS.items():
        try:
            held = hold_out(table, ParametricMethod(), split)
        except UsageError:
            break  # A farther level needs more groups than a nearer one.
        groups = held.groups.tolist() if split == "family" else None
        errors[level] = (held.errors / held.difficulty, groups)
    if len(errors) < len(_LEVELS) and base is not None:
        return base.widths
    return Widths.fitted(errors)


def _places(table: Table, existing: Iterable[MeasuredDevice]) -> list[MeasuredDevice]:
    places = {_key_of_place(item): item for item in existing}
    for index, row in enumerate(table.rows):
        key = (*row.software, row.mode, row.threads)
        architecture, family = str(table.architecture[index]), str(table.family[index])
        category = getattr(table.subjects[index], "category", None) or row.category
        places[key] = _with(places.get(key), row, architecture, family, category)
    return [places[key] for key in sorted(places, key=repr)]


def _key_of_place(place: MeasuredDevice) -> tuple[Any, ...]:
    row = Row(
        model="",
        hardware=place.hardware,
        platform=place.platform,
        precision=place.precision,
        batch_size=1,
        runtime=place.runtime,
        runtime_version=place.runtime_version,
        compiled=place.compiled,
        layout=place.layout,
    )
    return (*row.software, place.mode, place.threads)


def _with(
    place: MeasuredDevice | None, row: Row, architecture: str, family: str, category: str | None
) -> MeasuredDevice:
    if place is None:
        place = MeasuredDevice(
            hardware=row.hardware,
            platform=row.platform,
            runtime=row.runtime,
            precision=row.precision,
            mode=row.mode,
            compiled=row.compiled,
            layout=row.layout,
            runtime_version=row.runtime_version,
            threads=row.threads,
            rows=0,
            architectures=[],
            families=[],
            categories=[],
            evidence=[],
        )
    return msgspec.structs.replace(
        place,
        rows=place.rows + 1,
        architectures=sorted({*place.architectures, architecture}),
        families=sorted({*place.families, family}),
        categories=sorted({*place.categories, *([category] if category else [])}),
        evidence=[*place.evidence, *([row.event_id] if row.event_id else [])][-EVIDENCE:],
    )
