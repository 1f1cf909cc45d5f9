"""Children that finish, fail, crash, hang and eat memory; each is real, and each becomes one outcome with a stage."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from domain.configuration import Workload
from domain.errors import PartMissing, UnknownPlatform
from runner.measure.stopping import Method
from runner.platforms.registry import create, names
from runner.protocol.parent import Ended, run_task
from runner.protocol.tasks import Case, Measure, Verify

CASE = Case(
    model="example/doubling",
    platform="saboteur",
    precision="fp32",
    workload=Workload(mode="inference", batch_size=1),
    weights="random",
)
METHOD = Method(budget_s=0.2)


def sabotage(
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    folder: Path,
    *,
    timeout_s: float = 30.0,
    memory_limit_bytes: int | None = None,
) -> Ended:
    monkeypatch.setenv("EXAMPLE_SABOTAGE", how)
    task = Measure(case=CASE, method=METHOD, folder=str(folder))
    return run_task(task, timeout_s=timeout_s, memory_limit_bytes=memory_limit_bytes)


def test_a_good_child_announces_every_stage_and_brings_its_series(plugin: Path, converted: Path) -> None:
    ended = run_task(Measure(case=CASE, method=METHOD, folder=str(converted)), timeout_s=30)
    assert ended.failure is None
    assert ended.stages == ("resolve", "load", "compile", "first_run", "run")
    series = ended.result["series"]
    assert len(series["samples_ms"]) >= 10 and all(value > 0 for value in series["samples_ms"])
    assert ended.result["times"]["convert_ms"] == 2.0
    assert ended.result["times"]["compile_ms"] is None
    assert 10e6 < ended.result["peak_memory_bytes"] < 1e9


@pytest.mark.parametrize("stage", ["load", "compile", "first_run", "run"])
@pytest.mark.parametrize(
    ("way", "outcome", "error"),
    [
        ("kill", "error", "SIGKILL"),
        ("raise", "error", "RuntimeError"),
    ],
)
def test_a_crash_and_an_exception_at_each_stage(
    plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch, stage: str, way: str, outcome: str, error: str
) -> None:
    failure = sabotage(monkeypatch, f"{stage}:{way}", converted).failure
    assert failure is not None
    assert (failure.stage, failure.outcome, failure.error) == (stage, outcome, error)
    assert "ada" not in failure.message and "/home" not in failure.message


@pytest.mark.parametrize(
    ("way", "outcome", "error"),
    [
        ("abort", "error", "SIGABRT"),
        ("exit", "error", "ChildExit"),
        ("exhausted", "out_of_memory", "MemoryError"),
        ("missing", "unsupported", "NotImplementedError"),
    ],
)
def test_other_ends(
    plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch, way: str, outcome: str, error: str
) -> None:
    failure = sabotage(monkeypatch, f"run:{way}", converted).failure
    assert failure is not None
    assert (failure.stage, failure.outcome, failure.error) == ("run", outcome, error)


def test_a_hang_is_ended_at_its_time(plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = sabotage(monkeypatch, "compile:hang", converted, timeout_s=2.0).failure
    assert failure is not None
    assert (failure.stage, failure.outcome) == ("compile", "timeout")
    assert failure.remedy


def test_memory_past_the_limit_ends_the_child(plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = sabotage(monkeypatch, "run:memory", converted, memory_limit_bytes=300_000_000).failure
    assert failure is not None
    assert (failure.stage, failure.outcome, failure.error) == ("run", "out_of_memory", "MemoryLimit")


def test_a_child_killed_from_outside_is_recorded_and_nothing_stays_behind(
    plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_SABOTAGE", "compile:hang")
    started: list[int] = []
    reached = threading.Event()

    def kill() -> None:
        assert reached.wait(30)
        os.kill(started[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    ended = run_task(
        Measure(case=CASE, method=METHOD, folder=str(converted)),
        timeout_s=60,
        on_start=started.append,
        on_stage=lambda stage: reached.set() if stage == "compile" else None,
    )
    killer.join()
    assert ended.failure is not None
    assert (ended.failure.stage, ended.failure.outcome, ended.failure.error) == ("compile", "error", "SIGKILL")
    assert not psutil.pid_exists(started[0])


def test_the_parent_does_no_work_while_it_waits(plugin: Path, converted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = psutil.Process().cpu_times()
    sabotage(monkeypatch, "compile:hang", converted, timeout_s=3.0)
    after = psutil.Process().cpu_times()
    assert (after.user + after.system) - (before.user + before.system) < 0.15


def test_a_platform_of_another_package_is_verified_like_ours(plugin: Path, converted: Path) -> None:
    ended = run_task(Verify(case=CASE, folder=str(converted)), timeout_s=30)
    assert ended.failure is None
    assert [each["passed"] for each in ended.result["outputs"]] == [True]
    assert ended.result["deterministic"]


def test_names_of_platforms_come_from_entry_points_and_ours_cannot_be_replaced(plugin: Path) -> None:
    assert {"doubling", "saboteur", "cpu", "openvino"} <= set(names())
    assert type(create("cpu")).__module__ == "runner.platforms.torch_eager"
    with pytest.raises(UnknownPlatform) as caught:
        create("doublin")
    assert "doubling" in caught.value.nearest


def test_a_platform_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[assay.platforms]\nbroken = not_there:Anything\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PartMissing) as caught:
        create("broken")
    assert "not_there" in caught.value.detail


@pytest.mark.parametrize("name", ["cuda", "rocm", "qnn", "webnn", "webgpu", "wasm"])
def test_an_environment_variable_makes_no_platform_appear(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    if name in ("cuda", "rocm") and torch.cuda.is_available():
        assert create("rocm").probe().available != create("cuda").probe().available
        return
    for variable in ("CUDA_VISIBLE_DEVICES", "ROCM_HOME", "QNN_SDK_ROOT", "WEBNN_AVAILABLE", "MPS_AVAILABLE"):
        monkeypatch.setenv(variable, "0")
    probe = create(name).probe()
    assert not probe.available
    assert probe.reason and probe.remedy
