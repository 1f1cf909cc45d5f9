"""`assay jobs export`: from the file of a plan to a script, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from assay.cli import run

PLAN = """\
assay: 1
name: tiny
weights: random
sweeps:
  - models: [bert-tiny, vit-tiny-patch16-224]
    platforms: [cpu]
    batch_sizes: [1, 2]
"""
EXPORT = ("jobs", "export")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    path = tmp_path / "tiny.yaml"
    path.write_text(PLAN)
    return path


def test_script_is_alone_on_stdout_and_holds_the_plan(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*EXPORT, str(plan), "--to", "slurm"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("#!/bin/bash\n#SBATCH ") and PLAN in said.out and said.err == ""
    assert "#SBATCH --array=1-2\n" in said.out


@pytest.mark.parametrize("form", ["slurm", "kubernetes", "skypilot"])
def test_file_is_written_and_is_not_overwritten(form: str, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*EXPORT, str(plan), "--to", form, "--out", "out", "--parts", "4"]
    assert run(words) == 0
    before = Path("out").read_bytes()
    assert run(words) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("out").read_bytes() == before
    assert run([*words, "--force"]) == 0


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({}, ["--parts", "5"], "4 cases"),
        ({"platforms": ["cuda", "rocm"]}, [], "two vendors"),
        ({"platforms": ["mps"]}, [], "assay bench --plan"),
        ({"platforms": None}, [], "--needs"),
        ({}, ["--needs", "cuda,colour=red"], "colour=red"),
        ({}, ["--server", "me"], "address"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_no_file(
    change: dict[str, object], more: list[str], said: str, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(PLAN)
    document["sweeps"][0] |= change
    plan.write_text(yaml.safe_dump(document))
    assert run([*EXPORT, str(plan), "--to", "slurm", "--out", "out", *more]) == 2
    heard = capsys.readouterr()
    assert said in " ".join(heard.err.split()) and heard.out == "" and not Path("out").exists()


def test_needs_stand_for_platforms_that_the_plan_leaves_open(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.write_text(PLAN.replace("    platforms: [cpu]\n", ""))
    assert run([*EXPORT, str(plan), "--to", "slurm", "--needs", "cuda,memory=8GB"]) == 0
    assert "--gres=gpu:1" in capsys.readouterr().out


def test_plan_above_one_megabyte_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Fewer characters than bytes: what counts is what a ConfigMap has room for.
    plan.write_text(PLAN + "# " + "é" * 500_000)
    assert run([*EXPORT, str(plan), "--to", "kubernetes", "--out", "out"]) == 2
    assert "1,000,000 bytes" in capsys.readouterr().err and not Path("out").exists()


def test_more_parts_than_cases_are_refused_before_anything_is_loaded(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "--plan", str(plan), "--part", "5/5", "--out", "out"]) == 2
    assert "4 cases" in capsys.readouterr().err and not Path("out").exists()


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "/", "a/b", "1/2/3", "²/3", "-1/2"])
def test_part_that_is_none_is_wrong_usage(part: str, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--plan", str(plan), "--part", part, "--dry-run"]) == 2
    assert "--part" in capsys.readouterr().err
