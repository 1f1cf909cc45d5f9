"""The least that a kernel has to do: operations and bytes by its sizes, and the time in which a device could do them.

Sizes are numbers or numpy arrays of one length. What is counted is a floor: arithmetic that no algorithm avoids, and each
tensor read or written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from domain.payloads import KernelTypes
from domain.vocabulary import PRECISION_BITS

__all__ = ["Work", "direct_work", "kernel_work"]

Numbers = Any
"""A number, or a numpy array of them."""
_BITS = {**PRECISION_BITS, "fp64": 64, "int64": 64, "int32": 32, "bool": 8}


class Work(NamedTuple):
    """Operations (a multiplication and an addition are two) and bytes moved, at the least."""

    flops: Numbers
    bytes: Numbers


def kernel_work(
    operator: str,
    sizes: Mapping[str, Numbers],
    types: KernelTypes | None = None,
    *,
    phase: str | None = None,
) -> Work | None:
    """Return the least work of an operator of these sizes; None where its sizes do not tell.

    Number types that are not known count as 16 bits. Sizes that are absent are those of the simplest case: no cache, as
    many KV heads as heads, no window, stride 1, no tensor read. An array of an optional size holds 0 where one is absent.
    """
    count = _WORK.get(operator)
    if phase == "accumulation" or (phase == "backward" and operator == "elementwise"):
        return None  # Gradients are as large as the weights, and those of a sum are handed on as they are.
    return None if count is None else count(sizes, _Kernel(types, phase))


def direct_work(
    operator: str,
    sizes: Mapping[str, Numbers],
    types: KernelTypes | None = None,
    *,
    phase: str | None = None,
) -> Work | None:
    """Return the work of an operator as it is usually counted; None where it has no such count.

    A convolution does every multiplication of its filters (Winograd's does fewer), an element-wise operator reads one tensor
    where nobody counted them. How many experts of a mixture are read depends on the tokens, and a collective computes nothing.
    """
    import numpy as np

    if operator == "moe":
        return None
    if operator == "elementwise":
        sizes = {**sizes, "inputs": np.maximum(sizes.get("inputs", 1), 1)}
    work = kernel_work(operator, sizes, types, phase=phase)
    if work is None or operator != "convolution":
        return work
    return Work(work.flops * sizes["kernel_height"] * sizes["kernel_width"], work.bytes)


class _Kernel:
    """Bytes of an element by what it is, and the phase."""

    def __init__(self, types: KernelTypes | None, phase: str | None) -> None:
        types = types or KernelTypes()
        self.phase = phase
        self.activation = _bytes(types.activations)
        self.weight = _bytes(types.weights or types.activations)
        self.cache = _bytes(types.kv_cache or types.activations)
        # The result of a product of narrow types is at least 16 bits wide.
        self.result = max(2.0, self.activation)


def _bytes(precision: str | None) -> float:
    return _BITS.get(precision or "fp16", 16) / 8


def _gemm(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    m, n, k, batch = sizes["m"], sizes["n"], sizes["k"], sizes.get("batch", 1)
    return Work(
        2.0 * batch * m * n * k, batch * (m * k * kernel.activation + k * n * kernel.weight + m * n * kernel.result)
    )


def _attention(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    import numpy as np

    batch, query, heads, width = sizes["batch"], sizes["query_tokens"] * 1.0, sizes["heads"], sizes["head_dim"]
    cached = sizes.get("cached_tokens", 0)
    kv_heads = sizes.get("kv_heads", 0)
    kv_heads = np.where(np.asarray(kv_heads) > 0, kv_heads, heads)
    window = np.asarray(sizes.get("window_size", 0)) * 1.0
    window = np.where(window > 0, window, np.inf)
    keys = np.minimum(cached + query, window + query)
    if kernel.phase == "encoder":
        pairs = query * (cached + query)
    else:
        # Token i sees what is cached and the i tokens up to itself, or the window.
        growing = np.clip(window - cached, 0, query)
        pairs = (
            cached * growing
            + growing * (growing + 1) / 2
            + np.where(growing < query, (query - growing) * np.minimum(window, 1e18), 0)
        )
    moved = (
        batch * query * heads * width * (kernel.activation + kernel.result)
        + 2.0 * batch * keys * kv_heads * width * kernel.cache
    )
    return Work(4.0 * batch * heads * width * pairs, moved)


def _convolution(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    import numpy as np

    batch, into, out = sizes["batch"], sizes["in_channels"], sizes["out_channels"]
    stride = np.maximum(sizes.get("stride", 1), 1)
    padding, groups = sizes.get("padding", 0), np.maximum(sizes.get("groups", 1), 1)
    rows = np.maximum((sizes["height"] + 2 * padding - sizes["kernel_height"]) // stride + 1, 0)
    columns = np.maximum((sizes["width"] + 2 * padding - sizes["kernel_width"]) // stride + 1, 0)
    per_group = into / groups
    # Winograd and Fourier transforms do away with all but one multiplication for each value and pair of channels.
    flops = 2.0 * batch * rows * columns * out * per_group
    weights = out * per_group * sizes["kernel_height"] * sizes["kernel_width"]
    # With a stride, values of the input may never be read.
    read = np.minimum(
        into * sizes["height"] * sizes["width"], into * rows * columns * sizes["kernel_height"] * sizes["kernel_width"]
    )
    return Work(
        flops,
        batch * read * kernel.activation + weights * kernel.weight + batch * out * rows * columns * kernel.activation,
    )


def _moe(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    import numpy as np

    tensor, expert = np.maximum(sizes.get("tensor_parallel", 1), 1), np.maximum(sizes.get("expert_parallel", 1), 1)
    # Without a gate an expert is two matrices; how many experts of a part of them are used depends on the tokens.
    matrices = 2.0 * sizes["hidden_size"] * (sizes["inner_size"] / tensor)
    used = np.where(expert == 1, np.minimum(sizes["experts"], sizes["top_k"]), 0)
    moved = used * matrices * kernel.weight + sizes["tokens"] / expert * sizes["hidden_size"] * kernel.activation
    return Work(2.0 * matrices * sizes["tokens"] * sizes["top_k"] / expert, moved)


def _rowwise(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    elements = sizes["rows"] * sizes["row_size"] * 1.0
    return Work(elements, 2.0 * elements * kernel.activation)


def _elementwise(sizes: Mapping[str, Numbers], kernel: _Kernel) -> Work:
    elements = sizes["rows"] * sizes["row_size"] * 1.0
    # Tensors that nobody counted may be views of smaller ones.
    return Work(elements, elements * (sizes.get("inputs", 0) + 1) * kernel.activation)


_WORK: Mapping[str, Callable[[Mapping[str, Numbers], _Kernel], Work]] = {
    "gemm": _gemm,
    "bmm": _gemm,
    "attention": _attention,
    "convolution": _convolution,
    "moe": _moe,
    "softmax": _rowwise,
    "norm": _rowwise,
    "elementwise": _elementwise,
}
