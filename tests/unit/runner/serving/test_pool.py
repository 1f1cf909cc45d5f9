"""The pool: each model loaded once, within the budget, and by one rule of who goes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from domain.errors import Unavailable, UsageError
from runner.machine.headroom import NotEnoughMemory, available_bytes
from runner.machine.resident_memory import proportional_memory_bytes
from runner.serving.contract import Eviction, Replica, ReplicaKey
from runner.serving.pool import ReplicaPool, default_budget_bytes

PLENTY = 2**60


def key_of(weights: str) -> ReplicaKey:
    return ReplicaKey(
        weights=weights, platform="cpu", precision="fp32", device=None, threads=1, compiled=False, options=()
    )


class Loaded:
    """A replica whose memory the test sets; it refuses to be closed while the test says that it is called."""

    def __init__(self, weights: str, taken: int) -> None:
        self.key = key_of(weights)
        self.taken = taken
        self.running = True
        self.called = False

    def infer(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def alive(self) -> bool:
        return self.running

    def memory_bytes(self) -> int:
        return self.taken if self.running else 0

    def close(self) -> None:
        assert not self.called, "a replica was closed while it was called"
        self.running = False


class Machine:
    """A pool and every replica that it started; the clock counts the readings."""

    def __init__(self, budget: int) -> None:
        self.started: list[Loaded] = []
        self.evictions: list[Eviction] = []
        ticks = itertools.count()
        self.pool = ReplicaPool(
            budget, on_evict=self.evictions.append, free_bytes=lambda: PLENTY, clock=lambda: float(next(ticks))
        )

    def load(self, endpoint: str, weights: str, estimate: int, copies: int = 1, taken: int | None = None) -> list[Any]:
        return self.pool.acquire(endpoint, key_of(weights), self.starter(weights, taken or estimate), estimate, copies)

    def starter(self, weights: str, taken: int) -> Callable[[], Replica]:
        def start() -> Loaded:
            self.started.append(Loaded(weights, taken))
            return self.started[-1]

        return start

    def running(self) -> int:
        return sum(replica.memory_bytes() for replica in self.started)

    @property
    def evicted(self) -> list[str]:
        return [name for eviction in self.evictions for name in eviction.endpoints]


def test_endpoints_with_one_key_share_replicas_until_the_last_leaves() -> None:
    machine = Machine(1000)
    first = machine.load("a", "vit", 300, copies=2)
    second = machine.load("b", "vit", 300)
    assert second == first[:1]
    assert len(machine.started) == 2
    machine.pool.release("a")
    assert [replica.running for replica in machine.started] == [True, False]
    machine.pool.release("b")
    assert machine.running() == machine.pool.used_bytes() == 0


def test_least_recently_used_endpoint_is_evicted_and_loaded_again_when_it_is_called() -> None:
    machine = Machine(1000)
    for name in ("a", "b"):
        machine.load(name, name, 400)
    machine.pool.touch("a")
    machine.load("c", "c", 400)
    assert machine.evicted == ["b"]
    assert not machine.pool.holds("b")
    with machine.pool.calling("b"):
        assert machine.load("b", "b", 400)[0].alive()
    assert machine.evicted == ["b", "a"]


def test_shared_replicas_are_as_recent_as_the_endpoint_that_used_them_last() -> None:
    machine = Machine(1000)
    machine.load("a", "shared", 400)
    machine.load("b", "other", 400)
    machine.load("c", "shared", 400)
    machine.load("d", "new", 400)
    assert machine.evicted == ["b"]


def test_refusal_names_who_takes_what_and_evicts_nobody_in_vain() -> None:
    machine = Machine(1_000_000_000)
    machine.load("pinned", "a", 400_000_000)
    machine.pool.pin("pinned")
    machine.load("busy", "b", 300_000_000)
    machine.load("idle", "c", 100_000_000)
    with machine.pool.calling("busy"), pytest.raises(Unavailable) as refused:
        machine.load("new", "d", 500_000_000)
    assert refused.value.field == "memory-budget"
    for taker in ("pinned 0.40 GB (pinned)", "busy 0.30 GB (1 request)", "idle 0.10 GB (idle)"):
        assert taker in refused.value.detail
    assert machine.evictions == []
    machine.pool.pin("pinned", False)
    machine.load("new", "d", 500_000_000)
    assert machine.evicted == ["pinned"]


def test_model_that_the_budget_can_never_hold_is_refused_at_once() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 900)
    with pytest.raises(NotEnoughMemory):
        machine.load("b", "b", 600, copies=2)
    assert machine.evictions == []
    assert machine.pool.holdings()[0].endpoints == ("a",)


@pytest.mark.parametrize(("copies", "estimate"), [(0, 10), (1, 0)])
def test_request_for_nothing_is_refused(copies: int, estimate: int) -> None:
    with pytest.raises(UsageError):
        Machine(1000).load("a", "a", estimate, copies, taken=10)


def test_memory_that_other_programs_take_is_not_given_out() -> None:
    pool = ReplicaPool(1000, free_bytes=lambda: 50)
    with pytest.raises(Unavailable, match="other programs"):
        pool.acquire("a", key_of("a"), lambda: Loaded("a", 100), 100)


def test_default_budget_leaves_a_part_of_what_is_free() -> None:
    assert 0 < default_budget_bytes() < available_bytes() * 0.9


def test_estimate_counts_until_the_first_answer_and_the_measured_memory_afterwards() -> None:
    machine = Machine(1000)
    (replica,) = machine.load("a", "a", 400, taken=100)
    assert machine.pool.used_bytes() == 400
    with machine.pool.calling("a"):
        replica.taken = 150
    assert machine.pool.used_bytes() == 150


def test_evicted_model_is_reloaded_with_what_it_took_before_as_its_estimate() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 100, taken=700)
    with machine.pool.calling("a"):
        pass
    machine.load("b", "b", 400)
    assert machine.evicted == ["a"]
    with machine.pool.calling("b"), pytest.raises(Unavailable):
        machine.load("a", "a", 100)


def test_replica_that_takes_more_than_is_free_is_closed_again_and_says_so() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 600)
    with machine.pool.calling("a"), pytest.raises(Unavailable, match="expected"):
        machine.load("b", "b", 100, taken=900)
    assert machine.running() == 600


def test_start_that_fails_leaves_nothing_behind() -> None:
    machine = Machine(1000)
    starts = iter([machine.starter("a", 100)])

    def start() -> Replica:
        return next(starts)()

    with pytest.raises(StopIteration):
        machine.pool.acquire("a", key_of("a"), start, 100, 2)
    assert machine.running() == machine.pool.used_bytes() == 0
    assert machine.pool.holdings() == ()


def test_scaling_that_fails_leaves_the_endpoint_as_it_was() -> None:
    machine = Machine(1000)
    before = machine.load("a", "a", 400)
    with pytest.raises(NotEnoughMemory):
        machine.load("a", "a", 400, copies=3)
    assert machine.load("a", "a", 400) == before


def test_replica_whose_process_has_ended_is_replaced() -> None:
    machine = Machine(1000)
    (first,) = machine.load("a", "a", 600)
    first.running = False
    (second,) = machine.load("a", "a", 600)
    assert second is not first
    assert machine.pool.used_bytes() == 600


def test_endpoint_that_goes_to_another_platform_leaves_its_old_replica() -> None:
    machine = Machine(1000)
    machine.load("a", "on openvino", 600)
    machine.load("a", "on torch", 600)
    assert [replica.running for replica in machine.started] == [False, True]


def test_growth_beyond_the_budget_evicts_idle_endpoints() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 400)
    (grown,) = machine.load("b", "b", 400)
    grown.taken = 700
    machine.pool.measure()
    assert machine.evicted == ["a"]
    assert machine.pool.used_bytes() == 700


def test_overrun_of_called_endpoints_is_mended_when_the_first_call_ends() -> None:
    machine = Machine(1000)
    replicas = [machine.load(name, name, 500)[0] for name in ("a", "b")]
    with machine.pool.calling("a"):
        with machine.pool.calling("b"):
            replicas[0].taken = 800
            machine.pool.measure()
            assert machine.evictions == []
            with pytest.raises(Unavailable):
                machine.load("c", "c", 10)
        assert machine.evicted == ["b"]


def test_caller_that_gives_up_does_not_wait_for_an_eviction() -> None:
    machine = Machine(1000)
    (replica,) = machine.load("a", "a", 400)
    with suppress(TimeoutError), machine.pool.calling("a"):
        replica.taken = 1200
        machine.pool.measure()
        raise TimeoutError
    assert machine.evicted == []
    machine.pool.measure()
    assert machine.evicted == ["a"]


@pytest.mark.parametrize("let_go", [lambda pool: pool.pin("a", False), lambda pool: pool.release("a")])
def test_overrun_of_a_pinned_replica_is_mended_when_nobody_pins_it(let_go: Callable[[ReplicaPool], None]) -> None:
    machine = Machine(1000)
    (shared,) = machine.load("a", "shared", 500)
    machine.load("b", "shared", 500)
    machine.pool.pin("a")
    shared.taken = 1200
    machine.pool.measure()
    assert machine.evictions == []
    let_go(machine.pool)
    assert "b" in machine.evicted
    assert machine.running() == 0


def test_endpoint_removed_during_a_call_is_closed_when_the_call_ends() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 400)
    with machine.pool.calling("a"):
        machine.pool.release("a")
        assert machine.running() == 400
        with pytest.raises(Unavailable):
            machine.load("a", "other", 100)
    assert machine.running() == 0
    machine.load("a", "a", 400)


def test_closed_pool_holds_nothing_and_starts_nothing() -> None:
    machine = Machine(1000)
    machine.load("a", "a", 400)
    machine.load("b", "b", 400)
    machine.pool.close()
    assert machine.running() == machine.pool.used_bytes() == 0
    with pytest.raises(Unavailable):
        machine.load("a", "a", 400)


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException | None]]:
    """Run a call in a thread of its own; the list gets what it raised, or None, when it is over."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_memory_of_a_replica_that_still_starts_is_not_given_to_another() -> None:
    machine = Machine(1000)
    begun, go_on = threading.Event(), threading.Event()

    def start() -> Replica:
        begun.set()
        assert go_on.wait(30)
        return machine.starter("a", 600)()

    thread, outcome = in_thread(lambda: machine.pool.acquire("a", key_of("a"), start, 600))
    assert begun.wait(30)
    assert machine.pool.used_bytes() == 600
    with pytest.raises(Unavailable, match="starting"):
        machine.load("b", "b", 600)
    go_on.set()
    thread.join(30)
    assert outcome == [None]


def test_replica_waits_for_memory_that_another_one_is_giving_back() -> None:
    counted, closing, go_on = threading.Event(), threading.Event(), threading.Event()

    class Slow(Loaded):
        def close(self) -> None:
            closing.set()
            assert go_on.wait(30)
            super().close()

    def free_bytes() -> int:
        if closing.is_set():
            counted.set()
        return PLENTY

    pool = ReplicaPool(1000, free_bytes=free_bytes)
    pool.acquire("a", key_of("a"), lambda: Slow("a", 600), 600)
    removing, _ = in_thread(lambda: pool.release("a"))
    assert closing.wait(30)
    loading, outcome = in_thread(lambda: pool.acquire("b", key_of("b"), lambda: Loaded("b", 600), 600))
    assert counted.wait(30)
    go_on.set()
    loading.join(30)
    removing.join(30)
    assert outcome == [None]
    assert pool.used_bytes() == 600


NAMES = st.sampled_from("abcdef")
WEIGHTS = st.sampled_from("uvwx")


class Sequences(RuleBasedStateMachine):
    """Any order of acquiring, releasing, calling, growing, ending and pinning."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(1000)
        self.calls: dict[str, tuple[ExitStack, list[Loaded]]] = {}
        self.released: set[str] = set()

    @rule(
        name=NAMES, weights=WEIGHTS, estimate=st.integers(1, 500), taken=st.integers(1, 600), copies=st.integers(1, 2)
    )
    def acquire(self, name: str, weights: str, estimate: int, taken: int, copies: int) -> None:
        if name in self.calls:
            return
        try:
            replicas = self.machine.load(name, weights, estimate, copies, taken)
        except (Unavailable, NotEnoughMemory):
            return
        assert len(replicas) == copies
        assert all(replica.alive() for replica in replicas)

    @rule(name=NAMES, weights=WEIGHTS, estimate=st.integers(1, 500))
    def begin_call(self, name: str, weights: str, estimate: int) -> None:
        if name in self.calls:
            return
        stack = ExitStack()
        stack.enter_context(self.machine.pool.calling(name))
        try:
            replicas = self.machine.load(name, weights, estimate)
        except (Unavailable, NotEnoughMemory):
            stack.close()
            return
        for replica in replicas:
            replica.called = True
        self.calls[name] = stack, replicas

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def end_call(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.calls)))
        stack, replicas = self.calls.pop(name)
        others = [replica for _, called in self.calls.values() for replica in called]
        for replica in replicas:
            replica.called = replica in others
        stack.close()

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        self.machine.pool.release(name)

    @rule(name=NAMES, pinned=st.booleans())
    def pin(self, name: str, pinned: bool) -> None:
        self.machine.pool.pin(name, pinned)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        self.machine.pool.touch(name)

    @rule(data=st.data(), by=st.integers(1, 300))
    def grow(self, data: st.DataObject, by: int) -> None:
        running = [replica for replica in self.machine.started if replica.running]
        if running:
            data.draw(st.sampled_from(running)).taken += by
            self.machine.pool.measure()

    @invariant()
    def budget_holds(self) -> None:
        """More than the budget is taken only by what the rule forbids to evict."""
        pool = self.machine.pool
        assert self.machine.running() <= pool.used_bytes()
        if pool.used_bytes() > pool.budget_bytes:
            assert all(holding.pinned or holding.requests for holding in pool.holdings())

    @invariant()
    def nothing_leaks(self) -> None:
        running = sum(replica.running for replica in self.machine.started)
        assert running == sum(holding.copies for holding in self.machine.pool.holdings())

    def teardown(self) -> None:
        for stack, replicas in self.calls.values():
            for replica in replicas:
                replica.called = False
            stack.close()
        self.machine.pool.close()
        assert self.machine.running() == 0


Sequences.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSequences = Sequences.TestCase


def test_threads_never_exceed_the_budget_nor_close_what_another_calls() -> None:
    pool = ReplicaPool(1000, free_bytes=lambda: PLENTY)
    lock = threading.Lock()
    started: list[Counted] = []
    excess: list[int] = []

    class Counted(Loaded):
        calls = 0

        def close(self) -> None:
            with lock:
                assert self.calls == 0
                self.running = False

    def starter(weights: str) -> Callable[[], Replica]:
        def start() -> Counted:
            with lock:
                started.append(Counted(weights, 300))
                excess.append(sum(replica.memory_bytes() for replica in started) - 1000)
                return started[-1]

        return start

    def serve(name: str) -> None:
        random = Random(name)
        for _ in range(150):
            weights = random.choice("uvwx") if random.random() < 0.1 else name[0]
            try:
                with pool.calling(name):
                    (replica,) = pool.acquire(name, key_of(weights), starter(weights), 300)
                    assert isinstance(replica, Counted)
                    with lock:
                        assert replica.running
                        replica.calls += 1
                    with lock:
                        replica.calls -= 1
            except Unavailable:
                refused.append(name)
            if random.random() < 0.05:
                pool.release(name)
        pool.release(name)
        finished.append(name)

    refused: list[str] = []
    finished: list[str] = []
    names = ["u1", "u2", "v1", "w1", "x1", "x2"]
    threads = [threading.Thread(target=serve, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(finished) == names
    assert max(excess) <= 0
    assert pool.used_bytes() == 0
    assert not any(replica.running for replica in started)


CHILD = """
import resource, sys
held = []
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print("ready", flush=True)
for line in sys.stdin:
    try:
        held.append(b"x" * int(line))
        print("took", flush=True)
    except MemoryError:
        print("refused", flush=True)
"""


class Process:
    """A real process that takes memory, under a limit of the operating system on its address space."""

    def __init__(self, weights: str, taken: int, limit: int) -> None:
        self.key = key_of(weights)
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD, str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout
        self._child.stdout.readline()
        if self.take(taken) != "took":
            self.close()
            raise MemoryError

    def take(self, count: int) -> str:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(f"{count}\n")
        self._child.stdin.flush()
        return self._child.stdout.readline().strip()

    def infer(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def alive(self) -> bool:
        return self._child.poll() is None

    def memory_bytes(self) -> int:
        return proportional_memory_bytes(self._child.pid)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream
            stream.close()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        if process.alive():
            process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on a process's address space is Linux's")
def test_real_processes_stay_within_the_budget_under_a_memory_limit(processes: list[Process]) -> None:
    budget, each, limit = 120_000_000, 40_000_000, 150_000_000
    pool = ReplicaPool(budget, free_bytes=lambda: PLENTY)
    peak = 0

    def start() -> Process:
        processes.append(Process("", 25_000_000, limit))
        return processes[-1]

    for name in "abcdab":
        with pool.calling(name):
            pool.acquire(name, key_of(name), start, each)
        peak = max(peak, sum(process.memory_bytes() for process in processes if process.alive()))
    assert 2 * 25_000_000 < peak <= budget
    grown = next(process for process in reversed(processes) if process.alive())
    assert grown.take(60_000_000) == "took"
    pool.measure()
    assert sum(process.memory_bytes() for process in processes if process.alive()) <= budget
    assert grown.take(500_000_000) == "refused"
    pool.close()
    assert not any(process.alive() for process in processes)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on a process's address space is Linux's")
def test_process_that_meets_its_limit_while_it_loads_takes_nothing_of_the_budget(processes: list[Process]) -> None:
    pool = ReplicaPool(100_000_000, free_bytes=lambda: PLENTY)
    with pytest.raises(MemoryError):
        pool.acquire("a", key_of("a"), lambda: Process("a", 90_000_000, 60_000_000), 50_000_000)
    assert pool.used_bytes() == 0
    assert pool.holdings() == ()
