"""How many bytes of request bodies this process holds at a time: who comes beyond that is sent away before it costs."""

from __future__ import annotations

import asyncio
from types import TracebackType

from domain.errors import TooBusy

__all__ = ["BodyBudget", "Deadline", "Deadlines", "Held"]

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
        self.deadlines = Deadlines()
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

    def within(self, seconds: float) -> Deadline:
        """Return a context manager that raises TimeoutError where its block takes longer."""
        return Deadline(self._room.deadlines, seconds)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._room.bodies -= 1
        self._room.bytes -= self.bytes


class Deadlines:
    """The deadlines that run in one event loop, under one timer: a timer for each would cost more than the gate."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop; asking for it is a system call each time in Python 3.11."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def add(self, deadline: Deadline, loop: asyncio.AbstractEventLoop) -> None:
        """Watch over a deadline."""
        self._running.add(deadline)
        if self._timer is None or deadline.until < self._fires_at:
            self._arm(deadline.until, loop)

    def remove(self, deadline: Deadline) -> None:
        """Forget a deadline. The timer stays: the next one needs it, and it fires once at the most for nothing."""
        self._running.discard(deadline)

    def _arm(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = loop.call_at(at, self._fire, loop), at

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for deadline in [deadline for deadline in self._running if deadline.until <= now]:
            self._running.remove(deadline)
            deadline.expire()
        if self._running:
            self._arm(min(deadline.until for deadline in self._running), loop)


class Deadline:
    """What `asyncio.timeout` does, for a fraction of its cost; to be entered in a task."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_seconds", "_task", "until")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self._seconds = seconds
        self._expired = False

    def expire(self) -> None:
        """Cancel the task; called by the timer."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        loop = self._deadlines.running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline needs a task that it can cancel")
        self._task, self._cancelling = task, task.cancelling()
        self.until = loop.time() + self._seconds
        self._deadlines.add(self, loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        # As asyncio.timeout: who cancelled the task for another reason is not answered with a timeout.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
