"""Writers and a tailing reader, each a process of its own, on the log's public face."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import ServiceUnavailable
from domain.events import Decoded, decode_event
from ingest.log import append
from ingest.log.event_log import EventLog

__all__ = ["Plan", "Told", "identifier", "start_reader", "start_writers", "told"]

LARGEST = 500
NO_LOCK = "SELECT 0"
"""Takes the place of the statement that takes the lock, and does nothing."""
SPAWN = multiprocessing.get_context("spawn")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What `writers` processes write: `events` each, in batches of 1 to LARGEST.

    A share of the batches is rolled back by cancelling the append midway and then sent again; with `shared`, a share
    of the events is another writer's, so that two of them may race for one id. Without `locked` nothing orders them.
    """

    writers: int
    events: int
    seed: int = 1
    locked: bool = True
    shared: float = 0.05
    cancelled: float = 0.2


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one writer did: the events that it was answered for, and how often it was interrupted."""

    acknowledged: int
    duplicates: int
    cancelled: int
    interrupted: int


def identifier(writer: int, number: int) -> str:
    """Return the id of a writer's event: writers name each other's events without talking."""
    return f"{writer:08x}-0000-4000-8000-{number:012x}"


def _event(writer: int, number: int) -> Decoded:
    return decode_event(
        f'{{"specversion":"1.0","id":"{identifier(writer, number)}","source":"urn:writer:{writer}",'
        f'"type":"torture.written.v1","subject":"{number % 97}","data":{{"writer":{writer},"number":{number}}}}}'
    )


def _batches(plan: Plan, writer: int, dice: random.Random) -> Iterator[list[Decoded]]:
    begun = 0
    while begun < plan.events:
        size = min(dice.randint(1, LARGEST), plan.events - begun)
        own = [_event(writer, number) for number in range(begun, begun + size)]
        others = [
            _event(dice.randrange(plan.writers), dice.randrange(begun + size))
            for _ in own
            if dice.random() < plan.shared
        ]
        batch = own + others
        dice.shuffle(batch)
        yield batch
        begun += size


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[EventLog]:
    """Open the log, and again where the backend of that first question is ended."""
    log = EventLog(url, connections=1, patience_s=30)
    while True:
        try:
            await log.open()
            break
        except ServiceUnavailable:
            log = EventLog(url, connections=1, patience_s=30)
    try:
        yield log
    finally:
        await log.close()


async def _write(url: str, plan: Plan, writer: int) -> Told:
    dice = random.Random(plan.seed * 1000 + writer)
    counts = dict.fromkeys(("acknowledged", "duplicates", "cancelled", "interrupted"), 0)
    async with _opened(url) as log:
        for batch in _batches(plan, writer, dice):
            while dice.random() < plan.cancelled:
                counts["cancelled"] += await _rolled_back(log, batch, dice)
            answers = None
            while answers is None:
                try:
                    answers = await log.append(batch)
                except ServiceUnavailable:
                    # Its backend was ended. Whether the batch was committed is not known: it is sent again.
                    counts["interrupted"] += 1
            assert all(answer.status != "conflict" for answer in answers)
            counts["acknowledged"] += len(batch)
            counts["duplicates"] += sum(answer.status == "duplicate" for answer in answers)
    return Told(**counts)


async def _rolled_back(log: EventLog, batch: list[Decoded], dice: random.Random) -> bool:
    """Append and give up after a moment, wherever it has come to; return whether it had not ended."""
    task = asyncio.create_task(log.append(batch))
    done, _ = await asyncio.wait([task], timeout=dice.random() * 0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return not done


def _run_writer(url: str, plan: Plan, writer: int, folder: str) -> None:
    if not plan.locked:
        assert "pg_advisory_xact_lock" in append._LOCK
        append._LOCK = NO_LOCK
    told = asyncio.run(_write(url, plan, writer))
    (Path(folder) / f"writer-{writer}.json").write_bytes(msgspec.json.encode(told))


async def _tail(url: str, page: int, reading: Any, ended: Any, seen: array[int]) -> None:
    after = 0
    async with _opened(url) as log:
        reading.set()
        while True:
            # Asked before the log is read: what was committed by then is in that reading.
            last = ended.is_set()
            try:
                events = await log.read(after=after, limit=page)
            except ServiceUnavailable:
                continue
            seen.extend(event.position for event in events)
            if events:
                after = events[-1].position
            elif last:
                return


def _run_reader(url: str, page: int, reading: Any, ended: Any, path: str) -> None:
    seen: array[int] = array("q")
    asyncio.run(_tail(url, page, reading, ended, seen))
    Path(path).write_bytes(seen.tobytes())


def start_writers(url: str, plan: Plan, folder: Path) -> list[BaseProcess]:
    """Start the writers; each leaves what it did in `folder` (see `told`) and ends with 0."""
    processes = [
        SPAWN.Process(target=_run_writer, args=(url, plan, writer, str(folder))) for writer in range(plan.writers)
    ]
    for process in processes:
        process.start()
    return processes


@contextmanager
def start_reader(url: str, path: Path, page: int = 1000) -> Iterator[None]:
    """Tail the log from position 0 in a process until the block has ended and nothing more comes.

    The block begins once the reader has opened the log: writers that have finished by then cannot show an order.
    `path` then holds the positions that it was given, in the order in which they came, as 64-bit integers.
    """
    reading, ended = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=_run_reader, args=(url, page, reading, ended, str(path)))
    process.start()
    try:
        assert reading.wait(60), "the reader has not opened the log"
        yield
    finally:
        ended.set()
        process.join(120)
        alive = process.is_alive()
        process.kill()
        process.join()
    assert not alive and process.exitcode == 0, f"the reader ended with {process.exitcode}"


def told(folder: Path) -> list[Told]:
    """Return what the writers said in the end."""
    return [msgspec.json.decode(path.read_bytes(), type=Told) for path in sorted(folder.glob("writer-*.json"))]
