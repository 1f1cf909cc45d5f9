"""Trainings on ranks in words and figures: how the work was divided, how well it scaled, and against which baseline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from presentation import formatting
from presentation.charts.metrics import Metric
from presentation.palette import VERDICT_GLYPHS

__all__ = ["EFFICIENCY", "baseline_command", "efficiency_words", "ranks_words", "scaled_row"]

EFFICIENCY = Metric(
    "efficiency",
    "efficiency_low",
    "efficiency_high",
    "Efficiency on ranks (the same batch)",
    lambda _: formatting.Scale("%", 0.01),
    "larger is better",
)
_STRATEGIES = {"ddp": "DDP", "fsdp2": "FSDP2"}


def ranks_words(row: Mapping[str, Any]) -> str:
    """Say how the work was divided: `DDP × 4 on 2 nodes`."""
    strategy = str(row.get("strategy") or "")
    words = f"{_STRATEGIES.get(strategy, strategy)} × {formatting.count(row.get('ranks'))}"
    return f"{words} on {row['nodes']} nodes" if (row.get("nodes") or 1) > 1 else words


def efficiency_words(row: Mapping[str, Any]) -> str:
    """Say the efficiency and what to think of it: `82% ⚠ suspect`; that there is no baseline where there is none."""
    if row.get("efficiency") is None:
        return "no baseline"
    verdict = row.get("efficiency_verdict")
    words = f"{row['efficiency']:.0%}"
    return f"{words} {VERDICT_GLYPHS[verdict]} {verdict}" if verdict in ("suspect", "invalid") else words


def scaled_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `scaling` as tables and charts hold it: its evidence are the measurement and its baseline."""
    events = [row["event_id"], *([row["baseline_event_id"]] if row.get("baseline_event_id") else [])]
    return {
        **row,
        "model": row["model_id"],
        "hardware": row["hardware_id"],
        "runtime": row.get("runtime_name"),
        "basis": "measured" if row.get("origin") == "measured" else "imported",
        "verdict": row.get("efficiency_verdict") or row.get("verdict"),
        "factor": row.get("speedup"),
        "reason": "no baseline",
        "distinct": ranks_words(row),
        "evidence": events,
    }


def baseline_command(row: Mapping[str, Any]) -> str:
    """Return the command that measures the baseline of a row: one rank, the same batch, the threads of one rank."""
    words = ["assay", "bench", str(row["model_id"]), "--platform", str(row["platform"]), "--mode", "training"]
    words += ["--precision", str(row["precision"]), "--batch-sizes", str(row["batch_size"])]
    for name, flag in (("sequence_length", "--sequence-length"), ("image_size", "--image-size")):
        if row.get(name):
            words += [flag, str(row[name])]
    words += ["--optimizers", str(row["optimizer"])] if row.get("optimizer") else []
    words += ["--gradient-checkpointing"] if row.get("gradient_checkpointing") else []
    if row.get("hardware_kind") == "cpu" and row.get("threads") and row.get("ranks"):
        words += ["--threads", str(row["threads"] // row["ranks"])]
    return shlex.join(words)
