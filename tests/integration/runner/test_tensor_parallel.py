"""A model split over two real processes on the processor: what one rank gives, told as it was, and nothing that hangs."""

from __future__ import annotations

from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

import msgspec
import psutil
import pytest

from runner.machine.processor import threads_allowed
from runner.measure.stopping import Method
from runner.protocol.parent import Ended, run_task
from runner.protocol.tasks import Case, Measure, Verify
from tests.integration.runner.workbench import METHOD, case, failed

pytestmark = pytest.mark.skipif(threads_allowed() < 2, reason="two ranks need two processors")
GENERATION = {"input_tokens": 12, "output_tokens": 5}


def of_two(model: str = "assay/llama-small", **sizes: Any) -> Case:
    return msgspec.structs.replace(case(model, **(sizes or GENERATION)), options=("tensor-parallel=2",), threads=2)


def test_two_ranks_give_what_one_gives() -> None:
    ended = run_task(Verify(case=of_two()), timeout_s=120)
    assert ended.failure is None, ended.failure
    assert not failed(ended.result) and ended.result["deterministic"]
    assert [each["name"] for each in ended.result["outputs"]] == ["logits", "tokens"]


@pytest.mark.torture
def test_a_measurement_has_the_memory_and_the_work_of_all_ranks() -> None:
    ended = run_task(Measure(case=of_two(), method=METHOD), timeout_s=120)
    assert ended.failure is None, ended.failure
    result, ranks = ended.result, ended.result["observed"]["details"]["ranks"]
    assert [(rank["rank"], rank["device"], rank["threads"]) for rank in ranks] == [(0, "cpu", 1), (1, "cpu", 1)]
    assert result["peak_memory_bytes"] == sum(rank["peak_memory_bytes"] for rank in ranks)
    assert result["series"]["mean_memory_bytes"] is None and result["options"] == {"tensor_parallel": 2}
    heads, size, layers, seen, width = 2, 32, 2, 12 + 5 - 1, 4
    assert result["facts"]["kv_cache_bytes"] == 2 * 2 * layers * heads * size * seen * width


@pytest.mark.torture
@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("assay/gpt2-small", "no plan for splitting"),
        ("assay/llava-small", "cannot be divided by 2"),
    ],
)
def test_a_model_that_cannot_be_split_is_unsupported(model: str, said: str) -> None:
    failure = run_task(Measure(case=of_two(model), method=METHOD), timeout_s=120).failure
    assert failure is not None and failure.outcome == "unsupported" and failure.stage == "load"
    assert said in failure.message and failure.remedy


@pytest.mark.torture
def test_a_rank_that_dies_is_told_with_its_stage_and_nothing_is_left() -> None:
    started: list[int] = []
    ranks: list[psutil.Process] = []
    killed: list[float] = []

    def kill_the_other(stage: str) -> None:
        if stage == "run":
            ranks.extend(psutil.Process(started[0]).children())
            Timer(0.5, kill).start()

    def kill() -> None:
        killed.append(monotonic())
        ranks[0].kill()

    ended: Ended = run_task(
        Measure(case=of_two(), method=Method(iterations=10_000, budget_s=60)),
        timeout_s=120, on_start=started.append, on_stage=kill_the_other,
    )  # fmt: skip
    failure = ended.failure
    assert failure is not None and (failure.outcome, failure.stage, failure.error) == ("error", "run", "SIGKILL")
    assert failure.message.startswith("rank 1 of 2 was ended by SIGKILL") and failure.remedy
    assert monotonic() - killed[0] < 30
    assert not any(rank.is_running() for rank in ranks) and not Path(f"/proc/{started[0]}").exists()
