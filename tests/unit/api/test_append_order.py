"""Bodies of many events are checked one after the other, and small ones between them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from api.http.body_budget import BodyBudget
from api.routes import append
from domain.events import Decoded, decode_event, encode_event, new_event
from ingest.log.append import Appended


def body(source: str, events: int) -> list[bytes]:
    return [encode_event(new_event("com.example.thing", {}, source=source)) for _ in range(events)]


def test_a_large_body_is_committed_before_the_next_one_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: Counter[str] = Counter()
    at_commit: dict[str, Counter[str]] = {}

    def counted(raw: bytes) -> Decoded:
        event = decode_event(raw)
        checked[event.source] += 1
        return event

    async def commit(events: Sequence[Decoded], _: object) -> list[Appended]:
        at_commit[events[0].source] = checked.copy()
        return [Appended(position=number + 1, status="accepted") for number in range(len(events))]

    async def run() -> list[Any]:
        parts: Any = SimpleNamespace(
            room=BodyBudget(), append=commit, metrics=SimpleNamespace(events=lambda *_: None), projects=False
        )
        bodies = [body("first", 1000), body("second", 1000), body("small", 3)]
        return await asyncio.gather(*(append.take(parts, events, None) for events in bodies))

    monkeypatch.setattr(append, "decode_event", counted)
    answers = asyncio.run(run())
    assert [receipt.accepted for receipt, _ in answers] == [1000, 1000, 3]
    assert at_commit["first"]["second"] == 0
    assert at_commit["small"]["first"] < 1000
