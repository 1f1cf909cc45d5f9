"""Nested means: what a group shows, shrunk to what the groups around it show, with an honest spread.

For figures of which there are a few dozen rows: each value lies about the mean of its group with spread `within`, and
the mean of a group about that of the group around it with spread `between`. Both are judgements of the caller, in the
unit of the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from predictor.features.table import Array

__all__ = ["Level", "Nested"]

Path = tuple[str, ...]
"""Names of the groups that a row is in, from the widest to the narrowest."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a group, the spread of that mean, and the rows it rests on."""

    mean: float
    spread: float
    rows: int


class Nested(msgspec.Struct, frozen=True, kw_only=True):
    """Means by group; `groups` is keyed by the names of the path joined by a slash, the widest of all being empty."""

    groups: dict[str, Level]
    between: float
    within: float

    @classmethod
    def fitted(cls, values: Array, paths: Sequence[Path], *, between: float, within: float) -> Nested:
        """Return the means of values; every path has the same length. Raises ValueError where there is no value."""
        if not len(values):
            raise ValueError("a mean needs at least one value")
        widest = Level(
            mean=float(np.median(values)), spread=math.sqrt(between**2 + within**2 / len(values)), rows=len(values)
        )
        groups = {"": widest}
        for depth in range(1, len(paths[0]) + 1):
            names = np.array(["/".join(path[:depth]) for path in paths], dtype=str)
            for name in np.unique(names):
                above = groups[name.rpartition("/")[0]]
                groups[str(name)] = _shrunk(values[names == name], above, between, within)
        return cls(groups=groups, between=between, within=within)

    def at(self, path: Path) -> Level:
        """Return the mean of the narrowest group that is known, its spread widened by every step that is not."""
        for depth in range(len(path), -1, -1):
            group = self.groups.get("/".join(path[:depth]))
            if group is not None:
                unknown = (len(path) - depth) * self.between**2
                return msgspec.structs.replace(group, spread=math.sqrt(group.spread**2 + unknown))
        raise AssertionError("the widest group is always there")


def _shrunk(values: Array, above: Level, between: float, within: float) -> Level:
    """Return the mean of a group given that of the group around it; the median stands for the values, against odd ones."""
    precision = len(values) / within**2
    before = 1 / between**2
    mean = (float(np.median(values)) * precision + above.mean * before) / (precision + before)
    return Level(mean=mean, spread=math.sqrt(1 / (precision + before)), rows=len(values))
