"""Differences of counters whose answer is known, and the counters of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from runner.measure.spinning import spin
from runner.measure.system_counters import Reading, between, counted_stops, processors, reading

START = Reading(
    wall_s=100.0,
    own_s=10.0,
    busy_s=500.0,
    steal_s=4.0,
    waiting_s=1.0,
    quota_s=0.0,
    thermal_events=7,
    swap_bytes=0,
    swapped_bytes=0,
)


def later(**changes: float) -> Reading:
    values = {name: getattr(START, name) for name in Reading.__struct_fields__}
    return Reading(**(values | changes))


def test_other_load_is_what_is_busy_beyond_this_process() -> None:
    whole = 2.0 * len(processors())
    found = between(START, later(wall_s=102.0, own_s=11.0, busy_s=501.0 + whole / 4, steal_s=4.0 + whole / 10))
    assert found.other_load == pytest.approx(0.25)
    assert found.steal_share == pytest.approx(0.1)
    assert (found.wall_s, found.own_s) == (2.0, 1.0)


def test_waiting_and_quota_are_of_the_wall_time() -> None:
    found = between(START, later(wall_s=104.0, waiting_s=3.0, quota_s=1.0, thermal_events=9))
    assert (found.waiting, found.quota_share, found.thermal_events) == (0.5, 0.25, 2)


def test_too_short_a_time_has_no_shares_of_the_machine() -> None:
    found = between(START, later(wall_s=100.2, busy_s=501.0))
    assert found.other_load is None and found.steal_share is None
    assert found.waiting == 0.0


def test_counters_that_are_not_there_stay_unknown() -> None:
    bare = later(steal_s=None, waiting_s=None, quota_s=None, thermal_events=None)
    found = between(bare, later(wall_s=101.0))
    assert (found.steal_share, found.waiting, found.quota_share, found.thermal_events) == (None, None, None, None)


def test_this_process_sees_its_own_work_as_its_own() -> None:
    start = reading()
    spin(0.4)
    found = between(start, reading())
    assert found.own_s > 0.05
    assert found.other_load is not None and 0 <= found.other_load <= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="macOS binds no process to a processor")
def test_a_thread_that_shares_its_processor_waits_for_it() -> None:
    allowed = os.sched_getaffinity(0)
    chosen = {min(allowed)}
    os.sched_setaffinity(0, chosen)
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None and busy.stdout.readline()
        start = reading()
        loop = spin(0.6)
        found = between(start, reading())
    finally:
        busy.kill()
        busy.communicate()
        os.sched_setaffinity(0, allowed)
    assert found.waiting is None or found.waiting > 0.2
    assert found.other_load is not None and found.other_load > 0.2
    assert loop.lost_share > 0.2


def test_another_thread_cannot_watch_signals_and_says_nothing() -> None:
    seen: list[list[int]] = []

    def watch() -> None:
        with counted_stops() as stops:
            seen.append(stops)

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert seen == [[]]
