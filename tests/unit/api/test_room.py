"""How much of the memory bodies may take, and that they give it back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.body import read_body
from api.http.body_budget import BodyBudget
from api.http.problems import BodyTooSlow
from domain.errors import MalformedBody, TooBusy


def test_bodies_and_bytes_are_bounded_and_given_back():
    room = BodyBudget(bodies=2, size_bytes=100)
    with room.hold(60) as first:
        with pytest.raises(TooBusy):
            room.hold(41)
        with room.hold(10):
            first.reach(50)
            assert room.bytes == 70
            first.reach(90)
            with pytest.raises(TooBusy):
                first.reach(91)
            with pytest.raises(TooBusy):
                room.hold(0)
        assert (room.bodies, room.bytes) == (1, 90)
    assert (room.bodies, room.bytes) == (0, 0)


def sent(*chunks: bytes, wait_s: float = 0.0, end: str = "http.request"):
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": end, "body": b"", "more_body": False})

    async def receive():
        await asyncio.sleep(wait_s)
        return messages.pop(0)

    return receive


def test_a_body_without_a_length_takes_room_as_it_comes():
    async def read() -> None:
        room = BodyBudget(size_bytes=100)
        with room.hold(0) as held:
            assert await read_body(sent(b"a" * 40, b"b" * 40), {}, held, 5.0) == b"a" * 40 + b"b" * 40
            assert room.bytes == 80
        with room.hold(0) as held, pytest.raises(TooBusy):
            await read_body(sent(b"a" * 60, b"b" * 60), {}, held, 5.0)
        assert room.bytes == 0

    asyncio.run(read())


def test_a_body_that_drips_or_breaks_off_is_refused():
    async def read() -> None:
        with BodyBudget().hold(0) as held:
            with pytest.raises(BodyTooSlow):
                await read_body(sent(*[b"x"] * 100, wait_s=0.05), {}, held, 0.2)
            with pytest.raises(MalformedBody):
                await read_body(sent(b"x", end="http.disconnect"), {}, held, 5.0)

    asyncio.run(read())


Manager = Callable[[float], Any]
"""Returns the context manager of a time limit in seconds, asynchronous or not."""


def of_asyncio() -> Manager:
    return asyncio.timeout


def of_room() -> Manager:
    held = BodyBudget().hold(0)

    @contextlib.asynccontextmanager
    async def within(seconds: float):
        with held.within(seconds):
            yield

    return within


async def outcomes(limited: Manager, tasks: list[tuple[int, int, int | None, bool]]) -> list[tuple[str, int, int]]:
    """Return how each task ended, with its cancellations and when it ended, in ticks of 10 ms of a simulated clock."""
    loop = asyncio.get_running_loop()
    begin = loop.time()

    async def work(limit: int, length: int, fails: bool) -> str:
        try:
            async with limited((limit + 0.5) / 100):
                try:
                    await asyncio.sleep(length / 100)
                finally:
                    if fails:
                        raise LookupError
        except (TimeoutError, LookupError) as error:
            return type(error).__name__
        return "done"

    async def watched(limit: int, length: int, cancelled_after: int | None, fails: bool) -> tuple[str, int, int]:
        task = asyncio.create_task(work(limit, length, fails))
        if cancelled_after is not None:
            loop.call_later((cancelled_after + 0.25) / 100, task.cancel)
        await asyncio.wait([task])
        ended = "cancelled" if task.cancelled() else task.result()
        return ended, task.cancelling(), round((loop.time() - begin) * 400)

    return await asyncio.gather(*(watched(*task) for task in tasks))


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer: its tests take no time and do not depend on the machine."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0].when())
        super()._run_once()


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 8), st.none() | st.integers(0, 8), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=200, deadline=None)
def test_deadlines_under_one_timer_end_tasks_as_asyncio_timeout_does(tasks):
    ends = []
    for manager in (of_asyncio, of_room):
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            ends.append(runner.run(outcomes(manager(), tasks)))
    assert ends[0] == ends[1]
