"""What goes on beside the requests for as long as the service runs: one task, begun and ended with its owner."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["BackgroundTask"]


class BackgroundTask(ABC):
    """An async context manager around one endless task, which is cancelled at the end."""

    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow(), name=type(self).__name__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the task; once is enough."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @abstractmethod
    async def _follow(self) -> None:
        """Do it until cancelled."""
