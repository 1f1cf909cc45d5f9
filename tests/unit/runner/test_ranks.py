"""What of a split model is refused before a process is started, and the devices and parallelism that a row has."""

from __future__ import annotations

from typing import Any

import pytest

from domain.configuration import Workload
from domain.errors import AssayError
from runner.campaign.event_payloads import execution_of
from runner.platforms.torch_eager import Cpu, Mps
from runner.protocol.ranks import address, require_splittable
from runner.protocol.tasks import Case


def case(mode: str = "inference", **how: Any) -> Case:
    workload = Workload(mode=mode, batch_size=1)
    return Case(model="m", workload=workload, **{"platform": "cpu", "precision": "fp32"} | how)


@pytest.mark.parametrize(
    ("asked", "size", "said"),
    [
        (case("training"), 1, "inference and generation"),
        (case(compiled=True), 1, "--compiled"),
        (case(precision="int8"), 1, "int8 are not split"),
        (case(), 4096, "4096 ranks need 4096 processors of cpu"),
        (case(device="cpu"), 1, "cpu was named"),
    ],
)
def test_what_cannot_be_split_is_refused_with_what_to_do(asked: Case, size: int, said: str) -> None:
    with pytest.raises(AssayError, match=said) as refused:
        require_splittable(asked, Cpu(), size)
    assert refused.value.remedy


def test_a_platform_without_ranks_has_one() -> None:
    with pytest.raises(AssayError, match="2 ranks need 2 devices of mps, and 1 can be used"):
        require_splittable(case(platform="mps"), Mps(), 2)
    assert address(Cpu(), 1) == "cpu" and address(Mps(), 1) == "mps:1"


def test_a_row_says_over_how_many_ranks_its_layers_were_split() -> None:
    observed = {
        "platform": "cuda",
        "precision": "fp16",
        "details": {"ranks": [{"device": "cuda:0"}, {"device": "cuda:1"}]},
    }
    result = {"observed": observed, "runtime": {"name": "torch"}, "threads": 2, "options": {"tensor_parallel": 2}}
    execution = execution_of(case(), result)
    assert execution.parallelism is not None and execution.parallelism.tensor == 2
    assert execution.parallelism.pipeline is None and execution.options is None
