"""How many bytes of request bodies this process holds at a time: who comes beyond that is sent away before it costs."""

from __future__ import annotations

import asyncio

from domain.errors import TooBusy

__all__ = ["BodyBudget", "Held"]

BODIES = 2048
BYTES = 64 * 2**20
"""An event costs about five times its body until it is committed (the body, its copy, its row), so this is a bound of
some 320 MB above the idle process.
"""


class BodyBudget:
    """Counts bodies and their bytes from the first byte read until the answer.

    Who checks a body of many events holds `turn`: checked one after the other, the first is committed while the second is
    checked; checked side by side they would all be ready at the same time.
    """

    def __init__(self, bodies: int = BODIES, size_bytes: int = BYTES) -> None:
        self.bodies = 0
        self.bytes = 0
        self.turn = asyncio.Lock()
        self._most_bodies = bodies
        self._most_bytes = size_bytes

    def hold(self, announced: int) -> Held:
        """Return a place for a body of so many announced bytes; TooBusy where there is none."""
        if self.bodies >= self._most_bodies or self.bytes + announced > self._most_bytes:
            raise self._full()
        self.bodies += 1
        self.bytes += announced
        return Held(self, announced)

    def more(self, size: int) -> None:
        """Take so many bytes more; TooBusy where there is no room for them."""
        if self.bytes + size > self._most_bytes:
            raise self._full()
        self.bytes += size

    def _full(self) -> TooBusy:
        return TooBusy(
            f"{self.bodies:,} bodies of {self.bytes:,} bytes are being taken.",
            remedy="Send it again after Retry-After; smaller bodies find room sooner.",
        )


class Held:
    """The place of one body; a context manager that gives it back."""

    __slots__ = ("_room", "bytes")

    def __init__(self, room: BodyBudget, size: int) -> None:
        self._room = room
        self.bytes = size

    def reach(self, size: int) -> None:
        """Say that the body has so many bytes; TooBusy where it is more than was held and there is no room."""
        if size > self.bytes:
            self._room.more(size - self.bytes)
            self.bytes = size

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.bodies -= 1
        self._room.bytes -= self.bytes
