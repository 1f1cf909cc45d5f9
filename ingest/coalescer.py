"""Single events on their way to the log: many callers, one transaction for all that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from domain.errors import AssayError, ServiceUnavailable, TooBusy
from domain.events import Decoded
from ingest.append import Appended

__all__ = ["Coalescer"]

Append = Callable[[Sequence[Decoded]], Awaitable[list[Appended]]]
_Waiting = tuple[Decoded, "asyncio.Future[Appended]"]


class Coalescer:
    """Collects single events for at most `window_s` or `largest` of them, appends them together, then answers each.

    At most `bound` events of together `bound_bytes` wait, and the next caller gets TooBusy: memory stays bounded and the
    sender knows. While one batch is being committed the next collects, so under load the commit itself is the window.
    """

    def __init__(
        self,
        append: Append,
        *,
        window_s: float = 0.002,
        largest: int = 1000,
        bound: int = 10_000,
        bound_bytes: int = 64 * 2**20,
    ) -> None:
        self._append = append
        self._window_s = window_s
        self._largest = largest
        self._bound_bytes = bound_bytes
        self._bytes = 0
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(bound)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; to be called in the event loop that appends."""
        self._task = asyncio.create_task(self._run(), name="coalescer")

    async def stop(self) -> None:
        """Append what waits, then end."""
        if self._task is None:
            return
        task, self._task = self._task, None
        await self._queue.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def __aenter__(self) -> Coalescer:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def append(self, event: Decoded) -> Appended:
        """Append one event and return what became of it, after the commit; TooBusy where too many wait."""
        if self._task is None:
            raise ServiceUnavailable("the service is stopping.", remedy="Retry.")
        if self._queue.full() or self._bytes + len(event.raw) > self._bound_bytes:
            raise TooBusy(
                f"{self.depth:,} events of {self._bytes:,} bytes wait to be written.",
                remedy="Retry after a second, or send batches.",
            )
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._bytes += len(event.raw)
        self._queue.put_nowait((event, answer))
        return await answer

    @property
    def depth(self) -> int:
        """How many events wait."""
        return self._queue.qsize()

    async def _run(self) -> None:
        while True:
            waiting = await self._collect()
            try:
                await self._flush(waiting)
            finally:
                for event, _ in waiting:
                    self._bytes -= len(event.raw)
                    self._queue.task_done()

    async def _collect(self) -> list[_Waiting]:
        waiting = [await self._queue.get()]
        await asyncio.sleep(self._window_s)
        while len(waiting) < self._largest and not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        return waiting

    async def _flush(self, waiting: list[_Waiting]) -> None:
        try:
            answers = await self._append([event for event, _ in waiting])
        except AssayError as error:
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
        except BaseException as error:
            # The callers must not wait for ever for an answer that will not come.
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error if isinstance(error, Exception) else ServiceUnavailable("stopping."))
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer), appended in zip(waiting, answers, strict=True):
                if not answer.done():
                    answer.set_result(appended)
