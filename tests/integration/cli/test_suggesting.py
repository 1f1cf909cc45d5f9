"""`assay suggest` as it is typed, and the parts of a prediction as they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.cli import run

CPU = "intel-xeon-2c"


def test_the_plan_that_is_written_is_what_bench_would_measure(typed: Any, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    out, err = typed(
        "suggest", "bert-base-uncased", "resnet-50", "--budget", "1m30s", "--hardware", CPU, "--platform", "cpu",
        "--precision", "fp32,bf16", "--batch-sizes", "2,4", "--out", str(plan),
    )  # fmt: skip
    # Commands are not broken: they are there to be copied.
    assert all(len(line.rstrip()) <= 100 for line in out.splitlines() if "assay bench" not in line)
    assert "Worth measuring within 90 s" in out
    assert f"assay bench --plan {plan}" in " ".join(out.split())
    assert "written to" in err
    assert plan.read_text().splitlines()[1] == "assay: 1"
    listed, _ = typed("bench", "--plan", str(plan), "--dry-run", "--json")
    answer, _ = typed(
        "suggest", "bert-base-uncased", "resnet-50", "--budget", "90s", "--hardware", CPU, "--platform", "cpu",
        "--precision", "fp32,bf16", "--batch-sizes", "2,4", "--json",
    )  # fmt: skip
    runs = json.loads(answer)["runs"]
    cases = json.loads(listed)["cases"]
    assert [(one["case"]["model"], one["case"]["precision"]) for one in cases] == [
        (one["model"], one["precision"]) for one in runs
    ]


def test_several_devices_have_a_file_each(typed: Any, tmp_path: Path) -> None:
    out, _ = typed(
        "suggest", "bert-base-uncased", "--budget", "3m", "--hardware", f"{CPU},nvidia-a10g", "--platform", "cpu,cuda",
        "--out", str(tmp_path / "next.yaml"),
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"next.{CPU}.yaml", "next.nvidia-a10g.yaml"]
    assert "on nvidia-a10g, about" in out


def test_a_device_of_ones_own_is_calibrated_before_anything_is_run(
    fresh_service: Any, build: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gpu = {
        "hardware": {"id": "nvidia-l4", "kind": "gpu", "count": 1}, "name": "NVIDIA L4", "vendor": "NVIDIA",
        "platforms": [{"platform": "cuda", "available": True, "precisions": ["fp32", "fp16"]}], "spec": {},
    }  # fmt: skip
    service = fresh_service().start()
    monkeypatch.setenv("ASSAY_SERVER", service.url)
    with service.client() as client:
        client.wait_for(client.post_events([build.event("assay.hardware.described.v1", gpu)])["last_position"])
        plan = tmp_path / "plan.yaml"
        asked = ("suggest", "bert-base-uncased", "--hardware", "own", "--platform", "cuda", "--precision", "fp16")
        capsys.readouterr()
        assert run([*asked, "--budget", "10m", "--out", str(plan)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("First, on nvidia-l4")
        assert "  assay calibrate --platform cuda" in lines
        assert all(len(line.rstrip()) <= 100 for line in lines if "assay bench" not in line)
        assert "# Before it: assay calibrate --platform cuda" in plan.read_text().splitlines()
        assert yaml.safe_load(plan.read_text())["sweeps"]
        assert run([*asked, "--budget", "10m", "--submit", "--json"]) == 0
        queued = json.loads(capsys.readouterr().out)
        jobs = [client.job(identifier) for identifier in queued["submitted"]["jobs"]]
        assert len(jobs) == len(queued["runs"])
        assert {job.needs.hardware for job in jobs} == {"nvidia-l4"}
        assert all(job.needs.platforms == ("cuda",) and job.needs.memory_bytes for job in jobs)
        assert run([*asked, "--budget", "2m"]) == 0
        assert "Worth measuring" not in capsys.readouterr().out
        kernels = build.kernels(hardware="nvidia-l4", platform="cuda", precision="fp16")
        client.wait_for(client.post_events([kernels])["last_position"])
        assert client.suggest(600.0, models=["bert-base-uncased"], hardware="own", platform="cuda").calibrations == []


def test_nothing_worth_a_run_is_exit_code_1_and_nonsense_is_2(typed: Any, tmp_path: Path) -> None:
    asked = ("suggest", "bert-base-uncased", "--hardware", CPU, "--platform", "cpu")
    asked = (*asked, "--precision", "fp32", "--batch-sizes", "2")
    out, _ = typed(*asked, "--budget", "1s", code=1)
    assert "No run fits 1 s" in out
    for budget in ("2", "h", "-1h", "0s", "1h 30m"):
        typed(*asked, "--budget", budget, code=2)
    _, err = typed(*asked, "--budget", "1m", "--out", str(tmp_path / "no" / "plan.yaml"), code=2)
    assert "folder that exists" in " ".join(err.split())


def test_a_prediction_is_shown_with_its_parts(typed: Any) -> None:
    out, _ = typed(
        "predict", "resnet-50", "--hardware", "nvidia-rtx-4090", "--platform", "cuda", "--precision", "amp-fp16",
        "--batch-size", "64", "--verbose",
    )  # fmt: skip
    assert "-bound: " in out and "usual overhead" in out and "█" in out
    assert "roofline by operators: " in out
    assert all(len(line.rstrip()) <= 100 for line in out.splitlines() if "  assay " not in line)
    assert "kernels  " in out and "longest  " in out


def test_a_prediction_names_the_change_that_gains_most_with_its_command(typed: Any) -> None:
    asked = ("predict", "bert-base-uncased", "--hardware", "nvidia-a10g", "--platform", "cuda", "--precision", "fp32")
    asked = (*asked, "--batch-size", "32", "--eager")
    best = json.loads(typed(*asked, "--json")[0])["faster"]["best"]
    out, _ = typed(*asked)
    assert "What would make it faster" in out
    assert f"  {best['command']}" in out.splitlines()
    assert f"  {best['verify']}" in out.splitlines()
    assert all(len(line.rstrip()) <= 100 for line in out.splitlines() if "  assay " not in line)
    changed = json.loads(typed(*best["command"].split()[1:], "--json")[0])
    assert changed["precision"] == best["precision"]
    assert changed["latency_ms"] == best["latency_ms"]


def test_a_runtime_is_named_and_what_it_cannot_run_on_is_said(typed: Any) -> None:
    asked = ("predict", "bert-base-uncased", "--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16")
    assert json.loads(typed(*asked, "--runtime", "TensorRT", "--json")[0])["runtime"] == "tensorrt"
    _, err = typed(*asked, "--runtime", "tensorflow-lite", code=2)
    assert "tensorrt" in err
