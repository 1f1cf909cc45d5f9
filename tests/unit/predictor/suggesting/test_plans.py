"""Plans of suggested runs: what `assay bench --plan` reads, every run in it, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from domain.answers import SuggestedRun
from predictor.suggesting.suggestion import plan_of
from runner.campaign.plan_file import read_plan


def run(model: str, **parts: Any) -> SuggestedRun:
    return SuggestedRun(**{
        "model": model, "platform": "cpu", "precision": "fp32", "batch_size": 1, "mode": "inference", "compiled": False,
        "rank": 1, "hardware": "acme-one", "own": True, "seconds": 1.0, "basis": "predicted", "latency_ms": None, "share": 0.1,
        "helps": 0, "helps_most": [], "why": "", **parts,
    })  # fmt: skip


RUNS = [
    run("google-bert/bert-base-uncased", sequence_length=128, batch_size=8),
    run("prajjwal1/bert-tiny", sequence_length=128, batch_size=8),
    run("openai-community/gpt2", platform="openvino", precision="bf16", input_tokens=64, output_tokens=16),
    run("openai/whisper-tiny", audio_seconds=5.0, compiled=True),
    run("prajjwal1/bert-tiny", mode="training", sequence_length=128),
]


def test_the_runner_reads_the_plan_as_the_runs_that_were_meant(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(msgspec.to_builtins(plan_of("acme-one", RUNS, 5.0)), sort_keys=False))
    cases = read_plan(path).plan().cases
    assert [case.model for case in cases] == [one.model for one in RUNS]
    told = [
        (case.platform, case.precision, case.workload.mode, case.workload.batch_size, case.compiled) for case in cases
    ]
    assert told == [(one.platform, one.precision, one.mode, one.batch_size, one.compiled) for one in RUNS]
    assert (cases[0].workload.sequence_length, cases[2].workload.input_tokens, cases[2].workload.output_tokens) == (
        128, 64, 16,
    )  # fmt: skip
    assert cases[3].workload.audio_seconds == 5.0


def test_neighbours_that_differ_in_model_alone_share_a_sweep() -> None:
    plan = plan_of("acme-one", RUNS, 5.0)
    assert [len(sweep.models) for sweep in plan.sweeps] == [2, 1, 1, 1]
    assert plan.budget_s == 5.0
