"""Recording a module for OpenVINO: what is settled beforehand, and the two ways of recording."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

__all__ = ["choose_text", "recorded", "settled"]

_STEERING = frozenset({"image_sizes"})


def settled(module: Any, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the graph and the keyword arguments that become part of it.

    Fixed are sizes that decide which operators run, as plain numbers, and positions in three coordinates: a model
    works them out in Python from the places of its images, and keeps them by `positions[:, mask] = …`, which
    OpenVINO 2026.4 converts to a graph that writes them in another order.
    """
    fixed = {name: tensor.tolist() for name, tensor in inputs.items() if name in _STEERING}
    free = {name: tensor for name, tensor in inputs.items() if name not in _STEERING}
    find = getattr(getattr(module, "model", None), "compute_3d_position_ids", None)
    if find is not None:
        parameters = inspect.signature(find).parameters
        positions = find(**{"inputs_embeds": None, **{name: free[name] for name in free.keys() & parameters.keys()}})
        fixed |= {} if positions is None else {"position_ids": positions}
    return free, fixed


def recorded(module: Any, inputs: tuple[Any, ...]) -> Any:
    """Convert by tracing; by exporting where the trace holds an operator that OpenVINO has no rule for."""
    import openvino as ov
    import torch

    try:
        traced = torch.jit.trace(module, inputs, strict=False, check_trace=False)
        return ov.convert_model(traced, example_input=inputs)
    except Exception as first:
        try:
            return ov.convert_model(torch.export.export(module, inputs, strict=False))
        except Exception:
            # Tracing is the common way, so its reason says more than that of the second attempt.
            raise first from None


def choose_text(config: Any) -> None:
    """Let a config of two texts answer with its decoder's: tracing reads every property, and some ask for the text."""
    find = getattr(config, "get_text_config", None)
    if find is None:
        return

    def chosen(decoder: bool | None = None, encoder: bool | None = None) -> Any:
        return find(decoder=decoder or not encoder, encoder=encoder)

    try:
        find()
    except ValueError:
        config.get_text_config = chosen
