"""Which devices that the trees never saw are corrected, by what was measured on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.calibrated import Calibrated, LearnedBase
from predictor.artifact.coverage import Coverage
from predictor.features.dataset import Row, version_key
from predictor.features.table import Table
from predictor.learning.method import Predictive

__all__ = ["Calibrations", "calibrations_of", "known_by"]

EVIDENCE = 20
Place = tuple[str, str]
"""(hardware, platform)."""


class Calibrations(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The corrections by place."""

    by_place: Mapping[Place, Calibrated] = {}

    def at(self, hardware: str, platform: str) -> Calibrated | None:
        """Return the correction of a device under a platform, or None where nothing was measured."""
        return self.by_place.get((hardware, platform))

    def software(self, hardware: str, platform: str, precision: str) -> dict[str, Any] | None:
        """Return the plainest and newest measured software of a device in a precision, or None."""
        result = self.at(hardware, platform)
        rows = [row for row in result.shots.rows if row.precision == precision] if result is not None else []
        if not rows:
            return None
        row = max(rows, key=lambda item: (not item.compiled, not item.channels_last, version_key(item.runtime_version)))
        return {name: getattr(row, name) for name in ("runtime", "compiled", "runtime_version", "layout", "threads")}

    def document(self) -> list[dict[str, Any]]:
        """Return their public description, one entry a device and platform."""
        return [
            {
                "hardware": hardware,
                "platform": platform,
                "rows": len(value.shots),
                "models": len(set(value.shots.architecture.tolist())),
                "precisions": sorted({row.precision for row in value.shots.rows}),
                "effective_peak_share": round(value.effective_peak, 3),
                "evidence": evidence_of(value.shots.rows),
            }
            for (hardware, platform), value in sorted(self.by_place.items())
        ]


def evidence_of(rows: Sequence[Row]) -> list[str]:
    """Return the ids of the newest events of some rows."""
    return [row.event_id for row in rows if row.event_id][-EVIDENCE:]


class _Prefixes(Collection[str]):
    """Architectures by the first part of their names, as a card holds them."""

    def __init__(self, prefixes: Collection[str]) -> None:
        self._prefixes = frozenset(prefixes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name[:16] in self._prefixes

    def __iter__(self) -> Any:
        return iter(self._prefixes)

    def __len__(self) -> int:
        return len(self._prefixes)


def known_by(base: Predictive, coverage: Coverage, rows: Table) -> LearnedBase:
    """Return what a base knows, with `rows` as the measurements among which siblings are looked for."""
    return LearnedBase(base, rows, devices=coverage.hardware, models=_Prefixes(coverage.architectures))


def calibrations_of(table: Table, coverage: Coverage, base: Predictive, siblings: Table | None = None) -> Calibrations:
    """Return the corrections of the devices that did not train, from those rows of a table that the trees speak about.

    Siblings are looked for among the given rows, by default those of the table.
    """
    chosen = [
        index
        for index, row in enumerate(table.rows)
        if row.mode == "inference"
        and row.hardware not in coverage.hardware
        and coverage.near_software(row.platform, row.runtime, row.precision)
        and coverage.why_not(table.subjects[index], row.mode) is None
    ]
    existing = known_by(base, coverage, table if siblings is None else siblings)
    places: dict[Place, list[int]] = {}
    for index in chosen:
        places.setdefault((table.rows[index].hardware, table.rows[index].platform), []).append(index)
    return Calibrations(
        by_place={place: existing.adapted(table.take(np.array(members))) for place, members in sorted(places.items())}
    )
