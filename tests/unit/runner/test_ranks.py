"""Ranks that are refused before a process is started, nodes as they are named, and what a row says of its ranks."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from domain.configuration import Hardware, Parallelism, Workload
from domain.errors import AssayError, ServiceUnavailable, UnsupportedWorkload, UsageError
from domain.payloads import Observed
from domain.verdicts import Circumstances, judge
from runner.campaign.event_payloads import execution_of, used_hardware
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.plan_file import read_plan
from runner.campaign.resume import case_key
from runner.platforms.base import Rank
from runner.platforms.data_parallel import local_part, require_values
from runner.platforms.execution_options import ExecutionOptions
from runner.platforms.torch_eager import Cpu, Mps
from runner.protocol.nodes import Nodes, listen, read_nodes
from runner.protocol.ranks import address, require_ranks, unreachable
from runner.protocol.tasks import Case

TWO_NODES = Nodes(hosts=("a", "b"))


def case(mode: str = "inference", batch: int = 4, **how: Any) -> Case:
    workload = Workload(mode=mode, batch_size=batch)
    return Case(model="m", workload=workload, **{"platform": "cpu", "precision": "fp32"} | how)


@pytest.mark.parametrize(
    ("asked", "strategy", "ranks", "said"),
    [
        (case("training"), "tensor", 1, "data-parallel and fsdp"),
        (case(), "ddp", 2, "data-parallel is for training"),
        (case(), "fsdp2", 2, "fsdp is for training"),
        (case(compiled=True), "tensor", 1, "--compiled"),
        (case("training", compiled=True), "ddp", 2, "--compiled"),
        (case(precision="int8"), "tensor", 1, "int8 are not split"),
        (case(), "tensor", 4096, "4096 ranks need 4096 processors of cpu"),
        (case("training", batch=4096), "ddp", 4096, "4096 ranks need 4096 processors of cpu"),
        (case("training", batch=4096, nodes=TWO_NODES), "ddp", 4096, "2048 ranks need 2048 processors of cpu"),
        (case(device="cpu"), "tensor", 1, "cpu was named"),
        (case("training", batch=3), "ddp", 2, "a batch of 3 cannot be divided by 2 ranks"),
        (case("training", batch=3, nodes=TWO_NODES), "fsdp2", 3, "3 ranks cannot be divided by 2 nodes"),
        (case(nodes=TWO_NODES), "tensor", 2, "devices of one machine"),
        (case("training", nodes=TWO_NODES), None, 1, "none are asked for"),
    ],
)
def test_ranks_that_cannot_be_are_refused_with_a_remedy(asked: Case, strategy: Any, ranks: int, said: str) -> None:
    with pytest.raises(AssayError, match=said) as refused:
        require_ranks(asked, Cpu(), ExecutionOptions(strategy=strategy, ranks=ranks))
    assert refused.value.remedy and refused.value.field


def test_a_platform_without_ranks_has_one() -> None:
    with pytest.raises(AssayError, match="2 ranks need 2 devices of mps, and 1 can be used"):
        require_ranks(case(platform="mps"), Mps(), ExecutionOptions(strategy="tensor", ranks=2))
    assert address(Cpu(), 1) == "cpu" and address(Mps(), 1) == "mps:1"


def test_a_plan_refuses_a_batch_that_its_ranks_cannot_divide_and_ranks_that_no_case_can_have() -> None:
    sweep = Sweep(models=("bert-tiny",), platforms=("cpu",), modes=("training",), options=((), ("fsdp=2",)))
    with pytest.raises(UsageError, match="batch of 3") as refused:
        make_plan(Sweep(**{**fields(sweep), "batch_sizes": (2, 3)}))
    assert refused.value.field == "batch_sizes"
    with pytest.raises(UnsupportedWorkload, match="fsdp is for training"):
        make_plan(Sweep(**{**fields(sweep), "modes": ("inference",), "options": (("fsdp=2",),)}))
    mixed = make_plan(Sweep(**{**fields(sweep), "modes": ("inference", "training"), "batch_sizes": (2,)}))
    assert len(mixed.cases) == 4


def fields(sweep: Sweep) -> dict[str, Any]:
    return {name: getattr(sweep, name) for name in sweep.__struct_fields__}


def test_a_plan_names_its_nodes_and_the_command_says_which_of_them_this_is(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "assay: 1\nnodes: [10.0.0.1:29501, 10.0.0.2]\nsweeps:\n  - models: [bert-tiny]\n    platforms: [cpu]\n"
        "    modes: [training]\n    batch_sizes: [4]\n    options: [[data-parallel=2]]\n"
    )
    plan: Plan = read_plan(path).plan(1)
    assert plan.nodes == Nodes(hosts=("10.0.0.1", "10.0.0.2"), port=29501, rank=1)
    assert [each.nodes for each in plan.cases] == [plan.nodes]
    with pytest.raises(UsageError, match="which of them this is"):
        read_plan(path).plan()


@pytest.mark.parametrize(
    ("names", "rank", "field"),
    [
        (["a;reboot", "b"], 0, "nodes"),
        (["$(id)", "b"], 0, "nodes"),
        (["-oProxyCommand=x", "b"], 0, "nodes"),
        (["a b", "c"], 0, "nodes"),
        (["a\nb", "c"], 0, "nodes"),
        (["a", "b:1"], 0, "nodes"),
        (["a:0", "b"], 0, "nodes"),
        (["a:99999", "b"], 0, "nodes"),
        (["a" * 300, "b"], 0, "nodes"),
        (["a", "A"], 0, "nodes"),
        (["a"], 0, "nodes"),
        (["a", "b"], None, "node_rank"),
        (["a", "b"], 2, "node_rank"),
        ([], 0, "node_rank"),
    ],
)
def test_names_that_are_no_hosts_and_nodes_without_their_rank_are_refused(
    names: list[str], rank: int | None, field: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_nodes(names, rank)
    assert refused.value.field == field and refused.value.remedy


@given(st.lists(st.text(max_size=30), min_size=2, max_size=3))
def test_any_text_is_a_host_or_refused(names: list[str]) -> None:
    try:
        nodes = read_nodes(names, 0)
    except UsageError:
        return
    assert nodes is not None
    assert all(set(host) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-:") and host[0] != "-" for host in nodes.hosts)


def test_a_port_that_is_taken_and_a_first_node_that_is_elsewhere_are_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServiceUnavailable, match=f"port {port} of 127.0.0.1 is taken"):
            listen(Nodes(hosts=("127.0.0.1", "b"), port=port))
    with pytest.raises(UsageError, match="no address of this machine") as refused:
        listen(Nodes(hosts=("192.0.2.1", "b")))
    assert refused.value.field == "node_rank"


def test_a_batch_is_divided_with_all_that_belongs_to_its_items() -> None:
    inputs = {
        "ids": torch.arange(8).reshape(4, 2),
        "labels": [{"boxes": index} for index in range(4)],
        "nested": {"mask": torch.ones(4, 3)},
        "scale": torch.tensor(2.0),
        "positions": torch.zeros(1, 2),
        "flag": True,
    }
    first, second = (local_part(inputs, 4, Rank(index=index, size=2, port=1)) for index in range(2))
    assert torch.equal(torch.cat([first["ids"], second["ids"]]), inputs["ids"])
    assert [each["boxes"] for each in first["labels"] + second["labels"]] == [0, 1, 2, 3]
    assert first["nested"]["mask"].shape == (2, 3) and first["positions"].shape == (1, 2)
    assert first["flag"] is True and float(second["scale"]) == 2.0
    with pytest.raises(UnsupportedWorkload, match="patches has 12 rows for 4 items"):
        local_part({"patches": torch.zeros(12, 5)}, 4, Rank(index=0, size=2, port=1))


def test_parameters_without_values_are_not_shared_out() -> None:
    with torch.device("meta"):
        module = torch.nn.Linear(2, 2)
    with pytest.raises(UnsupportedWorkload, match="weight is on the meta device"):
        require_values(module)


def test_ranks_of_a_node_are_numbered_from_its_first_device() -> None:
    ranks = [Rank(index=index, size=4, port=1, nodes=2) for index in range(4)]
    assert [(rank.node, rank.local_index) for rank in ranks] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_node_that_does_not_answer_is_told_in_words() -> None:
    of_two = Rank(index=0, size=2, port=1, nodes=2)
    lost = unreachable(RuntimeError("[gloo/transport/tcp/buffer.cc:72] Timed out waiting 20000ms for recv"), of_two)
    assert lost is not None and "node 1 does not answer (timed out)" in lost.detail and lost.remedy
    many = unreachable(RuntimeError("Connection closed by peer"), Rank(index=2, size=3, port=1, nodes=3))
    assert many is not None and "one of the nodes 0, 1" in many.detail
    assert unreachable(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), of_two) is None
    assert unreachable(RuntimeError("Connection closed by peer"), Rank(index=0, size=2, port=1)) is None


def test_a_row_says_over_how_many_ranks_its_work_was_divided() -> None:
    observed = {
        "platform": "cuda",
        "precision": "fp16",
        "details": {"ranks": [{"device": "cuda:0"}, {"device": "cuda:1"}]},
    }
    result = {"observed": observed, "runtime": {"name": "torch"}, "threads": 2, "options": {"tensor_parallel": 2}}
    execution = execution_of(case(), result)
    assert execution.parallelism == Parallelism(tensor=2) and execution.options is None
    options = {"data_parallel": 2, "strategy": "fsdp2", "nodes": 2, "backend": "nccl", "local_batch_size": 2}
    trained = execution_of(case("training"), {**result, "options": options})
    assert trained.parallelism == Parallelism(data=2)
    assert trained.options == {"strategy": "fsdp2", "nodes": 2, "backend": "nccl", "local_batch_size": 2}


def test_the_devices_of_all_nodes_count() -> None:
    ranks = [{"rank": index, "node": index // 2, "device": f"cuda:{index % 2}"} for index in range(4)]
    observed = Observed(details={"ranks": ranks})
    assert used_hardware(Hardware(id="nvidia-l4", kind="gpu"), observed).count == 4
    on_processors = Observed(details={"ranks": [{"rank": 0, "device": "cpu"}, {"rank": 1, "device": "cpu"}]})
    assert used_hardware(Hardware(id="amd-epyc", kind="cpu"), on_processors).count == 1


def test_a_case_on_nodes_is_another_case_than_on_one() -> None:
    alone = case("training", options=("fsdp=2",))
    assert case_key("m", alone) != case_key("m", case("training", options=("fsdp=2",), nodes=TWO_NODES))


@pytest.mark.parametrize(
    ("share", "device", "verdict"), [(0.89, "cpu", "suspect"), (0.9, "cpu", "valid"), (0.2, "cuda:1", "valid")]
)
def test_a_rank_without_a_core_of_its_own_makes_times_suspect_in_words(share: float, device: str, verdict: str) -> None:
    ranks = [
        {"rank": 0, "device": device, "computing_core_share": 1.0},
        {"rank": 1, "device": device, "computing_core_share": share},
    ]
    circumstances = Circumstances(observed=Observed(details={"ranks": ranks}))
    validity = judge([10.0 + index % 3 / 10 for index in range(30)], ["latency_ms", "peak_memory_bytes"], circumstances)
    assert (
        validity.metrics["latency_ms"].verdict == verdict and validity.metrics["peak_memory_bytes"].verdict == "valid"
    )
    if verdict == "suspect":
        assert validity.reasons == ["rank 1 had 89% of a core while it computed"]
