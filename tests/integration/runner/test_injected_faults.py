"""Faults that are really made, each caught and labelled: by the verdicts where a number came out, else as a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from domain.configuration import Workload
from domain.payloads import Validity
from domain.verdicts import judge
from runner.campaign.event_payloads import observed_of
from runner.measure.measuring import circumstances_of
from runner.measure.stopping import Method
from runner.protocol.parent import Ended, run_task
from runner.protocol.tasks import Case, Measure

BUSY = "print(flush=True)\nwhile True: pass"
DUTY_CYCLE = """
import os, signal, time
print(flush=True)
child = int(input())
while True:
    try:
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.04)
        os.kill(child, signal.SIGCONT)
        time.sleep(0.04)
    except ProcessLookupError:
        break
"""


def case(model: str, platform: str, threads: int = 1) -> Case:
    workload = Workload(mode="inference", batch_size=1, sequence_length=64 if platform != "saboteur" else None)
    return Case(model=model, platform=platform, precision="fp32", workload=workload, weights="random", threads=threads)


def measured(platform: str = "cpu", threads: int = 1, **options: Any) -> Ended:
    method = options.pop("method", Method(budget_s=1.0, iterations=60))
    task = Measure(case=case("prajjwal1/bert-tiny", platform, threads), method=method)
    return run_task(task, timeout_s=options.pop("timeout_s", 120), **options)


def verdicts(ended: Ended, platform: str = "cpu") -> Validity:
    assert ended.failure is None, ended.failure
    observed = observed_of(case("prajjwal1/bert-tiny", platform), ended.result["observed"])
    series = ended.result["series"]
    return judge(series["samples_ms"], ["latency_ms", "peak_memory_bytes"], circumstances_of(series, observed))


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that prints a line when it is ready, and end it."""
    running = subprocess.Popen([sys.executable, "-c", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None and running.stdout.readline()
        yield running
    finally:
        running.kill()
        running.communicate()


@contextmanager
def two_processors() -> Iterator[None]:
    """Bind what this process starts to two processors, so that one busy one is half of the machine everywhere."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_busy_core_is_seen_and_makes_times_suspect_but_not_memory() -> None:
    with two_processors(), process(BUSY):
        ended = measured(threads=2, method=Method(budget_s=1.0))
    found = verdicts(ended)
    assert found.metrics["latency_ms"].verdict == "suspect"
    assert any("other work used" in reason for reason in found.reasons), found.reasons
    assert found.metrics["peak_memory_bytes"].verdict == "valid"


def test_duty_cycle_throttling_by_a_third_process_is_seen() -> None:
    started: list[int] = []
    with process(DUTY_CYCLE) as throttler:

        def throttle(stage: str) -> None:
            if stage == "run":
                assert throttler.stdin is not None
                throttler.stdin.write(b"%d\n" % started[0])
                throttler.stdin.flush()

        ended = measured(method=Method(budget_s=2.0, iterations=400), on_start=started.append, on_stage=throttle)
    found = verdicts(ended)
    assert found.verdict == "suspect"
    assert any("stopped and continued" in reason for reason in found.reasons), found.reasons


def test_four_warm_up_calls_stay_out_of_the_samples_and_are_seen_where_they_are_left_in(
    plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_SABOTAGE", "run:slow-start")
    task = Measure(case=case("example/doubling", "saboteur"), method=Method(iterations=60), folder=str(converted))
    ended = run_task(task, timeout_s=60)
    assert ended.failure is None
    series = ended.result["series"]
    assert sum(value >= 50 for value in series["warmup_ms"]) == 4
    assert sum(value >= 50 for value in series["samples_ms"]) == 0
    # The quickest calls first: one that a neighbour held up right behind the four would be counted too, and rightly.
    slow = [value for value in series["warmup_ms"] if value >= 50]
    left_in = judge([*slow, *sorted(series["samples_ms"])], ["latency_ms"], circumstances_of(series, None))
    assert any(reason.startswith("warm-up left in: the first 4") for reason in left_in.reasons), left_in.reasons


def test_a_forced_fallback_is_invalid(plugin: Path) -> None:
    found = verdicts(measured("pretending"), "pretending")
    assert found.verdict == "invalid"
    assert "100% of the work fell back to another device" in found.reasons
    assert "asked for platform pretending, and cpu did the work" in found.reasons
    assert {verdict.verdict for verdict in found.metrics.values()} == {"invalid"}


@pytest.mark.parametrize(
    ("sabotage", "expected"),
    [
        ("load:hang", ("load", "timeout", "Timeout")),
        ("first_run:hang", ("first_run", "timeout", "Timeout")),
        ("run:hang", ("run", "timeout", "Timeout")),
        ("run:memory", ("run", "out_of_memory", "MemoryLimit")),
        ("load:exhausted", ("load", "out_of_memory", "MemoryError")),
        ("load:kill", ("load", "error", "SIGKILL")),
        ("compile:abort", ("compile", "error", "SIGABRT")),
        ("first_run:exit", ("first_run", "error", "ChildExit")),
        ("run:kill", ("run", "error", "SIGKILL")),
    ],
)
def test_hangs_memory_and_crashes_name_their_stage(
    plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch, sabotage: str, expected: tuple[str, str, str]
) -> None:
    monkeypatch.setenv("EXAMPLE_SABOTAGE", sabotage)
    task = Measure(case=case("example/doubling", "saboteur"), method=Method(budget_s=0.2), folder=str(converted))
    hangs, eats = sabotage.endswith("hang"), sabotage.endswith("memory")
    ended = run_task(task, timeout_s=3.0 if hangs else 60.0, memory_limit_bytes=300_000_000 if eats else None)
    assert ended.failure is not None and ended.result is None
    assert (ended.failure.stage, ended.failure.outcome, ended.failure.error) == expected
    assert ended.failure.remedy or ended.failure.outcome == "error"


def test_a_crash_while_resolving_names_that_stage(plugin: Path) -> None:
    task = Measure(case=case("example/doubling", "no-such-platform"), method=Method(budget_s=0.2))
    failure = run_task(task, timeout_s=60).failure
    assert failure is not None
    assert (failure.stage, failure.outcome) == ("resolve", "error")
