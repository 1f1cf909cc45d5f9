"""Calls that are due at arrivals, with calls whose time is known."""

from __future__ import annotations

import itertools
from time import perf_counter, sleep

import pytest

from domain.verdicts import Circumstances, judge
from runner.measure.measuring import served
from runner.measure.stopping import Method

CALL_S = 0.004


def work() -> None:
    until = perf_counter() + CALL_S
    while perf_counter() < until:
        pass


def nothing() -> None:
    """Wait for nothing."""


def test_a_call_that_comes_while_another_is_served_waits_and_its_wait_counts() -> None:
    times, reason, elapsed, memory = served(work, nothing, iter([0.0, 0.0, 0.0, 0.0, 9.9]), Method(iterations=4))
    assert reason == "iterations"
    assert [round(time / (CALL_S * 1e3)) >= place for place, time in enumerate(times, 1)] == [True] * 4
    assert times == sorted(times)
    assert elapsed >= 4 * CALL_S
    assert memory[0] > 0


def test_nothing_begins_before_it_is_due() -> None:
    begun: list[float] = []
    start = perf_counter()
    served(lambda: begun.append(perf_counter() - start), nothing, iter([0.01, 0.03, 0.06, 1.0]), Method(iterations=3))
    assert all(at >= due for at, due in zip(begun, [0.01, 0.03, 0.06], strict=True))


def test_it_lasts_as_long_and_has_as_many_as_was_asked() -> None:
    every = (0.001 * index for index in itertools.count(1))
    method = Method(budget_s=0.01, min_duration_s=0.05, min_queries=60)
    times, reason, elapsed, _ = served(nothing, nothing, every, method)
    assert reason == "budget"
    assert len(times) >= 60
    assert elapsed >= 0.05


def test_arrivals_that_end_end_it() -> None:
    assert len(served(nothing, nothing, iter([0.0, 0.001]), Method(iterations=99))[0]) == 2


def test_spread_is_no_fault_of_a_queue_and_growth_is() -> None:
    spread = [1.0 if index % 3 else 9.0 for index in range(60)]
    assert judge(spread, ["latency_ms"], Circumstances()).verdict == "suspect"
    assert judge(spread, ["latency_ms"], Circumstances(due="arrival")).verdict == "valid"
    growing = [1.0 + index for index in range(60)]
    (reason,) = judge(growing, ["latency_ms"], Circumstances(due="arrival")).reasons
    assert "the queue grows" in reason
    assert judge(growing, ["latency_ms"], Circumstances(due="start")).verdict == "valid"


def test_sleeping_between_arrivals_costs_no_processor() -> None:
    from time import process_time

    before = process_time()
    served(lambda: sleep(0.001), nothing, (0.05 * index for index in range(5)), Method(iterations=4))
    assert process_time() - before < 0.1


@pytest.mark.parametrize("scenario", ["offline", "server"])
def test_a_plan_carries_the_scenario_into_its_workloads(scenario: str) -> None:
    from runner.campaign.plan import Sweep, make_plan

    rates = (4.0, 8.0) if scenario == "server" else ()
    plan = make_plan(Sweep(models=("prajjwal1/bert-tiny",), platforms=("cpu",), scenario=scenario, target_qps=rates))
    assert [case.workload.scenario for case in plan.cases] == [scenario] * max(1, len(rates))
    assert [case.workload.arrival_rate_per_s for case in plan.cases] == ([*rates] or [None])


@pytest.mark.parametrize(
    ("how", "field"),
    [
        ({"scenario": "server"}, "target_qps"),
        ({"target_qps": (4.0,)}, "target_qps"),
        ({"scenario": "server", "target_qps": (0.0,)}, "target_qps"),
        ({"scenario": "serving"}, "scenario"),
        ({"scenario": "offline", "modes": ("training",)}, "scenario"),
    ],
)
def test_scenarios_that_cannot_be_are_refused_by_field(how: dict[str, object], field: str) -> None:
    from domain.errors import UsageError
    from runner.campaign.plan import Sweep, make_plan

    with pytest.raises(UsageError) as caught:
        make_plan(Sweep(models=("prajjwal1/bert-tiny",), platforms=("cpu",), **how))  # type: ignore[arg-type]
    assert caught.value.field == field
