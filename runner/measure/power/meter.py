"""The contract of a meter, and what stands in its place where nothing can be read."""

from __future__ import annotations

from typing import ClassVar, Protocol

import msgspec

from domain.performance.energy import PowerReading

__all__ = ["Meter", "Unread"]


class Meter(Protocol):
    """Something that shows power or energy. `scope` says whose; `update_s` how often it renews its figures."""

    name: ClassVar[str]
    update_s: float

    @property
    def scope(self) -> str:
        """Whose energy this is, in words."""

    def read(self) -> PowerReading:
        """Return what it shows now; never raises, absent figures are None."""

    def close(self) -> None:
        """Let go of it."""


class Unread(msgspec.Struct, frozen=True):
    """No meter: why, and what would help."""

    reason: str
    remedy: str | None = None

    def __str__(self) -> str:
        return f"{self.reason} {self.remedy}" if self.remedy else self.reason

    def close(self) -> None:
        """There is nothing to let go of."""
