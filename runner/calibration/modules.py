"""A kernel as a module of torch with inputs of its sizes: what every platform takes, converted or as it is."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.nn import functional

from runner.calibration.kernels import Kernel

__all__ = ["module_of"]

_PERIOD = 4093
"""Values repeat after so many, a prime, so that gigabytes of them are made in moments."""


def module_of(kernel: Kernel) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return the module in eval mode and its inputs by name, in fp32."""
    module, shapes = _MAKERS[kernel.operator](kernel)
    for parameter in module.parameters():
        parameter.data = _values(*parameter.shape) / 32
    inputs = {name: _values(*shape) for name, shape in zip(("x", "y", "z"), shapes, strict=False)}
    return module.eval().requires_grad_(requires_grad=False), inputs


def _values(*shape: int) -> torch.Tensor:
    block = torch.randn(_PERIOD, generator=torch.Generator().manual_seed(0))
    count = prod(shape)
    return block.repeat(-(-count // _PERIOD))[:count].reshape(shape)


Made = tuple[torch.nn.Module, list[tuple[int, ...]]]


class _Function(torch.nn.Module):  # type: ignore[misc]
    """A function of its inputs, without weights."""

    def __init__(self, function: str, *, causal: bool = False) -> None:
        super().__init__()
        self._function, self._causal = function, causal

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None, z: torch.Tensor | None = None) -> torch.Tensor:
        """Return what the function gives."""
        match self._function:
            case "matmul":
                return torch.matmul(x, y)
            case "attention":
                return functional.scaled_dot_product_attention(x, y, z, is_causal=self._causal)
            case "softmax":
                return torch.softmax(x, dim=-1)
            case "relu":
                return torch.relu(x)
            case "gelu":
                return functional.gelu(x)
            case "add":
                return x + y
            case "concat":
                return torch.cat((x, y))
        raise ValueError(f"no function {self._function!r}")


class _OneInput(torch.nn.Module):  # type: ignore[misc]
    """A layer with weights, whose input is called x as those of the others."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        return self.layer(x)


def _gemm(kernel: Kernel) -> Made:
    m, n, k = (kernel.sizes[name] for name in ("m", "n", "k"))
    return _OneInput(torch.nn.utils.skip_init(torch.nn.Linear, k, n, bias=False)), [(m, k)]


def _bmm(kernel: Kernel) -> Made:
    batch, m, n, k = (kernel.sizes[name] for name in ("batch", "m", "n", "k"))
    return _Function("matmul"), [(batch, m, k), (batch, k, n)]


def _convolution(kernel: Kernel) -> Made:
    size = kernel.sizes
    layer = torch.nn.Conv2d(
        size["in_channels"],
        size["out_channels"],
        (size["kernel_height"], size["kernel_width"]),
        stride=size["stride"],
        padding=size["padding"],
        groups=size["groups"],
        bias=False,
    )
    return _OneInput(layer), [(size["batch"], size["in_channels"], size["height"], size["width"])]


def _attention(kernel: Kernel) -> Made:
    size = kernel.sizes
    keys = size["query_tokens"] + size["cached_tokens"]
    queries = (size["batch"], size["heads"], size["query_tokens"], size["head_dim"])
    cache = (size["batch"], size["kv_heads"], keys, size["head_dim"])
    # One token sees all that is cached: a mask would be a row of ones.
    return _Function("attention", causal=kernel.phase == "context"), [queries, cache, cache]


def _norm(kernel: Kernel) -> Made:
    rows, row = kernel.sizes["rows"], kernel.sizes["row_size"]
    return _OneInput(torch.nn.LayerNorm(row)), [(rows, row)]


def _rowwise(kernel: Kernel) -> Made:
    assert kernel.function is not None
    rows, row = kernel.sizes["rows"], kernel.sizes["row_size"]
    shapes: dict[str, list[tuple[int, ...]]] = {"add": [(rows, row)] * 2, "concat": [(rows // 2, row)] * 2}
    return _Function(kernel.function), shapes.get(kernel.function, [(rows, row)])


_MAKERS = {
    "gemm": _gemm,
    "bmm": _bmm,
    "convolution": _convolution,
    "attention": _attention,
    "norm": _norm,
    "softmax": _rowwise,
    "elementwise": _rowwise,
}
