"""Which log the tables tell of."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["History"]


class History(NamedTuple):
    """Which log the tables tell of, and in which epoch: a position names one state of the log only within both."""

    log: str | None = None
    epoch: int | None = None

    def __str__(self) -> str:
        return f"{(self.log or '')[:8]}.{self.epoch or 0}"
