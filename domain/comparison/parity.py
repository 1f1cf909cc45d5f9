"""Predicted over measured as counts in fields: what a picture of any number of rows is drawn from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["FIELDS_A_DECADE", "fields"]

FIELDS_A_DECADE = 10
"""Fields in each direction: one is a factor of 1.26 wide."""


def fields(pairs: Iterable[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return how many pairs of measured and predicted lie in each field, as `{"x", "y", "rows"}`.

    `x` and `y` are where a field begins. Pairs that are not above zero are left out. Fields hold no row: those of other
    people's measurements may be stored and shown.
    """
    counts = Counter((_step(x), _step(y)) for x, y in pairs if min(x, y) > 0 and math.isfinite(x + y))
    return [{"x": _edge(x), "y": _edge(y), "rows": rows} for (x, y), rows in sorted(counts.items())]


def _step(value: float) -> int:
    return math.floor(math.log10(value) * FIELDS_A_DECADE)


def _edge(step: int) -> float:
    return float(f"{10 ** (step / FIELDS_A_DECADE):.6g}")
