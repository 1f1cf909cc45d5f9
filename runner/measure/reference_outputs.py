"""The reference: the same module, weights and inputs in fp32 on the processor through torch, eager."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.configuration import Workload
from runner.measure.output_comparison import Sensitivity, sensitivity_between
from runner.measure.workloads import purpose_of

__all__ = ["TOP", "TRAINING_RATES", "TRAINING_STEPS", "reference_of", "sensitivities"]

TOP = 16
"""How many of the likeliest tokens of each step are kept, to tell a near tie from a wrong choice."""
TRAINING_STEPS = 5
TRAINING_RATES = {"adamw": 1e-3, "adamw-8bit": 1e-3, "sgd": 1e-1}
"""Large enough for the loss on one batch to fall visibly in five steps in any precision."""


def reference_of(module: Any, inputs: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Return what to compare with, name → array; the module keeps its weights.

    Inference: every floating output. Generation: `tokens` [batch, steps], `logits` of the first step
    [batch, vocabulary], and `top_ids` and `top_logits` [steps, batch, 16], likeliest first. Training: `losses` [5].
    """
    import torch

    torch.set_float32_matmul_precision("highest")
    purpose = purpose_of(workload)
    if purpose == "training":
        return {"losses": _losses(module, inputs, workload)}
    if purpose == "generation":
        return _generated(module, inputs, workload.output_tokens or 1)
    from runner.platforms.outputs import flatten

    with torch.inference_mode():
        return {name: tensor.float().numpy() for name, tensor in flatten(module(**inputs))}


def sensitivities(
    module: Any, inputs: dict[str, Any], workload: Workload, reference: dict[str, Any]
) -> dict[str, Sensitivity]:
    """Return, for each output, how it moves when weights and inputs are rounded to bf16; the weights stay rounded.

    Of a generation these are the first logits. Training has none: its loss is a mean, and well conditioned.
    """
    import torch

    if purpose_of(workload) == "training":
        return {}
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(tensor.to(torch.bfloat16))
    rounded = {
        name: value.to(torch.bfloat16).to(value.dtype) if value.is_floating_point() else value
        for name, value in inputs.items()
    }
    short = msgspec.structs.replace(workload, output_tokens=1) if workload.output_tokens else workload
    moved = reference_of(module, rounded, short)
    compared = ("logits",) if workload.output_tokens else reference.keys()
    sensitivity_betweens = {
        name: sensitivity_between(reference[name], moved[name]) for name in compared if name in moved
    }
    return {name: each for name, each in sensitivity_betweens.items() if each is not None}


def _losses(module: Any, inputs: dict[str, Any], workload: Workload) -> Any:
    import copy

    import numpy as np

    from runner.measure.training import TorchTraining

    # Dropout off: it would draw other units on another device.
    own = copy.deepcopy(module).eval()
    rate = TRAINING_RATES[workload.optimizer or "adamw"]
    steps = TorchTraining(own, inputs, workload, rate, synchronize=lambda: None)
    losses = []
    for _ in range(TRAINING_STEPS):
        steps.forward()
        losses.append(steps.loss())
        steps.backward()
        steps.update()
    return np.array(losses)


def _generated(module: Any, inputs: dict[str, Any], output_tokens: int) -> dict[str, Any]:
    import numpy as np

    from runner.measure.generation import TorchGeneration

    steps = TorchGeneration(module, inputs)
    tokens, top_ids, top_logits = [], [], []
    first = None
    for index in range(output_tokens):
        steps.decode() if index else steps.prefill()
        logits = steps.logits()
        first = logits.copy() if first is None else first
        tokens.append(steps.tokens())
        top = np.argsort(-logits, axis=-1, kind="stable")[:, :TOP]
        top_ids.append(top)
        top_logits.append(np.take_along_axis(logits, top, axis=-1))
    return {
        "tokens": np.concatenate(tokens, axis=1),
        "logits": first,
        "top_ids": np.stack(top_ids),
        "top_logits": np.stack(top_logits),
    }
