"""A bounded queue of requests, and which of them are answered by one call."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from time import monotonic
from typing import Any

from domain.errors import AssayError, InvalidInput, ServiceUnavailable, TooBusy
from runner.serving.contract import Tensor

__all__ = ["Batcher", "DeadlinePassed", "Request", "join", "split"]


class DeadlinePassed(ServiceUnavailable):
    """A request waited longer than it may."""

    type = "deadline-passed"
    status = 504


class Request:
    """One request: its inputs, how many items they are, and the future of its outputs; `deadline` is on the monotonic clock."""

    __slots__ = ("arrived", "deadline", "future", "inputs", "rows", "signature")

    def __init__(self, inputs: list[Tensor], deadline_s: float) -> None:
        self.inputs = sorted(inputs, key=lambda tensor: tensor.name)
        self.rows = _rows(inputs)
        self.signature = tuple((tensor.name, tensor.array.dtype.str, tensor.array.shape[1:]) for tensor in self.inputs)
        self.arrived = monotonic()
        self.deadline = self.arrived + deadline_s
        self.future: Future[list[Tensor]] = Future()

    @property
    def waits(self) -> bool:
        """Whether somebody still waits for its answer and may get one; fails it where its time is over."""
        if self.future.cancelled() or self.future.done():
            return False
        if monotonic() < self.deadline:
            return True
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(
                DeadlinePassed(
                    f"the request waited {monotonic() - self.arrived:.1f} s in the queue, which is longer than it may.",
                    field="timeout",
                    remedy="Send it again later, give it more time, or add workers.",
                )
            )
        return False


class Batcher:
    """The queue of an endpoint. Workers take from it as many requests as one call may answer.

    A worker that is idle waits for others, and never longer than `max_wait_ms`, only while fewer requests are there than
    came during the call before: a single client never waits.
    """

    def __init__(self, *, max_batch: int, max_wait_ms: float, limit: int) -> None:
        self.max_batch = max_batch
        self.limit = limit
        self._max_wait_s = max_wait_ms / 1e3
        self._queue: deque[Request] = deque()
        self._changed = threading.Condition()
        self._crowd = 1
        self._closed: AssayError | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, request: Request) -> None:
        """Put a request into the queue; TooBusy where it is full, InvalidInput where it is larger than one call may be."""
        if request.rows > self.max_batch:
            raise InvalidInput(
                f"{request.rows} items are more than one call takes ({self.max_batch}).",
                field="inputs",
                remedy="Send fewer items a request, or serve it with a larger --max-batch.",
            )
        with self._changed:
            if self._closed is not None:
                raise self._closed
            if len(self._queue) >= self.limit:
                self._drop_the_gone()
            if len(self._queue) >= self.limit:
                busy = TooBusy(
                    f"{self.limit} requests wait already.",
                    field="queue",
                    remedy="Send it again a little later, or add workers.",
                )
                busy.retry_after_s = 1.0
                raise busy
            self._queue.append(request)
            self._changed.notify()

    def take(self, idle_s: float = 1.0) -> list[Request]:
        """Return the requests of the next call, in the order in which they came; none after `idle_s` without any."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, timeout=idle_s)
            self._drop_the_gone()
            if not self._queue:
                return []
            until = min(self._queue[0].arrived + self._max_wait_s, self._queue[0].deadline)
            wanted = min(self.max_batch, self._crowd)
            while self._queue and self._matching()[1] < wanted and (left := until - monotonic()) > 0:
                self._changed.wait(left)
            self._drop_the_gone()
            if not self._queue:
                return []
            chosen, _ = self._matching()
            for request in chosen:
                self._queue.remove(request)
            taken = [request for request in chosen if request.future.set_running_or_notify_cancel()]
            self._crowd = len(taken)
            return taken

    def answered(self) -> None:
        """Say that a call has ended: who waits now came while it ran."""
        with self._changed:
            self._crowd += len(self._queue)

    def close(self, error: AssayError) -> None:
        """Refuse what comes from now on, and what waits, with this error."""
        with self._changed:
            self._closed = error
            waiting, self._queue = list(self._queue), deque()
            self._changed.notify_all()
        for request in waiting:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(error)

    def _matching(self) -> tuple[list[Request], int]:
        """Return the first request with those that can be joined to it, and their items together."""
        first, rows = self._queue[0], 0
        chosen = []
        for request in self._queue:
            if request.signature != first.signature:
                continue
            if rows + request.rows > self.max_batch:
                break
            chosen.append(request)
            rows += request.rows
        return chosen, rows

    def _drop_the_gone(self) -> None:
        self._queue = deque(request for request in self._queue if request.waits)


def join(requests: list[Request]) -> list[Tensor]:
    """Return the inputs of one call that answers all of them."""
    import numpy as np

    if len(requests) == 1:
        return requests[0].inputs
    columns = zip(*(request.inputs for request in requests), strict=True)
    return [
        Tensor(name=column[0].name, array=np.concatenate([tensor.array for tensor in column])) for column in columns
    ]


def split(outputs: list[Tensor], requests: list[Request]) -> list[list[Tensor]]:
    """Return the outputs of each request of a call, in order."""
    if len(requests) == 1:
        return [outputs]
    parts, start = [], 0
    for request in requests:
        end = start + request.rows
        parts.append([Tensor(name=tensor.name, array=tensor.array[start:end]) for tensor in outputs])
        start = end
    return parts


def _rows(inputs: list[Tensor]) -> int:
    sizes: set[Any] = {len(tensor.array) if tensor.array.ndim else None for tensor in inputs}
    if len(sizes) != 1 or None in sizes:
        raise InvalidInput(
            "the inputs do not have the same number of items.",
            field="inputs",
            remedy="Give every input the same first axis.",
        )
    return int(sizes.pop())
