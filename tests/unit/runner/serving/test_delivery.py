"""Promise against delivery: what keeps a promise, what breaks it, and what decides nothing."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from domain.configuration import Execution, Hardware, Model, Runtime, Workload
from domain.endpoints.events import DeliveryObserved, Promise
from domain.events import DELIVERY_OBSERVED, decode_event
from runner.campaign.event_payloads import stamped
from runner.serving import delivery
from runner.serving.delivery import FEWEST_CALLS, Delivery, RunningCalls, Served, judge

PROMISE = Promise(latency_ms=9.0, low=8.0, high=10.0, coverage=0.8, origin="predicted")
SERVED = Served(
    endpoint="vit",
    server="0192f0c1-2345-7000-8000-000000000001",
    model=Model(id="google/vit-base-patch16-224"),
    workload=Workload(mode="inference", scenario="single_stream", batch_size=2),
    execution=Execution(platform="openvino", runtime=Runtime(name="openvino", version="2026.4.1"), precision="fp32"),
    hardware=Hardware(id="amd-epyc-9005-2c", kind="cpu", count=1),
    promise=PROMISE,
)


def series(source: random.Random, count: int, *, median_ms: float, kinship: float, heavy: bool) -> list[float]:
    """Return times with this true median; each depends on the one before, and heavy tails have no mean."""
    state, values = source.gauss(), []
    for _ in range(count):
        values.append(median_ms * math.exp(math.sinh(state) if heavy else 0.2 * state))
        state = kinship * state + math.sqrt(1 - kinship**2) * source.gauss()
    return values


@pytest.mark.parametrize(
    ("median_ms", "verdict", "word"),
    [(9.5, "kept", "As promised"), (5.0, "kept", "Faster"), (14.0, "broken", "Slower"), (10.0, "undecided", "within")],
)
def test_verdict_follows_where_the_interval_of_the_median_lies(median_ms: float, verdict: str, word: str) -> None:
    judgement = judge(PROMISE, series(random.Random(4), 800, median_ms=median_ms, kinship=0.0, heavy=False))
    assert judgement.verdict == verdict
    assert word in judgement.reason


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("kinship", [0.0, 0.5, 0.9, 0.97])
def test_promise_that_is_right_is_called_broken_in_at_most_five_percent_of_windows(kinship: float, heavy: bool) -> None:
    source = random.Random(f"{kinship} {heavy}")
    windows = [
        judge(PROMISE, series(source, count, median_ms=PROMISE.high, kinship=kinship, heavy=heavy)).verdict
        for count in [120, 300, 600] * 40
    ]
    # The seed is fixed: 6 of 120 windows are 5 %.
    assert windows.count("broken") <= 6


@pytest.mark.parametrize("heavy", [False, True])
def test_promise_that_is_wrong_is_called_broken(heavy: bool) -> None:
    source = random.Random(7)
    windows = [
        judge(PROMISE, series(source, 1000, median_ms=20.0, kinship=0.5, heavy=heavy)).verdict for _ in range(20)
    ]
    assert windows.count("broken") == 20


def test_calls_that_all_depend_on_each_other_decide_nothing() -> None:
    judgement = judge(PROMISE, [5.0] * 100 + [50.0] * 100)
    assert judgement.verdict == "undecided"
    assert "depend" in judgement.reason


@pytest.mark.parametrize(("other", "shared", "word"), [(0, 0, "Too few"), (300, 10, "Other batch"), (10, 300, "Load")])
def test_reason_says_why_too_few_calls_count(other: int, shared: int, word: str) -> None:
    judgement = judge(PROMISE, [9.0] * 40, other=other, shared=shared)
    assert judgement.verdict == "undecided"
    assert word in judgement.reason
    assert str(FEWEST_CALLS) in judgement.reason


def test_broken_promise_names_a_busy_machine() -> None:
    calls = series(random.Random(1), 300, median_ms=20.0, kinship=0.0, heavy=False)
    assert "busy" in judge(PROMISE, calls, load=3.1).reason
    assert "busy" not in judge(PROMISE, calls, load=0.1).reason


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def collected(served: Served = SERVED) -> tuple[Delivery, list[DeliveryObserved], Clock]:
    windows: list[DeliveryObserved] = []
    clock = Clock()
    return Delivery(served, windows.append, window_s=60, now=clock), windows, clock


def test_window_has_the_calls_of_the_promised_batch_that_ran_alone() -> None:
    collector, windows, clock = collected()
    for latency in series(random.Random(2), 200, median_ms=9.0, kinship=0.0, heavy=False):
        collector.called(latency, 2)
        collector.called(500.0, 1)
        collector.called(500.0, 2, alone=False)
        collector.answered(latency + 1.0)
    collector.failed()
    clock.pass_by(60)
    collector.roll()
    (window,) = windows
    assert (window.requests, window.failures, window.verdict) == (201, 1, "kept")
    assert window.latency_ms
    assert window.latency_ms.n == 200
    assert window.latency_ms.max is not None
    assert window.latency_ms.max < 100
    assert window.throughput_per_s == pytest.approx(1000 / 60)
    assert window.until - window.since == timedelta(seconds=60)


def test_windows_follow_each_other_and_the_last_ends_with_the_endpoint() -> None:
    collector, windows, clock = collected()
    collector.answered(1.0)
    clock.pass_by(61)
    collector.answered(2.0)
    collector.roll()
    clock.pass_by(5)
    collector.answered(3.0)
    collector.close()
    assert [window.requests for window in windows] == [2, 1]
    assert windows[0].until == windows[1].since
    clock.pass_by(100)
    collector.roll()
    collector.close()
    assert len(windows) == 2


def test_running_window_can_be_seen_and_the_last_one_stays_until_the_next_request() -> None:
    collector, windows, clock = collected()
    assert collector.so_far() is None
    collector.answered(3.0)
    seen = collector.so_far()
    assert seen is not None
    assert (seen.requests, windows) == (1, [])
    clock.pass_by(61)
    collector.roll()
    assert collector.so_far() == windows[0]


def test_calls_of_another_length_are_not_those_of_the_promise() -> None:
    served = msgspec.structs.replace(SERVED, workload=msgspec.structs.replace(SERVED.workload, sequence_length=128))
    collector, windows, _ = collected(served)
    collector.called(9.0, 2, length=128)
    collector.called(1.0, 2, length=3)
    collector.answered(10.0)
    collector.close()
    assert windows[0].latency_ms
    assert windows[0].latency_ms.n == 1


def test_call_is_alone_only_where_no_other_one_ran_at_any_time_of_it() -> None:
    calls = RunningCalls()
    first = calls.begin()
    second = calls.begin()
    assert not calls.end(second)
    assert not calls.end(first)
    third = calls.begin()
    assert calls.end(third)


def test_endpoint_without_a_promise_reports_what_it_delivers() -> None:
    collector, windows, _ = collected(msgspec.structs.replace(SERVED, promise=None))
    for _ in range(FEWEST_CALLS):
        collector.called(9.0, 2)
    collector.answered(10.0)
    collector.close()
    assert windows[0].verdict == "undecided"
    assert windows[0].promise is None
    assert windows[0].latency_ms


def test_long_window_keeps_a_bounded_number_of_calls_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_KEPT_CALLS", 64)
    collector, windows, _ = collected()
    for index in range(1000):
        collector.called(1.0 + index, 2)
    collector.answered(1.0)
    collector.close()
    latency = windows[0].latency_ms
    assert latency
    assert latency.n is not None
    assert 32 <= latency.n < 64
    assert latency.min == 1.0
    assert latency.p50 == pytest.approx(500, rel=0.1)


def test_window_is_an_event_of_the_log() -> None:
    collector, windows, _ = collected()
    collector.answered(1.0)
    collector.close()
    event = stamped(DELIVERY_OBSERVED, windows[0], "assay-runner/test", "vit")
    assert decode_event(msgspec.json.encode(event)).type == DELIVERY_OBSERVED
