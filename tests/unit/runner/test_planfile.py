"""Plan files: what they say, and every mistake named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import AssayError, UsageError
from runner.campaign.plan_file import read_plan

GOOD = """\
assay: 1
name: nightly
weights: random
budget_s: 2
verify: true
sweeps:
  - models: [bert-tiny]
    platforms: [cpu, openvino]
    precisions: [fp32, bf16]
    batch_sizes: [1, 8]
  - models_set: small
    platforms: [cpu]
    modes: [training]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_the_plan_that_the_flags_would_make(tmp_path: Path) -> None:
    file = read_plan(written(tmp_path, GOOD))
    plan = file.plan()
    assert file.verify
    assert file.benchmark
    assert plan.method.budget_s == 2
    first = [case for case in plan.cases if case.model == "bert-tiny" and case.workload.mode == "inference"]
    assert len(first) == 2 * 2 * 2
    training = [case for case in plan.cases if case.workload.mode == "training"]
    assert len({case.model for case in training}) > 5
    assert {case.workload.optimizer for case in training} == {"adamw"}


def test_the_modes_of_loading_reach_every_case(tmp_path: Path) -> None:
    text = GOOD.replace("verify: true", "low_memory: true\nallow_pickle: true\ntrust_remote_code: true")
    plan = read_plan(written(tmp_path, text)).plan()
    assert plan.low_memory
    assert {case.precision for case in plan.cases} == {"bf16"}
    assert all(case.allow_pickle and case.trust_remote_code for case in plan.cases)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "hint"),
    [
        ("batch_sizes: [1, 8]", "batchsizes: [1, 8]", 10, "batchsizes", "batch_sizes"),
        ("budget_s: 2", "budgets: 2", 4, "budgets", "budget_s"),
        ("batch_sizes: [1, 8]", "batch_sizes: [1, eight]", 10, "sweeps.batch_sizes", "documentation"),
        ("batch_sizes: [1, 8]", "batch_sizes: [1, 0]", 10, "batch_sizes", "1 or more"),
        ("models: [bert-tiny]", "models: [bert-tinny]", 7, "model", "bert-tiny"),
        ("platforms: [cpu, openvino]", "platforms: [cpu, opnvino]", 8, "platform", "openvino"),
        ("precisions: [fp32, bf16]", "precisions: [fp33]", 9, "precision", "fp32"),
        ("models_set: small", "models_set: tiny", 11, "sweeps.models_set", "documentation"),
        ("models_set: small", "category: visions", 11, "category", "vision, audio"),
        ("modes: [training]", "modes: [training", 14, "plan", "brackets"),
        ("weights: random", "weights: random\nweights: auto", 4, "weights", "one of them"),
        ("assay: 1", "assay: 2", 1, "assay", "documentation"),
        ("budget_s: 2", "budget_s: &x 2\niterations: *x", 5, "plan", "Write the value out"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, line: int, field: str, hint: str) -> None:
    with pytest.raises(AssayError) as caught:
        read_plan(written(tmp_path, GOOD.replace(old, new, 1)))
    assert f"plan.yaml, line {line}:" in caught.value.detail
    assert caught.value.field == field
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "[]", "assay: 1", "just words", "\t- x", "a: [1, 2", "? {}"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"plan\.yaml, line"):
        read_plan(written(tmp_path, text))


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    for wrong in (path, tmp_path / "absent.yaml"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_plan(wrong)
