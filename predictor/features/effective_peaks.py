"""The peak that a device reaches, beside the one on its data sheet.

A card that is limited in power, or whose sheet counts another kind of arithmetic, is wrong in the prior and in every
feature that is made from it. A correction on top cannot mend that, so the table is made again at other peaks and what
was measured tells which of them holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from domain.performance.roofline import Limits
from predictor.features.operators_route import relimited
from predictor.features.table import Table
from predictor.features.traces import Trace

__all__ = ["PEAKS", "at_peaks", "doubt"]

PEAKS = (0.5, 0.6, 0.72, 0.86, 1.0, 1.2, 1.44)
"""Shares of the stated peak that are tried. Measured cards reached 0.56 to 0.74 of theirs where the sheet was wrong."""
SPREAD = 0.25
"""How far the true peak is expected to lie from the stated one, in log units; a judgement."""


def at_peaks(table: Table, shares: Sequence[float]) -> Table | None:
    """Return all rows as they would be at the first of these shares of the stated peaks, then at the next; None without traces."""
    if not all(isinstance(subject, Trace) for subject in table.subjects) or None in table.limits:
        return None
    made: dict[tuple[int, float], Limits] = {}
    limits: list[Limits] = []
    for share in shares:
        for limit in table.limits:
            assert limit is not None
            key = (id(limit), share)
            if key not in made:
                made[key] = msgspec.structs.replace(limit, peak_flops=limit.peak_flops * share)
            limits.append(made[key])
    return relimited(table.take(np.tile(np.arange(len(table)), len(shares))), limits)


def doubt(share: float) -> float:
    """Return the log of how likely this share is before anything was measured, up to a constant."""
    return -0.5 * (math.log(share) / SPREAD) ** 2
