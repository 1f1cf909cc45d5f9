"""Children that load their code ahead: two at once, idle while another is measured, and the same figures."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import psutil
import pytest

from runner.campaign import loading_ahead
from runner.campaign.bench import run_campaign
from runner.campaign.campaign import Campaign
from runner.campaign.plan import Sweep, make_plan
from runner.campaign.run import Progress
from runner.measure.stopping import Method
from runner.protocol.parent import Child, run_task
from runner.protocol.tasks import Measure

PLAN = make_plan(
    Sweep(models=("bert-tiny",), platforms=("cpu",), batch_sizes=(1, 2), sequence_lengths=(32,), threads=(1,)),
    weights="random",
    method=Method(budget_s=0.2),
)


def bench(campaign: Campaign) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    run_campaign(campaign, events.append)
    return [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]


def test_a_plan_has_the_same_rows_with_children_that_load_ahead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loading_ahead, "_ROOM_BYTES", 0)
    started: list[Child] = []
    idle_s: list[float] = []

    class Watched(Child):
        def __init__(self, load: Any = None) -> None:
            super().__init__(load)
            started.append(self)

    monkeypatch.setattr(loading_ahead, "Child", Watched)
    campaign = Campaign(PLAN, trace=False, cache=tmp_path)

    def look(progress: Progress) -> None:
        if progress.stage in ("load", "run") and progress.done == 0:
            times = psutil.Process(started[1].process.pid).cpu_times()
            idle_s.append(times.user + times.system)

    events: list[dict[str, Any]] = []
    run_campaign(campaign, events.append, look)
    ahead = [event["data"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    assert len(started) == 2 and all(child.process.returncode is not None for child in started)
    # It waits for its task, and does nothing while the other one is measured.
    assert idle_s[-1] - idle_s[0] <= 0.02
    with monkeypatch.context() as patch:
        patch.setattr(Campaign, "loading_ahead", lambda _: nullcontext())
        plain = bench(campaign)
    assert len(started) == 2
    for one_by_one, two in zip(plain, ahead, strict=True):
        for member in ("model", "workload", "execution", "hardware"):
            assert one_by_one[member] == two[member]
        memory = [row["metrics"]["peak_memory_bytes"] for row in (one_by_one, two)]
        assert memory[1] == pytest.approx(memory[0], rel=0.02)


def test_what_cannot_be_loaded_fails_in_the_task_with_its_stage() -> None:
    lost = msgspec.structs.replace(PLAN.cases[0], model="/nowhere")
    child = Child(lost)
    assert child.loaded(monotonic() + 60)
    ended = run_task(Measure(case=lost, method=PLAN.method), timeout_s=60, child=child)
    plain = run_task(Measure(case=lost, method=PLAN.method), timeout_s=60)
    assert ended == plain
    assert ended.failure is not None and ended.failure.stage == "resolve"


def test_a_child_that_died_while_it_loaded_is_told_like_any_other() -> None:
    child = Child(PLAN.cases[0])
    child.process.kill()
    assert not child.loaded(monotonic() + 60)
    failure = run_task(Measure(case=PLAN.cases[0], method=PLAN.method), timeout_s=60, child=child).failure
    assert failure is not None and (failure.stage, failure.error) == ("resolve", "SIGKILL")
    assert child.log.closed
