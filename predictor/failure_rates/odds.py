"""Shares and memory together: what was seen of like configurations, and whether this one has room."""

from __future__ import annotations

import math

import msgspec

from domain.answers import Chances

__all__ = ["Need", "with_memory"]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that a configuration is expected to need, the spread of that in log units, and the bytes there are."""

    bytes_needed: float
    spread: float
    room_bytes: float

    @property
    def chance_beyond(self) -> float:
        """Return the chance that it needs more than there is, the need being log-normal."""
        distance = math.log(self.bytes_needed / self.room_bytes)
        if self.spread <= 0:
            return 1.0 if distance > 0 else 0.0
        return 0.5 * math.erfc(-distance / (self.spread * math.sqrt(2)))


def with_memory(chances: Chances, need: Need | None) -> Chances:
    """Return the chances where the need of memory is known.

    What like configurations ran out of says little of another size: the chance of running out is then that of the
    need, and the others keep their proportions. Without a need the chances stay as they are.
    """
    if need is None:
        return chances
    beyond = need.chance_beyond
    others = chances.runs + chances.unsupported + chances.fails
    if others <= 0:
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
