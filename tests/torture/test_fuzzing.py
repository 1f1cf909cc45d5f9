"""What a fuzzer gets past the gate is stored, read back byte by byte, and passes the gate again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from domain.events import Decoded, decode_event
from ingest.log.event_log import EventLog
from tests.torture.fuzzing import fuzz

SECONDS = float(os.environ.get("ASSAY_TORTURE_FUZZ_S", "600"))


async def stored(url: str, events: Sequence[Decoded]) -> dict[str, str | None]:
    async with EventLog(url) as log:
        for begin in range(0, len(events), 1000):
            await log.append(events[begin : begin + 1000])
        found: dict[str, str | None] = {}
        after = 0
        while page := await log.read(after=after, limit=1000):
            found |= {event.id: event.body for event in page}
            after = page[-1].position
    return found


@pytest.mark.parametrize("seconds", [2.0, pytest.param(SECONDS, marks=[pytest.mark.torture])], ids=["short", "long"])
def test_what_the_fuzzer_gets_past_the_gate_comes_back_as_it_was(seconds, database, figures):
    told = fuzz(seconds, seed=5)
    first: dict[str, Decoded] = {}
    for event in told.kept:
        first.setdefault(event.id, event)
    back = asyncio.run(stored(database.url, list(first.values())))
    assert back == {event.id: event.raw.decode() for event in first.values()}
    for body in back.values():
        decode_event(body or "")
    figures(
        f"{told.tried:,} inputs in {seconds:.0f} s; {told.taken:,} taken; {told.answers:,} different answers; slowest "
        f"{told.slowest_s * 1000:.0f} ms; {len(back):,} stored and read back as they were"
    )
