"""The operators of one measured call, put together from the traces of its phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from domain.configuration import Workload
from domain.performance.roofline import TRAINING_PASSES

__all__ = ["operators_of_call"]

_SIZES = ("sequence_length", "image_size", "images", "audio_seconds", "frames", "input_tokens")
Rows = list[dict[str, Any]]


def operators_of_call(workload: Workload, traces: Sequence[Mapping[str, Any]]) -> Rows:
    """Return the operator rows of one call of this work at batch 1; none where it was not traced at these sizes.

    A generation is its prefill and a decoding step for each token after the first. A training step is its forward and
    backward pass, or `TRAINING_PASSES` forward passes where its own trace is missing; the optimizer is not counted.
    """
    operators = {trace["workload"]["phase"]: trace["operators"] for trace in traces if _same_sizes(workload, trace)}
    if workload.mode == "training":
        own: Rows | None = operators.get("training")
        return own if own is not None else _repeated(operators.get("forward", ()), TRAINING_PASSES)
    if workload.output_tokens:
        if not {"prefill", "decode"} <= operators.keys():
            return []
        return [*operators["prefill"], *_repeated(operators["decode"], workload.output_tokens - 1)]
    return list(operators.get("forward", ()))


def _repeated(rows: Sequence[Mapping[str, Any]], times: float) -> Rows:
    return [{**row, "count": row["count"] * times} for row in rows] if times else []


def _same_sizes(workload: Workload, trace: Mapping[str, Any]) -> bool:
    traced = trace["workload"]
    checkpointed = bool(workload.gradient_checkpointing) == bool(traced.get("gradient_checkpointing"))
    same = all(getattr(workload, name) == traced.get(name) for name in _SIZES)
    return same and (checkpointed or traced["phase"] != "training")
