"""The largest whole number that fits, for many cases at once: by doubling, then by halving what is left between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["largest"]

Whole = NDArray[np.int64]
Fits = Callable[[NDArray[np.intp], Whole], NDArray[np.bool_]]


def largest(fits: Fits, cases: int, most: int) -> Whole:
    """Return for each case the largest number from 1 to `most` up to which everything that was tried fits; 0 for none.

    `fits` takes indexes of cases and a number for each, and says which fit; it is asked about all open cases together.
    """
    low, high = np.zeros(cases, dtype=np.int64), np.full(cases, most + 1, dtype=np.int64)
    trial = np.ones(cases, dtype=np.int64)
    open_ = np.arange(cases, dtype=np.intp)
    while len(open_):
        fitting = fits(open_, trial[open_])
        low[open_[fitting]] = trial[open_[fitting]]
        high[open_[~fitting]] = trial[open_[~fitting]]
        trial = np.minimum(2 * np.maximum(low, 1), most)
        open_ = np.flatnonzero((high == most + 1) & (low < most)).astype(np.intp)
    open_ = np.flatnonzero(high - low > 1).astype(np.intp)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        fitting = fits(open_, middle)
        low[open_[fitting]], high[open_[~fitting]] = middle[fitting], middle[~fitting]
        open_ = np.flatnonzero(high - low > 1).astype(np.intp)
    return low
