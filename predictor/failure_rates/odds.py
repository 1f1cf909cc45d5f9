"""Shares and memory together: what was seen of like configurations, and whether this one has room."""

from __future__ import annotations

import math

import msgspec

from domain.answers import Chances

__all__ = ["with_memory"]


def with_memory(chances: Chances, beyond: float) -> Chances:
    """Return the chances where `beyond` is that of needing more memory than there is; NaN leaves them as they are.

    What like configurations ran out of says little of another size: the need decides the chance of running out, and the
    others keep their proportions.
    """
    others = chances.runs + chances.unsupported + chances.fails
    if math.isnan(beyond) or others <= 0:
        return chances
    left = (1 - beyond) / others
    return msgspec.structs.replace(
        chances,
        runs=chances.runs * left,
        # Where it is not supported it is never loaded, so memory takes nothing from that.
        unsupported=chances.unsupported * left,
        fails=chances.fails * left,
        out_of_memory=beyond,
    )
