"""Measuring calls whose cost is known."""

from __future__ import annotations

import gc
import subprocess
import sys
import time

import msgspec

from domain.verdicts import judge
from runner.measure.measuring import Series, circumstances_of, measure
from runner.measure.stopping import Method


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_times_are_those_of_the_call_and_its_synchronization() -> None:
    series = measure(lambda: spin(0.002), lambda: spin(0.001), Method(iterations=20))
    ordered = sorted(series.samples_ms)
    assert len(ordered) == 20 and series.stopped_by == "iterations"
    assert ordered[0] >= 3.0
    assert series.elapsed_ms >= sum(series.samples_ms)


def test_slow_first_calls_stay_in_the_warm_up() -> None:
    costs = iter([0.03, 0.02, 0.015, 0.01])
    series = measure(lambda: spin(next(costs, 0.002)), lambda: None, Method(budget_s=1.0, iterations=20))
    assert series.steady
    assert max(series.warmup_ms) >= 30
    assert len(series.warmup_ms) >= 4


def test_a_series_that_never_settles_says_so() -> None:
    cost = 0.008

    def growing() -> None:
        nonlocal cost
        cost = min(cost * 2.5, 0.3)
        spin(cost)

    series = measure(growing, lambda: None, Method(budget_s=0.2))
    assert not series.steady


def test_the_budget_ends_a_noisy_series() -> None:
    flip = iter([0.001, 0.003] * 10_000)
    series = measure(lambda: spin(next(flip)), lambda: None, Method(budget_s=0.3))
    assert series.stopped_by == "budget"
    assert series.elapsed_ms >= 300


def test_the_collector_is_off_while_measuring_and_as_it_was_afterwards() -> None:
    seen: list[bool] = []
    assert gc.isenabled()
    measure(lambda: seen.append(gc.isenabled()), lambda: None, Method(iterations=5, budget_s=0.1))
    assert not any(seen)
    assert gc.isenabled()


def test_a_busy_call_uses_its_core_and_memory_is_seen() -> None:
    series = measure(lambda: spin(0.01), lambda: None, Method(budget_s=0.6, iterations=50))
    assert series.conditions.utilisation is not None and series.conditions.utilisation > 0.05
    assert series.conditions.other_load is not None and 0 <= series.conditions.other_load <= 1.01
    assert series.mean_memory_bytes is not None and series.mean_memory_bytes > 5_000_000


def test_the_steady_state_has_an_index_and_the_end_a_reason() -> None:
    series = measure(lambda: spin(0.002), lambda: None, Method(budget_s=0.4, iterations=15))
    assert series.conditions.steady_after == len(series.warmup_ms) >= 10
    assert series.conditions.steady_after_ms == sum(series.warmup_ms)
    assert (series.conditions.steady, series.conditions.stopped_by) == (series.steady, "iterations")


CONTINUED_TWICE = f"""
import os, signal, sys
import msgspec
from {measure.__module__} import measure
from {Method.__module__} import Method

before = signal.getsignal(signal.SIGCONT)
calls = iter(range(100_000))
series = measure(
    lambda: os.kill(os.getpid(), signal.SIGCONT) if next(calls) in (1, 4) else sum(range(50_000)),
    lambda: None,
    Method(budget_s=0.4, iterations=15),
)
assert signal.getsignal(signal.SIGCONT) == before
sys.stdout.buffer.write(msgspec.json.encode(series))
"""
"""In a process of its own: pytest's stack for signals is too small once a library has used the wide registers of AMX."""


def test_a_process_that_was_stopped_and_continued_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", CONTINUED_TWICE], capture_output=True, check=True)
    series = msgspec.json.decode(done.stdout, type=Series)
    assert series.conditions.stops == 2
    validity = judge(series.samples_ms, ["latency_ms"], circumstances_of(msgspec.to_builtins(series), None))
    assert "the process was stopped and continued 2 times" in validity.reasons


def test_a_loop_says_how_fast_the_processor_was_before_and_after() -> None:
    series = measure(lambda: spin(0.001), lambda: None, Method(budget_s=0.2, iterations=10))
    assert series.conditions.speed_ratio is not None and 0.3 < series.conditions.speed_ratio < 3
    assert series.conditions.loop_lost_share is not None and 0 <= series.conditions.loop_lost_share <= 1
    resolution = series.conditions.timer_resolution_ms
    assert resolution is not None and 0 < resolution < 0.05
