"""The peak that a device reaches, beside the one on its data sheet.

A card that is limited in power, or whose sheet counts another kind of arithmetic, is wrong in the prior and in every
feature that is made from it. A correction on top cannot mend that, so the table is made again at other peaks and what
was measured tells which of them holds.
"""

from __future__ import annotations

import math

import msgspec

from domain.performance.roofline import Limits
from predictor.features.operators_route import relimited
from predictor.features.table import Table
from predictor.features.traces import Trace

__all__ = ["PEAKS", "at_peak", "doubt"]

PEAKS = (0.5, 0.6, 0.72, 0.86, 1.0, 1.2, 1.44)
"""Shares of the stated peak that are tried. Measured cards reached 0.56 to 0.74 of theirs where the sheet was wrong."""
SPREAD = 0.25
"""How far the true peak is expected to lie from the stated one, in log units; a judgement."""


def at_peak(table: Table, share: float) -> Table | None:
    """Return the table as it would be at this share of the stated arithmetic peaks; None where it has no traces."""
    if not all(isinstance(subject, Trace) for subject in table.subjects) or None in table.limits:
        return None
    if share == 1.0:
        return table
    made: dict[int, Limits] = {}
    limits = [item for item in table.limits if item is not None]
    for limit in limits:
        if id(limit) not in made:
            made[id(limit)] = msgspec.structs.replace(limit, peak_flops=limit.peak_flops * share)
    return relimited(table, [made[id(item)] for item in limits])


def doubt(share: float) -> float:
    """Return the log of how likely this share is before anything was measured, up to a constant."""
    return -0.5 * (math.log(share) / SPREAD) ** 2
