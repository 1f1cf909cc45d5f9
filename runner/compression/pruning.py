"""Pruning by magnitude: weights set to zero a layer at a time, over all layers, or two of each four, and trained again."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch.nn.utils import prune as pruner
from transformers.pytorch_utils import Conv1D

from domain.errors import UnsupportedWorkload
from runner.compression.contract import Made, MadeForm, OnStep, Work
from runner.compression.examples import Tensors, tensors_of
from runner.compression.exporting import save_checkpoint, tool_versions
from runner.compression.training import label_loss, train
from runner.models.heads import generates
from runner.platforms.outputs import flatten

__all__ = ["prune"]

_GROUP, _ZEROS = 4, 2


def prune(work: Work, on_step: OnStep) -> Made:
    """Set the smallest weights of linear and convolutional layers to zero, train where the recipe asks for it, and write a checkpoint."""
    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"]) if work.recipe.needs else None
    module = copy.deepcopy(work.built.module)
    layers = _layers(module, settings["keep"])
    pairs = settings.get("pattern") == "2:4"
    if pairs:
        layers = [layer for layer in layers if _inputs_of(layer.weight, layer) % _GROUP == 0]
    if not layers:
        need = " whose inputs are a multiple of four" if pairs else ""
        raise UnsupportedWorkload(
            f"{work.built.id} has no linear or convolutional layer{need} that may be pruned.",
            field="recipe",
            remedy="Take a recipe that quantizes (int8-ptq).",
        )
    on_step("pruning", None)
    _mask(layers, settings)
    results: dict[str, Any] = {}
    if tensors is not None:
        results = _retrain(work, module, tensors, settings, on_step)
    for layer in layers:
        pruner.remove(layer, "weight")
    on_step("writing the checkpoint", None)
    save_checkpoint(module, work.folder / "checkpoint")
    pattern = {"groups_with_two_zeros": _pairs_reached(layers)} if pairs else {}
    return Made(
        forms=(MadeForm(kind="checkpoint", precision="fp32", folder="checkpoint"),),
        parameters=settings | results | _reached(module, layers) | pattern,
        tools=tool_versions("torch", "transformers"),
        used=tensors.size if tensors else 0,
    )


def _layers(module: Any, keep: list[str]) -> list[Any]:
    """Return the layers to prune: not those whose weight another module shares, nor those with a kept word in their name."""
    shared = Counter(id(weight) for _, weight in module.named_parameters(remove_duplicate=False))
    kinds = (torch.nn.Linear, Conv1D, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    return [
        layer
        for name, layer in module.named_modules()
        if isinstance(layer, kinds)
        and isinstance(layer._parameters.get("weight"), torch.nn.Parameter)
        and shared[id(layer.weight)] == 1
        and not set(name.split(".")) & set(keep)
    ]


def _mask(layers: list[Any], settings: dict[str, Any]) -> None:
    if settings.get("pattern") == "2:4":
        for layer in layers:
            pruner.custom_from_mask(layer, "weight", _two_of_four(layer))
    elif settings["scope"] == "layer":
        for layer in layers:
            pruner.l1_unstructured(layer, "weight", settings["ratio"])
    else:
        pairs = [(layer, "weight") for layer in layers]
        pruner.global_unstructured(pairs, pruner.L1Unstructured, amount=settings["ratio"])


def _rows(weight: Any, layer: Any) -> Any:
    """Return the weights with what is multiplied with the inputs last: GPT-2's layers hold it first."""
    return weight.t() if isinstance(layer, Conv1D) else weight.flatten(1)


def _inputs_of(weight: Any, layer: Any) -> int:
    return int(_rows(weight, layer).shape[-1])


def _two_of_four(layer: Any) -> Any:
    weight = layer.weight.detach()
    rows = _rows(weight, layer)
    groups = rows.reshape(-1, _GROUP).abs()
    # A stable order, so that equal weights give the same mask everywhere.
    smallest = groups.argsort(dim=1, stable=True)[:, :_ZEROS]
    mask = torch.ones_like(groups).scatter_(1, smallest, 0.0).reshape(rows.shape)
    return (mask.t() if isinstance(layer, Conv1D) else mask).reshape(weight.shape).contiguous()


def _retrain(work: Work, module: Any, tensors: Tensors, settings: dict[str, Any], on_step: OnStep) -> dict[str, Any]:
    next_token = generates(work.built.source)

    def batch_loss(batch: Any) -> Any:
        outputs = dict(flatten(module(**tensors.rows(batch))))
        return label_loss(outputs.get("logits"), tensors.targets[batch], next_token=next_token)

    return train(
        module, batch_loss, tensors.size, settings, seed=work.seed, what="retraining", on_step=on_step
    ).parameters()


def _reached(module: Any, layers: list[Any]) -> dict[str, Any]:
    """Return the shares of zeros that were really reached: in the pruned layers, and in all weights of the model."""
    zeros = sum(int((layer.weight == 0).sum()) for layer in layers)
    pruned = sum(layer.weight.numel() for layer in layers)
    total = sum(weight.numel() for weight in module.parameters())
    everywhere = sum(int((weight == 0).sum()) for weight in module.parameters())
    return {
        "layers": len(layers),
        "sparsity": round(zeros / pruned, 6),
        "model_sparsity": round(everywhere / total, 6),
    }


def _pairs_reached(layers: list[Any]) -> float:
    groups = [_rows(layer.weight.detach(), layer).reshape(-1, _GROUP) for layer in layers]
    right = sum(int(((group == 0).sum(dim=1) >= _ZEROS).sum()) for group in groups)
    return round(right / sum(len(group) for group in groups), 6)
