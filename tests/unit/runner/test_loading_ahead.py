"""Children that load code ahead give what children without it give; none is used twice, and none stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.configuration import Workload
from runner.campaign import loading_ahead
from runner.campaign.loading_ahead import LoadingAhead, code_of
from runner.measure.stopping import Method
from runner.protocol.nodes import Nodes
from runner.protocol.parent import Child, Ended
from runner.protocol.tasks import Case, Convert, Failed, Measure, Verify


class Process:
    """A process of which only is known whether it lives."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


class Loading:
    """A child without a process: it loads as it was decided, and knows what was done with it."""

    alive: list[Loading]
    loads: Iterator[bool]

    def __init__(self, case: Case) -> None:
        self.case, self.process, self.tasks = case, Process(), 0
        self.is_loaded = self.is_closed = False
        Loading.alive.append(self)

    def loaded(self, deadline: float) -> bool:
        assert deadline > 0
        self.is_loaded = next(Loading.loads)
        return self.is_loaded

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        Loading.alive.remove(self)


def case(model: str = "a", platform: str = "cpu", batch_size: int = 1, **options: object) -> Case:
    workload = Workload(mode="inference", batch_size=batch_size)
    return Case(model=model, platform=platform, precision="fp32", workload=workload, weights="random", **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_ahead, "Child", Loading)
    monkeypatch.setattr(loading_ahead, "available_bytes", lambda: 10**11)


def failed(outcome: str, error: str) -> Ended:
    return Ended(failure=Failed(stage="run", outcome=outcome, error=error, message="m"), stages=("resolve",))


ENDS = (
    Ended(result={"series": 1}),
    failed("error", "RuntimeError"),
    failed("out_of_memory", "MemoryError"),
    failed("unsupported", "NotEnoughMemory"),
)
CASES = (
    case(),
    case("b"),
    case(platform="openvino"),
    case(platform="foreign"),
    case(options=("data-parallel=2",)),
)
TASKS = (
    *(Measure(case=of, method=Method()) for of in CASES),
    *(Convert(case=of, folder="/new") for of in CASES),
    Verify(case=CASES[0]),
    Measure(case=CASES[2], method=Method(), folder="/converted"),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(TASKS), st.sampled_from(ENDS), st.booleans(), st.booleans()), max_size=12))
def test_every_task_ends_as_it_does_alone_and_each_child_has_one_task(
    plan: list[tuple[Measure | Convert | Verify, Ended, bool, bool]],
) -> None:
    Loading.alive = []
    with closing(LoadingAhead(60.0)) as ahead:
        for index, (task, alone, loads, dies) in enumerate(plan):
            Loading.loads = repeat(loads)
            runs: list[Any] = []

            def run(child: Any, task: Any = task, alone: Ended = alone, runs: list[Any] = runs) -> Ended:
                beside = [each for each in Loading.alive if each is not child]
                runs.append(child)
                # Whoever is there beside a task has loaded, and waits.
                assert len(beside) <= 1 and all(each.is_loaded for each in beside)
                if isinstance(child, Loading):
                    child.tasks += 1
                    assert child.is_loaded and child.tasks == 1 and child.process.poll() is None
                    assert code_of(child.case) == code_of(task.case) is not None
                    child.close()
                # Memory is short only beside another child.
                short = alone.failure and alone.failure.outcome in ("out_of_memory", "unsupported")
                return ENDS[0] if short and not beside else alone

            rest = [following.case for following, *_ in plan[index + 1 :]]
            short = alone.failure and alone.failure.outcome in ("out_of_memory", "unsupported")
            assert ahead.run(task, rest, run) == (ENDS[0] if short else alone)
            assert len(runs) <= 2 and (len(runs) == 1 or runs[1] is None)
            if dies:
                for each in Loading.alive:
                    each.process.code = -9
    assert Loading.alive == []


def test_the_next_case_of_the_same_code_gets_the_child_that_waits() -> None:
    Loading.alive, Loading.loads = [], repeat(True)
    taken: list[object] = []

    def run(child: Child | None) -> Ended:
        taken.append(child)
        if child:
            child.close()
        return ENDS[0]

    first, second, other = case(), case(batch_size=2), case("b")
    with closing(LoadingAhead(60.0)) as ahead:
        ahead.run(Measure(case=first, method=Method()), [case(platform="foreign"), second, other], run)
        waiting = Loading.alive[:]
        assert [each.case for each in waiting] == [second]
        ahead.run(Measure(case=first, method=Method(), folder="/converted"), [second, other], run)
        ahead.run(Measure(case=second, method=Method()), [other], run)
        ahead.run(Measure(case=other, method=Method()), [], run)
    assert taken[1] is None and taken[2] is waiting[0] and taken[3] is None


def test_the_next_model_loads_its_code_too_and_no_other_case_gets_it() -> None:
    Loading.alive, Loading.loads = [], repeat(True)
    with closing(LoadingAhead(60.0)) as ahead:
        ahead.run(Measure(case=case(), method=Method()), [case("b")], lambda child: child.close() or ENDS[0])  # type: ignore[union-attr]
        assert [each.case.model for each in Loading.alive] == ["b"]
        ended = ahead.run(Measure(case=case(), method=Method()), [], lambda child: Ended(result=child))
        assert ended.result is None and Loading.alive == []


def test_nobody_loads_ahead_where_memory_is_scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    Loading.alive = []
    monkeypatch.setattr(loading_ahead, "available_bytes", lambda: 7 * 10**9)
    with closing(LoadingAhead(60.0)) as ahead:
        ended = ahead.run(Measure(case=case(), method=Method()), [case()], lambda child: Ended(result=child))
    assert ended.result is None


@pytest.mark.parametrize(
    "other",
    [
        case("b"),
        case(threads=1),
        case(trust_remote_code=True),
        case(allow_pickle=True),
        Case(model="a", platform="cpu", precision="fp32", workload=Workload(mode="inference", batch_size=1)),
    ],
)
def test_what_decides_the_code_tells_cases_apart(other: Case) -> None:
    assert code_of(case()) == code_of(case(platform="openvino", batch_size=2)) != code_of(other)


def test_ranks_nodes_and_foreign_platforms_load_nothing_ahead() -> None:
    nodes = Nodes(rank=0, hosts=("a", "b"), port=1)
    assert [
        code_of(each) for each in (case(options=("data-parallel=2",)), case(platform="other"), case(nodes=nodes))
    ] == [None] * 3
