"""Work that is known never to run: rules of precision, platform, mode, family and operators, before anything is tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from domain.vocabulary import IN_BROWSERS

__all__ = ["TORCH_PLATFORMS", "TRAINABLE", "Work", "why_unsupported"]

TORCH_PLATFORMS = frozenset({"cpu", "cuda", "rocm", "mps", "xpu", "hpu"})
TRAINABLE = frozenset({"fp32", "tf32", "bf16", "amp-bf16", "amp-fp16"})
"""Weights in fp16 lose the small updates of an optimizer, and integers have no gradients."""
_NOT_IN_BROWSERS = frozenset({"tf32", "bf16", "fp8", "fp4"})
_ROWS = {"int8": 1, "int4": 32, "fp8": 16}
"""What the rows of a linear layer must be a multiple of, to be quantized by torchao."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run: a `family` of models, its operator rows (those of `assay.model.traced.v1`) and the mode."""

    family: str | None
    operators: Iterable[Mapping[str, Any]]
    mode: str

    def linear_layer(self, multiple: int) -> bool:
        """Whether it has a linear layer whose rows are a multiple of so many numbers."""
        return any(
            row["class"] == "mm" and row["weight_elements"] and not (row.get("inner") or 0) % multiple
            for row in self.operators
        )


def why_unsupported(work: Work, platform: str, runtime: str, precision: str) -> str | None:
    """Return why this can never run, or None where no rule speaks against it."""
    if work.mode == "training" and platform not in TORCH_PLATFORMS:
        return f"{platform} does no training"
    if work.mode == "training" and precision not in TRAINABLE:
        return f"nothing is trained in {precision}: small updates are lost, or there are no gradients"
    if precision.startswith("amp") and (platform not in TORCH_PLATFORMS or runtime not in ("torch", "")):
        return f"{platform if platform not in TORCH_PLATFORMS else runtime} has no autocast"
    if precision.startswith("amp") and work.family == "deberta":
        return "DeBERTa's code does not run under autocast: take bf16, fp16 or fp32"
    if platform in IN_BROWSERS and precision in _NOT_IN_BROWSERS:
        return f"onnxruntime-web computes nothing in {precision}: take fp32, fp16, int8 or int4"
    if platform == "openvino" and work.family == "flaubert":
        return "OpenVINO cannot convert FlauBERT"
    if runtime == "torch" and precision in _ROWS and not work.linear_layer(_ROWS[precision]):
        return f"no linear layer has rows that {precision} weights in torch can have (a multiple of {_ROWS[precision]})"
    return None
