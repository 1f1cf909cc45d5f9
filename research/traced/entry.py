"""One architecture at one input size, and its operator traces as data of `assay.model.traced.v1`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from runner.models.build import count_parameters
from runner.tracing.operator_rows import architecture_digest, sums_of
from runner.tracing.operators import Recorder
from runner.tracing.phases import Phase, on_meta
from runner.tracing.trace import record, traced_data

__all__ = ["Entry", "Made", "image", "lines", "tokens", "traced"]

Made = tuple[nn.Module, Any]
"""A module and the inputs of one call at batch 1: a tuple, or a dictionary of keyword arguments."""


class Entry(NamedTuple):
    """An architecture at one size.

    `id` names the trace: the published id of the model, or `architecture/NAME` where several publishers have their own
    name for it (`predictor/shipped/traced_names.json`). `make` runs on the meta device. `training` adds the trace of a
    training step.
    """

    id: str
    category: str | None
    family: str
    make: Callable[[], Made]
    task: str | None = None
    sizes: Mapping[str, Any] = MappingProxyType({})
    training: bool = False


def image(*sides: int, channels: int = 3) -> torch.Tensor:
    """Return an empty image (or volume) of these sides."""
    return torch.empty(1, channels, *(sides if len(sides) > 1 else sides * 2))


def tokens(*shape: int) -> torch.Tensor:
    """Return token ids of this shape, batch 1 in front; they are real, because some models compute shapes from them."""
    return torch.ones(1, *shape, dtype=torch.long, device="cpu")


def traced(entry: Entry, phase: Phase = "forward") -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the operator rows of one call and their totals."""
    with torch.inference_mode(False), torch.device("meta"):
        module, inputs = entry.make()
        if phase == "forward":
            return record(module.eval(), inputs)
        return _step(module.train(), inputs)


def _step(module: nn.Module, inputs: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return rows and totals of a forward pass, a loss over the outputs and the backward pass."""
    # A batch norm refuses to train on one number a channel; nothing is computed here, and the shapes are the same.
    torch.nn.functional._verify_batch_size = lambda _: None
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.register_forward_pre_hook(_without_statistics)
    recorder = Recorder(module)
    with recorder.recording(gradients=True):
        outputs = module(*inputs) if isinstance(inputs, tuple) else module(**on_meta(inputs))
        _loss(outputs).backward()
    rows = recorder.rows()
    totals = {"parameters": count_parameters(module), "peak_activation_elements": recorder.peak_activation_elements}
    return rows, {**sums_of(rows), **totals}


def _without_statistics(part: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    """Let a batch norm keep no running variance of one number a channel: that of a sample is not defined."""
    if inputs[0].numel() == inputs[0].shape[1]:
        part.running_mean = part.running_var = part.num_batches_tracked = None


def _loss(outputs: Any) -> torch.Tensor:
    """Return the cross-entropy of what looks like scores of classes, and the mean of everything else."""
    logits = getattr(outputs, "logits", None)
    leaves = [logits] if isinstance(logits, torch.Tensor) else _differentiable(outputs)
    losses = []
    for leaf in leaves:
        if leaf.dim() in (2, 3) and leaf.shape[-1] >= 1000:
            scores = leaf.reshape(-1, leaf.shape[-1])
            losses.append(torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long)))
        else:
            losses.append(leaf.mean())
    return torch.stack(losses).sum() if len(losses) > 1 else losses[0]


def _differentiable(outputs: Any) -> list[torch.Tensor]:
    leaves = tree_leaves(dict(outputs) if hasattr(outputs, "keys") else outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def lines(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the data of each trace. The first size of a model names its architecture."""
    architectures: dict[str, str] = {}
    for entry in entries:
        phases: tuple[Phase, ...] = ("forward", "training") if entry.training else ("forward",)
        for phase in phases:
            rows, totals = traced(entry, phase)
            model = {
                "id": entry.id,
                "category": entry.category,
                "family": entry.family,
                "task": entry.task,
                "architecture": architectures.setdefault(entry.id, architecture_digest(rows)),
            }
            sizes = {"sequence_length": None, "image_size": None, **entry.sizes}
            yield traced_data(model, sizes, rows, totals, phase)
