"""Whoever appends at the same time, through the coalescer or in batches: the answers are those of one after the other.

The model is a list. Each id belongs to whoever comes first; who comes later with the same content is told its position,
and with another content, that it conflicts. A version that was expected held at the moment of the append.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.errors import TooBusy, VersionConflict
from domain.events import Decoded, decode_event
from ingest.log.append import Appended, Expected
from ingest.log.coalescer import Coalescer
from ingest.log.event_log import EventLog

SUBJECTS = 2
_rounds = itertools.count()


class Step(msgspec.Struct, frozen=True):
    """One call: `how` one, batch or expecting; its events as (number, content, spelling)."""

    how: str
    events: tuple[tuple[int, int, int], ...]
    yields: int


class Done(msgspec.Struct, frozen=True):
    """What a call was answered, with the version that it expected of its subject."""

    events: list[Decoded]
    answers: list[Appended] | None
    expected: Expected | None = None


events = st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 1))
steps = st.one_of(
    st.builds(Step, st.just("one"), st.tuples(events), st.integers(0, 3)),
    st.builds(Step, st.just("batch"), st.lists(events, min_size=1, max_size=6).map(tuple), st.integers(0, 3)),
    st.builds(Step, st.just("expecting"), st.lists(events, min_size=1, max_size=3).map(tuple), st.integers(0, 3)),
)
writers = st.lists(st.lists(steps, min_size=1, max_size=4), min_size=2, max_size=6)


def subject_of(space: str, number: int) -> str:
    return f"{space}-{number % SUBJECTS}"


def event(space: str, number: int, content: int, spelling: int) -> Decoded:
    gap = "  " if spelling else ""
    return decode_event(
        f'{{"specversion":"1.0","id":"{uuid.uuid5(uuid.NAMESPACE_OID, f"{space}/{number}")}","source":"urn:a",{gap}'
        f'"type":"model.checked.v1","subject":"{subject_of(space, number)}","data":{{"content":{content}}}}}'
    )


async def write(log: EventLog, coalescer: Coalescer, space: str, todo: list[Step], done: list[Done]) -> None:
    for step in todo:
        for _ in range(step.yields):
            await asyncio.sleep(0)
        batch = [event(space, *one) for one in step.events]
        if step.how == "one":
            done.append(Done(batch, [await coalescer.append(batch[0])]))
        elif step.how == "batch":
            done.append(Done(batch, await log.append(batch)))
        else:
            subject = subject_of(space, step.events[0][0])
            before = await log.read(subject=subject)
            expected = Expected(subject=subject, version=before[-1].position if before else 0)
            try:
                done.append(Done(batch, await log.append(batch, expected=expected), expected))
            except VersionConflict:
                done.append(Done(batch, None, expected))


async def run(url: str, todo: list[list[Step]]) -> None:
    space = f"round-{next(_rounds)}"
    done: list[Done] = []
    async with EventLog(url, connections=4) as log:
        async with Coalescer(log.append, largest=3) as coalescer:
            await asyncio.gather(*(write(log, coalescer, space, one, done) for one in todo))
        stored = [event for number in range(SUBJECTS) for event in await log.read(subject=subject_of(space, number))]
    judge(done, {event.id: event for event in stored}, space)


def judge(done: list[Done], stored: dict[str, Any], space: str) -> None:
    accepted: dict[str, int] = {}
    for call in done:
        if call.answers is None:
            continue
        assert len(call.answers) == len(call.events)
        fresh = [answer.position for answer in call.answers if answer.status == "accepted"]
        assert fresh == sorted(fresh)
        for sent, answer in zip(call.events, call.answers, strict=True):
            there = stored[sent.id]
            assert answer.position == there.position
            same = sent.event == there.event
            assert (answer.status == "conflict") == (not same)
            assert answer.difference == (None if same else "data.content")
            if answer.status == "accepted":
                assert sent.raw.decode() == there.body
                accepted[sent.id] = accepted.get(sent.id, 0) + 1
        if call.expected is not None and fresh:
            held = [one.position for one in stored.values() if one.subject == call.expected.subject]
            assert max((place for place in held if place < fresh[0]), default=0) == call.expected.version
    assert accepted == dict.fromkeys(stored, 1)
    refused = [call for call in done if call.answers is None]
    for call in refused:
        assert call.expected is not None
        held = [one.position for one in stored.values() if one.subject == call.expected.subject]
        assert max(held) > call.expected.version


@pytest.mark.parametrize("examples", [25, pytest.param(1500, marks=pytest.mark.torture)], ids=["short", "long"])
def test_every_interleaving_is_answered_as_if_one_came_after_the_other(examples, database):
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 100,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(writers)
    def check(todo: list[list[Step]]) -> None:
        asyncio.run(run(database.url, todo))

    with psycopg.connect(database.url, autocommit=True) as connection:
        # What is shown here is order, not durability; without waiting for the disk there are ten times as many.
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off")
    check()


def test_a_full_coalescer_refuses_the_next_and_keeps_what_it_took(database):
    async def full() -> tuple[list[Any], int]:
        gate = asyncio.Event()
        async with EventLog(database.url) as log:

            async def append(batch: Any) -> list[Appended]:
                await gate.wait()
                return await log.append(batch)

            async with Coalescer(append, largest=5, bound=10) as coalescer:
                calls = [asyncio.create_task(coalescer.append(event("full", number, 0, 0))) for number in range(40)]
                async with asyncio.timeout(30):
                    while sum(call.done() for call in calls) < 25:  # no more than 15 are taken
                        await asyncio.sleep(0)
                gate.set()
                answers = await asyncio.gather(*calls, return_exceptions=True)
            return list(answers), len(await log.read())

    answers, there = asyncio.run(full())
    taken = [answer for answer in answers if isinstance(answer, Appended)]
    refused = [answer for answer in answers if isinstance(answer, TooBusy)]
    assert len(taken) + len(refused) == 40
    assert 10 <= len(taken) <= 15
    assert there == len(taken)
    assert all(error.status == 429 and error.remedy for error in refused)
