"""What bounds a line of the accuracy benchmark: figures of its own result, and those that `research.bounds` measured.

A result says which groups carry its error. A file of `benchmarks/results/bounds` says how far the source agrees with itself,
what more groups in training are worth, and how far off other ways are on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from domain.errors import UsageError

__all__ = ["Bound", "Concentration", "Curve", "Floor", "Reference", "bounds_in", "concentration"]

WORST = 2
"""Groups whose share of the error is reported."""
GROUPS_NEEDED = 4
"""With fewer groups, leaving the worst out says little."""


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """How far off a predictor would be that knew the median of every configuration, on configurations with several figures.

    Errors are shares; `ninety` is the error that one row in ten exceeds. `source` says where the repeated rows are from.
    """

    source: str
    rows: int
    configurations: int
    mape: float
    median_ape: float
    ninety: float


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The error with some of the groups in training."""

    groups: int
    error: float


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Errors on the same rows by how many groups trained, fewest first; `of` names the groups."""

    of: str
    steps: list[Step]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """How far off something else is on the line's rows, or on a part of them; `what` completes the sentence."""

    what: str
    error: float


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured about the bound of a line; `figure` names the errors of the curve and the references."""

    figure: str = "mape"
    floor: Floor | None = None
    curve: Curve | None = None
    references: list[Reference] = []


class Concentration(NamedTuple):
    """The groups that carry most of an error: their share of it and of the rows, and the error without them."""

    of: str
    names: tuple[str, ...]
    error_share: float
    rows_share: float
    rest: float


def bounds_in(folder: Path) -> dict[str, Bound]:
    """Return the bounds in a folder by line; none without the folder. Raises UsageError for a file that holds none."""
    bounds: dict[str, Bound] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            bounds[path.stem] = msgspec.json.decode(path.read_bytes(), type=Bound)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path} holds no bound: {error}.",
                field="bounds",
                remedy="Make it again: python -m research.bounds --help.",
            ) from error
    return bounds


def concentration(answer: Mapping[str, Any]) -> Concentration | None:
    """Return the two families or devices without which the mean error is lowest; None with too few groups of both."""
    parts = (
        _worst(of, answer.get(f"by_{name}") or {}) for of, name in (("families", "family"), ("devices", "hardware"))
    )
    return min((part for part in parts if part is not None), key=lambda part: part.rest, default=None)


def _worst(of: str, groups: Mapping[str, Any]) -> Concentration | None:
    if len(groups) < GROUPS_NEEDED:
        return None
    errors = {name: part["mape"] * part["rows"] for name, part in groups.items()}
    rows = {name: part["rows"] for name, part in groups.items()}
    total, count = sum(errors.values()), sum(rows.values())
    mean = total / count
    # Leaving a group out lowers the mean by what its rows are off beyond the mean.
    worst = sorted(groups, key=lambda name: (mean * rows[name] - errors[name], name))[:WORST]
    error, its = sum(errors[name] for name in worst), sum(rows[name] for name in worst)
    if its == count:
        return None
    return Concentration(of, tuple(worst), error / total, its / count, (total - error) / (count - its))
