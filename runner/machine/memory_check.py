"""Whether a configuration fits into memory, counted before anything is loaded."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.catalogues.models import smaller_siblings
from domain.configuration import Workload
from domain.errors import UnsupportedWorkload
from runner.machine.headroom import (
    CONVERTING,
    FP32_BYTES,
    MARGIN,
    RUNTIME_BYTES,
    WEIGHT_BYTES,
    NotEnoughMemory,
    available_bytes,
    weights_bytes,
)
from runner.models.build import build_meta
from runner.models.heads import generates
from runner.models.inputs import generation_inputs, workload_defaults
from runner.models.sources import ModelSource, resolve
from runner.tracing.phases import Phase
from runner.tracing.trace import trace

__all__ = ["MARGIN", "Requirement", "check_fits", "required_bytes"]

_ACTIVATION_BYTES = {"fp16": 2.0, "bf16": 2.0}
_OPTIMIZER_COPIES = {"adamw": 2, "adamw-8bit": 0.5, "sgd": 0}
"""Numbers an optimizer keeps for each parameter: AdamW two moments, SGD without momentum none."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that a configuration takes at its peak, by what takes them."""

    weights: int
    activations: int
    gradients: int = 0
    optimizer: int = 0
    kv_cache: int = 0
    runtime: int = RUNTIME_BYTES

    @property
    def total(self) -> int:
        """The sum of the parts and the margin."""
        parts = (self.weights, self.activations, self.gradients, self.optimizer, self.kv_cache, self.runtime)
        return int(sum(parts) * (1 + MARGIN))


def required_bytes(source: ModelSource, precision: str, workload: Workload, *, platform: str = "cpu") -> Requirement:
    """Return what one configuration takes at its peak, from a trace on the meta device (a second or two).

    - weights = parameters × bytes of the precision. Quantized ones are made from fp32 weights, which count too; a
      platform that converts holds the model in fp32 and in its own form at once.
    - activations = the most elements that live at the same time × batch × bytes (2 in fp16 and bf16, else 4). Of
      training the forward and backward pass, of generation the prefill.
    - gradients = parameters × bytes of the weights; optimizer = that × 2 for AdamW and × 0 for SGD.
    - kv_cache = elements of one token × (prompt + output tokens) × batch × bytes; an encoder's tokens count once.

    Mixed precision (`amp-…`) keeps weights, gradients and most activations in fp32.
    """
    workload = workload_defaults(source, workload)
    batch = workload.batch_size or 1
    size, activation = WEIGHT_BYTES.get(precision, FP32_BYTES), _ACTIVATION_BYTES.get(precision, FP32_BYTES)
    training = workload.mode == "training"
    purpose: Any = "training" if training else "inference"
    parameters = build_meta(source, image_size=workload.image_size, purpose=purpose).parameters
    elements, kept = _elements(source, workload)
    return Requirement(
        weights=weights_bytes(parameters, precision, platform),
        activations=int(elements * batch * activation),
        gradients=int(parameters * size) if training else 0,
        optimizer=int(parameters * size * _OPTIMIZER_COPIES.get(workload.optimizer or "adamw", 2)) if training else 0,
        kv_cache=int(kept * batch * activation),
    )


def check_fits(
    source: ModelSource,
    precision: str,
    workload: Workload,
    *,
    platform: str = "cpu",
    free_bytes: int | None = None,
) -> Requirement:
    """Return the requirement where it fits into the free memory, else raise NotEnoughMemory with both figures.

    The remedy names what would fit: a narrower precision or the low-memory mode, a smaller batch, or a smaller model
    of the family. `free_bytes` overrides what is found free now.
    """
    free = available_bytes() if free_bytes is None else free_bytes
    needed = required_bytes(source, precision, workload, platform=platform)
    if needed.total <= free:
        return needed
    raise NotEnoughMemory(
        f"{source.id} in {precision} takes {needed.total / 1e9:.2f} GB ({_told(needed)}) and {free / 1e9:.2f} GB of "
        "memory are free.",
        field="model",
        remedy=_remedy(source, precision, workload, platform, free),
    )


def _elements(source: ModelSource, workload: Workload) -> tuple[float, float]:
    """Return (live activation elements, elements kept of all tokens) of one item."""
    phase: Phase = "training" if workload.mode == "training" else "forward"
    generating = bool(workload.output_tokens) and generates(source)
    if generating:
        phase = "prefill"
    try:
        totals = trace(source, workload, phase=phase)["totals"]
    except UnsupportedWorkload:
        totals = trace(source, workload)["totals"]
        if phase == "training":
            # What the forward pass writes is at most what the backward pass finds kept.
            return totals["write_elements"], 0.0
    kept = totals.get("kv_elements_per_token", 0.0) * _tokens(source, workload) if generating else 0.0
    return totals["peak_activation_elements"], kept


def _tokens(source: ModelSource, workload: Workload) -> int:
    inputs = generation_inputs(source, msgspec.structs.replace(workload, batch_size=1))
    read = (
        inputs["input_ids"].shape[1] if "input_ids" in inputs else int(source.config.get("max_source_positions", 1500))
    )
    return int(read + (workload.output_tokens or 0))


def _told(needed: Requirement) -> str:
    parts = {name: getattr(needed, name) for name in needed.__struct_fields__}
    return ", ".join(f"{name.replace('_', ' ')} {value / 1e9:.2f}" for name, value in parts.items() if value)


def _remedy(source: ModelSource, precision: str, workload: Workload, platform: str, free: int) -> str:
    ways = []
    if precision in ("fp32", "tf32") and _fits(source, "bf16", workload, platform, free):
        named = "--precision bf16" if platform in CONVERTING else "--low-memory (weights in bf16)"
        ways.append(f"{named} would fit")
    single = msgspec.structs.replace(workload, batch_size=1)
    if (workload.batch_size or 1) > 1 and _fits(source, precision, single, platform, free):
        ways.append("a batch of 1 would fit")
    sibling = next((s.id for s in smaller_siblings(source.id) if _sibling_fits(s.id, precision, workload, free)), None)
    if sibling is not None:
        ways.append(f"the smaller {sibling} would fit")
    return f"Here {'; '.join(ways)}." if ways else "Take a machine with more memory."


def _fits(source: ModelSource, precision: str, workload: Workload, platform: str, free: int) -> bool:
    return required_bytes(source, precision, workload, platform=platform).total <= free


def _sibling_fits(name: str, precision: str, workload: Workload, free: int) -> bool:
    plain = Workload(mode=workload.mode, batch_size=workload.batch_size, optimizer=workload.optimizer)
    return _fits(resolve(name, "random"), precision, plain, "cpu", free)
