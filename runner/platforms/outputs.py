"""The tensors of a model's output, in one order for every platform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = ["FlatOutputs", "flatten"]

_CACHES = frozenset({"past_key_values", "mems", "cache_params", "encoder_outputs"})


def flatten(outputs: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (dotted name, tensor) of each floating tensor; caches between calls are not outputs."""
    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point():
            yield path or "output", outputs
    elif isinstance(outputs, Mapping):
        for key, value in outputs.items():
            if key not in _CACHES:
                yield from flatten(value, f"{path}.{key}" if path else key)
    elif isinstance(outputs, tuple | list):
        for index, value in enumerate(outputs):
            yield from flatten(value, f"{path or 'output'}.{index}")


class FlatOutputs(torch.nn.Module):  # type: ignore[misc]
    """A module that takes its inputs in a fixed order and returns the tensors of `flatten` as a tuple.

    `fixed` are keyword arguments that become part of the module instead of inputs.
    """

    def __init__(self, module: torch.nn.Module, names: list[str], fixed: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.module = module
        self.names = names
        self.fixed = dict(fixed or {})

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the floating outputs of one call."""
        result = self.module(**dict(zip(self.names, inputs, strict=True)), **self.fixed)
        return tuple(tensor for _, tensor in flatten(result))
