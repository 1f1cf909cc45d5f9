"""What memory is learned from, as JSON: the few fields and figures a row is reduced to, so that an artifact can hold it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from domain.errors import CorruptArtifact
from predictor.learning.dataset import Row
from predictor.learning.table import Table
from predictor.memory.facts import FACTS

__all__ = ["recorded", "restored"]

_REMEDY = "Train again: assay train."
_FIELDS = ("model", "hardware", "platform", "runtime", "precision", "mode", "batch_size", "options")


def recorded(table: Table) -> dict[str, Any]:
    """Return the rows of a memory table as JSON values; `restored` makes a table of them that teaches the same, bit for bit."""
    return {
        "facts": list(FACTS),
        "rows": [{name: getattr(row, name) for name in _FIELDS} for row in table.rows],
        "values": table.values.tolist(),
        "prior": table.prior.tolist(),
        "measured": table.measured.tolist(),
        "architecture": table.architecture.tolist(),
        "family": table.family.tolist(),
    }


def restored(data: dict[str, Any]) -> Table:
    """Return the table of what `recorded` wrote. Raises CorruptArtifact where it has other facts, or parts are missing."""
    try:
        if tuple(data["facts"]) != FACTS:
            raise CorruptArtifact("memory was recorded with other facts.", field="memory", remedy=_REMEDY)
        rows = [msgspec.convert(row, Row) for row in data["rows"]]
        if any(len(data[name]) != len(rows) for name in ("values", "prior", "measured", "architecture", "family")):
            raise CorruptArtifact("memory has figures of more or fewer rows.", field="memory", remedy=_REMEDY)
        return Table(
            target="memory",
            rows=rows,
            names=FACTS,
            values=np.array(data["values"], dtype=np.float64).reshape(len(rows), len(FACTS)),
            prior=np.array(data["prior"], dtype=np.float64),
            measured=np.array(data["measured"], dtype=np.float64),
            subjects=[None] * len(rows),
            limits=[None] * len(rows),
            architecture=np.array(data["architecture"], dtype=str),
            family=np.array(data["family"], dtype=str),
        )
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise CorruptArtifact(f"memory cannot be read: {error}.", field="memory", remedy=_REMEDY) from error
