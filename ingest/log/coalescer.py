"""Single events on their way to the log: many callers, one transaction for all that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

from domain import spans
from domain.errors import ServiceUnavailable, TooBusy
from domain.events import Decoded
from ingest.log.append import Appended

__all__ = ["Coalescer"]

Append = Callable[[Sequence[Decoded]], Awaitable[list[Appended]]]
_Waiting = tuple[Decoded, "asyncio.Future[Appended]", Any]


class Coalescer:
    """Appends together what arrives while the batch before is being committed: the commit itself is the window.

    At most `bound` events of together `bound_bytes` wait, and the next caller gets TooBusy: memory stays bounded and the
    sender knows. At most `largest` of them share a transaction.
    """

    def __init__(
        self, append: Append, *, largest: int = 1000, bound: int = 10_000, bound_bytes: int = 64 * 2**20
    ) -> None:
        self._append = append
        self._largest = largest
        self._bound = bound
        self._bound_bytes = bound_bytes
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._stopping = True
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin; to be called in the event loop that appends."""
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="coalescer")

    async def stop(self) -> None:
        """Append what waits, then end."""
        self._stopping = True
        self._arrived.set()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def __aenter__(self) -> Coalescer:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def depth(self) -> int:
        """How many events wait, those that are being written not among them."""
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """How many bytes of events wait or are being written."""
        return self._bytes

    async def append(self, event: Decoded) -> Appended:
        """Append one event and return what became of it, after the commit; TooBusy where too many wait."""
        if self._stopping or self._loop is None:
            raise ServiceUnavailable("the service is stopping.", remedy="Retry.")
        if len(self._waiting) >= self._bound or self._bytes + len(event.raw) > self._bound_bytes:
            raise TooBusy(
                f"{self.depth:,} events of {self._bytes:,} bytes wait to be written.",
                remedy="Retry after a second, or send batches.",
            )
        answer: asyncio.Future[Appended] = self._loop.create_future()
        self._bytes += len(event.raw)
        self._waiting.append((event, answer, spans.context()))
        self._arrived.set()
        return await answer

    async def _run(self) -> None:
        while not (self._stopping and not self._waiting):
            await self._arrived.wait()
            # Once round the loop: what has arrived together is written together.
            await asyncio.sleep(0)
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            if not self._waiting and not self._stopping:
                self._arrived.clear()
            if batch:
                await self._flush(batch)

    async def _flush(self, waiting: list[_Waiting]) -> None:
        # One transaction for several requests: below the first of them, linked to the others.
        requests = [context for _, _, context in waiting if context is not None]
        parent, links = (requests[0], requests[1:]) if requests else (None, ())
        try:
            with spans.span("coalesce", parent=parent, links=links):
                answers = await self._append([event for event, _, _ in waiting])
        except BaseException as error:
            # The callers must not wait for ever for an answer that will not come.
            document = error if isinstance(error, Exception) else ServiceUnavailable("the service is stopping.")
            for _, answer, _ in waiting:
                if not answer.done():
                    answer.set_exception(document)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer, _), appended in zip(waiting, answers, strict=True):
                if not answer.done():
                    answer.set_result(appended)
        finally:
            self._bytes -= sum(len(event.raw) for event, _, _ in waiting)
