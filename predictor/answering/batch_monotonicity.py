"""More items in a call never take less time: predictions of one configuration that differ in batch alone, put in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array

__all__ = ["growing"]


def growing(latency: Array, cells: Sequence[Hashable], batch: Sequence[int], sure: NDArray[np.bool_]) -> Array:
    """Return the latencies such that within a cell none falls from a smaller to a larger batch.

    Falling ones move half-way each: up to the largest before, down to the smallest after. Where not all are `sure`
    (two methods met at some batch) those that are decide, and the others are kept between them.
    """
    members: dict[Hashable, list[int]] = {}
    for index in np.argsort(np.asarray(batch), kind="stable").tolist():
        members.setdefault(cells[index], []).append(index)
    array, tolist = latency.copy(), latency.tolist()
    for member in members.values():
        if all(tolist[before] <= tolist[after] for before, after in pairwise(member)):
            continue
        order, existing = np.array(member), sure[member]
        values = array[order]
        values[existing] = _ordered(values[existing])
        floor = np.maximum.accumulate(np.where(existing, values, -np.inf))
        ceiling = np.minimum.accumulate(np.where(existing, values, np.inf)[::-1])[::-1]
        values[~existing] = _ordered(np.clip(values, floor, ceiling)[~existing])
        array[order] = np.clip(values, floor, ceiling)
    return array


def _ordered(values: Array) -> Array:
    """Return the values without falls; what does not fall stays."""
    up, down = np.maximum.accumulate(values), np.minimum.accumulate(values[::-1])[::-1]
    return np.asarray(np.sqrt(up * down), dtype=np.float64)
