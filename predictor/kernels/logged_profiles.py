"""What kernels in the log say of their devices: a profile for each device, platform and arithmetic precision that has some."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from domain.vocabulary import arithmetic_precision
from ingest.projection import Tables
from predictor.features.operators_route import SpecOf
from predictor.kernels.kept import Kernels
from predictor.kernels.profile import DeviceProfile, Place, profiles_of
from predictor.kernels.rows import kernel_rows_of_view

__all__ = ["profiles_at"]

_NEWEST = """
SELECT * FROM kernels
WHERE verdict IS DISTINCT FROM 'invalid' AND position IN (
    SELECT position FROM kernel_tables
    QUALIFY row_number() OVER (
        PARTITION BY hardware_id, platform, runtime_name, operator, name, phase, precision ORDER BY position DESC
    ) <= 2
)
QUALIFY row_number() OVER (PARTITION BY hardware_id, platform, operator, precision ORDER BY hash(timing_id)) <= 60
ORDER BY timing_id
"""
"""Of each device, platform, operator and precision, kernels of the two newest events of each function, phase and runtime: enough
to say what a device reaches."""
MOST_EVIDENCE = 20


def profiles_at(tables: Tables, kernels: Kernels, spec_of: SpecOf) -> dict[Place, DeviceProfile]:
    """Return the profiles that the log's kernels give, by device, platform and arithmetic precision."""
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in tables.select("kernels kernel_tables", _NEWEST).to_pylist():
        places.setdefault((row["hardware_id"], row["platform"]), []).append(row)
    return {
        (hardware, platform, precision): profile
        for (hardware, platform), rows in sorted(places.items())
        if spec_of(hardware) is not None
        for precision, profile in _profiles(_Question(rows, spec_of, kernels)).items()
    }


class _Question:
    """Kernels of a device; two of the same events under the same parameters are one question."""

    def __init__(self, rows: list[Mapping[str, Any]], spec_of: SpecOf, kernels: Kernels) -> None:
        self.rows, self.spec_of, self.parameters = rows, spec_of, kernels.parameters
        self.events = tuple(sorted({str(row["event_id"]) for row in rows}))
        self._key = (self.events, repr(kernels.parameters), repr(spec_of(rows[0]["hardware_id"])))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._key == other._key


@lru_cache(maxsize=256)
def _profiles(question: _Question) -> dict[str, DeviceProfile]:
    by_precision: dict[str, list[Mapping[str, Any]]] = {}
    for row in question.rows:
        arithmetic = arithmetic_precision(row["type_arithmetic"] or row["precision"] or "fp32")
        by_precision.setdefault(arithmetic, []).append(row)
    rows = {name: kernel_rows_of_view(part, question.spec_of) for name, part in by_precision.items()}
    evidence = list(question.events[-MOST_EVIDENCE:])
    made = profiles_of(rows, question.parameters)
    return {name: msgspec.structs.replace(profile, evidence=evidence) for name, profile in made.items()}
