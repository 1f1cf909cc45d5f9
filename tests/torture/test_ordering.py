"""Many writers, one order: a reader that only knows its last position misses nothing and sees nothing twice."""

from __future__ import annotations

import os
import random
import threading
from array import array
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ingest.log.verify import verify_log
from tests.torture.ordering import Plan, start_reader, start_writers, told

EVENTS = int(os.environ.get("ASSAY_TORTURE_EVENTS", "500000"))
SHORT = Plan(writers=4, events=5_000)
LONG = Plan(writers=8, events=-(-EVENTS // 8))
UNLOCKED = Plan(writers=6, events=5_000, locked=False, shared=0.0, cancelled=0.0)
_VICTIM = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
ORDER BY random() LIMIT 1
"""


class Terminator:
    """Ends a random backend of the database that is at work, again and again, at most `every_s` apart."""

    def __init__(self, url: str, every_s: float) -> None:
        self.ended = 0
        self._url = url
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Terminator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        dice = random.Random(7)
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stop.wait(dice.random() * self._every_s):
                self.ended += len(connection.execute(_VICTIM).fetchall())


def committed(url: str) -> array[int]:
    with psycopg.connect(url) as connection:
        return array("q", (row[0] for row in connection.execute("SELECT position FROM event ORDER BY position")))


def write_and_tail(database: Any, folder: Path, plan: Plan) -> array[int]:
    seen = array("q")
    with start_reader(database.url, folder / "seen"):
        processes = start_writers(database.url, plan, folder)
        for process in processes:
            process.join()
    assert [process.exitcode for process in processes] == [0] * plan.writers
    seen.frombytes((folder / "seen").read_bytes())
    return seen


@pytest.mark.parametrize("plan", [SHORT, pytest.param(LONG, marks=pytest.mark.torture)], ids=["short", "long"])
def test_a_tailing_reader_misses_none_and_sees_none_twice(plan, database, tmp_path, figures):
    with Terminator(database.url, every_s=0.5) as terminator:
        seen = write_and_tail(database, tmp_path, plan)
    there = committed(database.url)
    assert len(there) == plan.writers * plan.events
    assert seen == there
    verified = verify_log(database.url)
    assert (verified.events, verified.breaks) == (len(there), [])
    writers = told(tmp_path)
    assert sum(one.duplicates for one in writers) > 0
    assert sum(one.cancelled for one in writers) > 0
    figures(
        f"{len(there):,} events by {plan.writers} writers; {there[-1] - len(there):,} positions unused; "
        f"{sum(one.cancelled for one in writers):,} appends cancelled midway, {terminator.ended:,} backends ended, "
        f"{sum(one.duplicates for one in writers):,} duplicates; missed 0, twice 0; hash chain valid"
    )


def test_without_the_lock_the_same_reader_does_miss_some(database, tmp_path, figures):
    seen = write_and_tail(database, tmp_path, UNLOCKED)
    there = committed(database.url)
    assert len(there) == UNLOCKED.writers * UNLOCKED.events
    missed = len(set(there) - set(seen))
    assert missed > 0
    figures(f"{missed:,} of {len(there):,} events missed ({missed / len(there):.0%})")
