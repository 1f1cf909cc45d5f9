"""Trainings on ranks in words, and the command that measures what their efficiency lacks."""

from __future__ import annotations

import shlex
from typing import Any

from assay.cli.measure.measuring import bench
from assay.client.row_types import Scaling
from dashboard.screens.models.words import ranks_columns
from presentation.rank_scaling import EFFICIENCY, baseline_command, efficiency_words, ranks_words, scaled_row

ROW: dict[str, Any] = {
    "position": 3, "event_id": "e", "source": "s", "run_id": "r", "configuration": "c", "recorded_at": "2026-03-01T10:00:00Z",
    "model_id": "acme/tiny", "hardware_id": "amd-epyc", "hardware_kind": "cpu", "platform": "cpu", "precision": "fp32",
    "batch_size": 8, "sequence_length": 32, "optimizer": "sgd", "gradient_checkpointing": True, "threads": 8, "strategy": "ddp",
    "ranks": 4, "nodes": 2, "throughput_per_s": 328.0, "origin": "measured", "verdict": "valid", "efficiency": 0.82,
    "speedup": 3.28, "efficiency_verdict": "suspect", "baseline_event_id": "b", "latency_p50_ms": 24.4,
}  # fmt: skip


def test_how_the_work_was_divided_is_said() -> None:
    assert ranks_words(ROW) == "DDP × 4 on 2 nodes"
    assert ranks_words({**ROW, "strategy": "fsdp2", "nodes": 1}) == "FSDP2 × 4"


def test_an_efficiency_carries_its_verdict_and_is_absent_without_a_baseline() -> None:
    assert efficiency_words(ROW) == "82% ⚠ suspect"
    assert efficiency_words({**ROW, "efficiency_verdict": "valid"}) == "82%"
    assert efficiency_words({**ROW, "efficiency": None}) == "no baseline"


def test_a_row_rests_on_the_measurement_and_its_baseline() -> None:
    row = scaled_row(ROW)
    assert row["evidence"] == ["e", "b"] and row["verdict"] == "suspect" and row["factor"] == 3.28
    assert scaled_row({**ROW, "baseline_event_id": None})["evidence"] == ["e"]
    assert EFFICIENCY.scale([0.82]).show(0.82, None, None) == "82.0\u202f%"


def test_the_command_measures_one_rank_with_the_same_batch_and_the_threads_of_one_rank() -> None:
    words = shlex.split(baseline_command(ROW))
    assert words[:2] == ["assay", "bench"]
    asked = bench.make_context("bench", words[2:]).params
    assert asked["models"] == ("acme/tiny",) and asked["mode"] == "training" and asked["options"] == ()
    assert list(asked["batch_sizes"]) == [8] and list(asked["sequence_lengths"]) == [32]
    assert (asked["threads"], list(asked["optimizers"]), asked["gradient_checkpointing"]) == (2, ["sgd"], True)
    on_gpu = bench.make_context("bench", shlex.split(baseline_command({**ROW, "hardware_kind": "gpu"}))[2:]).params
    assert on_gpu["threads"] is None


def test_the_table_leads_to_both_measurements() -> None:
    plain = {name: value for name, value in ROW.items() if name in Scaling.__struct_fields__}
    columns = {column.head: column for column in ranks_columns([Scaling(**plain)])}
    assert columns["Ranks"].links == ["runs?row=e"] and columns["Efficiency"].links == ["runs?row=b"]
    assert columns["Efficiency"].values == [0.82]
