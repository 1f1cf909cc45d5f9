"""Training on two real ranks of this machine: the right gradients, what is measured of each, and no rank that is missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import msgspec
import psutil
import pytest

from domain.errors import ServiceUnavailable, UsageError
from domain.payloads import Observed
from domain.verdicts import judge
from runner.campaign.execution import measure_case
from runner.machine.processor import affinity, threads_allowed
from runner.measure.measuring import circumstances_of
from runner.measure.stopping import Method
from runner.platforms.torch_eager import Cpu
from runner.protocol.nodes import Nodes, connect, listen
from runner.protocol.parent import Ended, run_task
from runner.protocol.ranks import node_key, node_report
from runner.protocol.tasks import Case, Follow, Measure, Verify
from tests.integration.runner.workbench import METHOD, Stages, case, failed

pytestmark = pytest.mark.skipif(threads_allowed() < 2, reason="two ranks need two processors")


def of_two(option: str, nodes: Nodes | None = None) -> Case:
    single = case("assay/gpt2-small", mode="training", optimizer="adamw", batch_size=4, sequence_length=16)
    return msgspec.structs.replace(single, options=(option,), threads=2, nodes=nodes)


def test_gradients_of_two_ranks_equal_those_of_one_on_the_whole_batch() -> None:
    command = [sys.executable, "-m", "tests.integration.runner.rank_gradients"]
    with subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        port = first.stdout.readline().strip()
        second = subprocess.run([*command, "1", port], capture_output=True, text=True, timeout=120, check=False)
        rest = first.stdout.read()
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    differences = [float(word) for word in (*rest.split(), *second.stdout.split())]
    assert len(differences) == 4 and max(differences) < 1e-5


def test_each_rank_is_measured_and_two_on_one_core_are_suspect() -> None:
    started: list[int] = []
    core = (affinity() or [0])[0]

    def pin(stage: str) -> None:
        if stage == "run":
            child = psutil.Process(started[0])
            for process in (child, *child.children()):
                for thread in Path(f"/proc/{process.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {core})

    ended = run_task(
        Measure(case=of_two("data-parallel=2"), method=METHOD), timeout_s=120, on_start=started.append, on_stage=pin
    )
    assert ended.failure is None, ended.failure
    result, details = ended.result, ended.result["observed"]["details"]
    ranks, communication = details["ranks"], details["communication"]
    assert [(rank["rank"], rank["device"], rank["threads"]) for rank in ranks] == [(0, "cpu", 1), (1, "cpu", 1)]
    assert result["peak_memory_bytes"] == sum(rank["peak_memory_bytes"] for rank in ranks)
    assert result["options"] == {
        "data_parallel": 2, "strategy": "ddp", "nodes": 1, "backend": "gloo", "local_batch_size": 2,
    }  # fmt: skip
    assert communication["all_reduce_ms"] > 0 and communication["gradient_bytes"] % 4 == 0
    assert communication["exposed_ms"] == ranks[0]["exposed_communication_ms"] >= 0
    assert {"forward_ms", "backward_ms", "optimizer_ms"} <= result["parts"].keys()
    # Two ranks cannot have more than the one core that both are bound to.
    assert sum(rank["computing_core_share"] for rank in ranks) < 1.2
    observed = msgspec.convert(result["observed"], Observed)
    verdict = judge(result["series"]["samples_ms"], ["latency_ms"], circumstances_of(result["series"], observed))
    assert verdict.verdict == "suspect" and sum("of a core while it computed" in why for why in verdict.reasons) >= 1


def test_a_rank_that_is_killed_is_one_failure_that_names_it() -> None:
    started: list[int] = []
    ranks: list[psutil.Process] = []

    def kill_the_other(stage: str) -> None:
        if stage == "run":
            ranks.extend(psutil.Process(started[0]).children())
            Timer(0.2, ranks[0].kill).start()

    ended = run_task(
        Measure(case=of_two("fsdp=2"), method=Method(iterations=8000, budget_s=60)),
        timeout_s=120, on_start=started.append, on_stage=kill_the_other,
    )  # fmt: skip
    failure = ended.failure
    assert failure is not None and (failure.outcome, failure.stage, failure.error) == ("error", "run", "SIGKILL")
    assert failure.message.startswith("rank 1 of 2 was ended by SIGKILL") and failure.remedy
    assert not any(rank.is_running() for rank in ranks) and not Path(f"/proc/{started[0]}").exists()


def test_a_node_that_never_comes_is_named() -> None:
    nodes = Nodes(hosts=("127.0.0.1", "elsewhere.invalid"), port=free_port(), wait_s=1)
    with pytest.raises(ServiceUnavailable, match=r"node 1 \(elsewhere.invalid\) did not come within 1 s") as refused:
        measure_case(Measure(case=of_two("fsdp=2", nodes), method=METHOD), Stages())
    assert "--node-rank 1" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"case": "another"}, "was started for other work"), ({"devices": ("acme-9",)}, "has acme-9, and node 0")],
)
def test_a_node_with_other_work_or_other_devices_is_named(changes: dict[str, Any], said: str) -> None:
    nodes = Nodes(hosts=("127.0.0.1", "elsewhere.invalid"), port=free_port(), wait_s=30)
    asked = of_two("fsdp=2", nodes)
    report = msgspec.structs.replace(node_report(asked, Cpu()), **changes)

    def come() -> None:
        connect("127.0.0.1", nodes.port, 30).set(node_key(1), msgspec.json.encode(report))

    node = Thread(target=come)
    node.start()
    with pytest.raises(UsageError, match=rf"node 1 \(elsewhere.invalid\) {said}"):
        measure_case(Measure(case=asked, method=METHOD), Stages())
    node.join()


@pytest.mark.torture
@pytest.mark.parametrize("option", ["data-parallel=2", "fsdp=2"])
def test_two_ranks_learn_what_one_learns(option: str) -> None:
    ended = run_task(Verify(case=of_two(option)), timeout_s=120)
    assert ended.failure is None, ended.failure
    assert failed(ended.result) == []


@pytest.mark.torture
def test_a_rank_killed_on_another_node_is_named_on_the_first() -> None:
    nodes = Nodes(hosts=("127.0.0.1", "127.0.0.2"), port=free_port(), wait_s=60)
    started: list[int] = []
    follower = in_thread(Follow(case=of_two("data-parallel=2", msgspec.structs.replace(nodes, rank=1))), started)

    def kill_the_other(stage: str) -> None:
        if stage == "run":
            Timer(0.5, lambda: psutil.Process(started[0]).children()[0].kill()).start()

    method = Method(iterations=8000, budget_s=60)
    ended = run_task(
        Measure(case=of_two("data-parallel=2", nodes), method=method), timeout_s=120, on_stage=kill_the_other
    )
    for failure in (ended.failure, follower().failure):
        assert failure is not None and failure.error == "SIGKILL"
        assert failure.message.startswith("rank 1 of 2 on node 1 (<address>) was ended by SIGKILL")


def in_thread(task: Any, started: list[int] | None = None) -> Any:
    """Run a task beside this test; the function that is returned waits for how it ended."""
    ends: list[Ended] = []
    thread = Thread(
        target=lambda: ends.append(run_task(task, timeout_s=120, on_start=([] if started is None else started).append))
    )
    thread.start()

    def wait() -> Ended:
        thread.join()
        return ends[0]

    return wait


def free_port() -> int:
    store, port = listen(None)
    del store
    return port
