"""Which devices that the trees never saw are corrected, by what was measured on them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.calibrated import Calibrated, LearnedBase
from predictor.artifact.coverage import Coverage
from predictor.features.dataset import Row, version_key
from predictor.features.table import Table
from predictor.learning.method import Predictive

__all__ = ["Calibrations", "Contradiction", "Prefixes", "calibrations_of", "corrections_of", "evidence_of", "known_by"]

EVIDENCE = 20
FASTEST = 2.0
"""A row that is this much faster than the roofline is no measurement of this work on this device."""
SLOWEST = 20.0
"""Nor is one that is this much slower than predicted: devices that never trained are off by a factor of six at the most."""
Place = tuple[str, str]
"""(hardware, platform)."""


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a place that its physics does not allow: they calibrate nothing. `factors` are measured over predicted."""

    hardware: str
    platform: str
    evidence: list[str]
    factors: list[float]

    @property
    def note(self) -> str:
        """What an answer about the device says of them."""
        one = len(self.evidence) == 1
        rows, calibrate = ("1 row", "calibrates") if one else (f"{len(self.evidence)} rows", "calibrate")
        worst = max(self.factors, key=lambda factor: abs(math.log(factor)))
        times = f"{worst:.3g} times as long as" if worst > 1 else f"{1 / worst:.3g} times faster than"
        return (
            f"{rows} of {self.hardware} on {self.platform} {calibrate} nothing: up to {times} its physics allows "
            f"({', '.join(self.evidence[:3])}{' …' if len(self.evidence) > 3 else ''})"
        )


class Calibrations(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The corrections by place, and the rows that contradict what is known of their place."""

    by_place: Mapping[Place, Calibrated] = {}
    contradictions: Sequence[Contradiction] = ()

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


class Prefixes(Collection[str]):
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
    return LearnedBase(base, rows, devices=coverage.hardware, models=Prefixes(coverage.architectures))


def calibrations_of(table: Table, coverage: Coverage, base: Predictive, siblings: Table | None = None) -> Calibrations:
    """Return the corrections of the devices that did not train, from those rows of a table that the trees speak about.

    Rows that are faster than physics allows, or slower by far than predicted, calibrate nothing and are named. Siblings
    are looked for among the given rows, by default those of the table.
    """
    chosen = [
        index
        for index, row in enumerate(table.rows)
        if row.mode == "inference"
        and row.hardware not in coverage.hardware
        and coverage.near_software(row.platform, row.runtime, row.precision)
        and coverage.why_not(table.subjects[index], row.mode) is None
    ]
    return corrections_of(table, chosen, known_by(base, coverage, table if siblings is None else siblings))


def corrections_of(table: Table, chosen: Sequence[int], existing: LearnedBase) -> Calibrations:
    """Return the corrections that the chosen rows of a table make of what exists, by place, without those that cannot be."""
    factors = _contradicting(table.take(np.array(chosen, dtype=np.intp)), existing.fitted)
    refused = {index: factor for index, factor in zip(chosen, factors, strict=True) if factor is not None}
    places: dict[Place, list[int]] = {}
    doubted: dict[Place, list[int]] = {}
    for index in chosen:
        place = (table.rows[index].hardware, table.rows[index].platform)
        (doubted if index in refused else places).setdefault(place, []).append(index)
    return Calibrations(
        by_place={place: existing.adapted(table.take(np.array(members))) for place, members in sorted(places.items())},
        contradictions=[
            Contradiction(
                hardware=hardware,
                platform=platform,
                evidence=[table.rows[index].event_id for index in members],
                factors=[float(f"{refused[index]:.3g}") for index in members],
            )
            for (hardware, platform), members in sorted(doubted.items())
        ],
    )


def _contradicting(table: Table, base: Predictive) -> list[float | None]:
    """Return, for each row that cannot be, how many times longer it took than the roofline or than predicted."""
    if not len(table):
        return []
    beside = (table.residual - base.predict(table).residual).tolist()
    return [
        math.exp(over) if over < -math.log(FASTEST) else math.exp(longer) if longer > math.log(SLOWEST) else None
        for over, longer in zip(table.residual.tolist(), beside, strict=True)
    ]
