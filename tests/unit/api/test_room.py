"""How much of the memory bodies may take, and that they give it back."""

from __future__ import annotations

import asyncio

import pytest

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
