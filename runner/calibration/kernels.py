"""Which kernels tell devices apart, in sizes that a device finishes in milliseconds and its caches do not hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from domain.kernels import DEPTHWISE
from domain.payloads import KernelTypes
from domain.performance.kernel_work import Work, kernel_work

__all__ = ["Kernel", "Scale", "chosen", "kernels_for", "quantizable", "scale_of"]

PRODUCT_S = 5e-3
"""Seconds that the largest product takes at the device's fp32 peak."""
SIDES = (256, 8192)
STREAM_CACHES, STREAM_S, STREAM_MOST_S = 4.0, 3e-4, 1e-2
"""A streaming kernel moves so many times the last-level cache, at least for so long and at most for so long."""
STREAM_LEAST = 16e6
HOST_TENSOR = 28 * 2**20
"""Bytes of a streamed tensor on a processor at most. The C library gives blocks of 32 MiB back to the system after each use, and the
page faults of the next use take eight times as long as the operator: few tensors within models are so large."""
DECODE_SIDES = (1024, 16384)
ITEM_FLOPS = 4e11
"""Kernels of models come at a batch of one item for each so many FLOP/s, a power of two and ITEMS at most."""
ITEMS = 32
MEMORY_SHARE = 1 / 32
"""No tensor takes a greater share of the device's memory."""
ROW = 1024
USUAL = {"cpu": (1e11, 3.2e7), "gpu": (1e13, 8e6)}
"""FLOP/s and bytes of cache of a device whose figures nobody knows; an NPU counts as a GPU."""
USUAL_INTENSITY = {"cpu": 10.0, "gpu": 30.0}
"""FLOP for a byte of memory traffic of a device whose bandwidth nobody knows."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel: its operator with the sizes of `domain.kernels.SIZES`, and which function or form of it, as `name` of an event."""

    name: str
    operator: str
    sizes: dict[str, int]
    function: str | None = None
    phase: str | None = None

    @property
    def group(self) -> tuple[str, str | None, str | None]:
        """Operator, function and phase: kernels that share them are timings of one event."""
        return self.operator, self.function, self.phase

    def work(self, types: KernelTypes | None = None) -> Work:
        """Return the least that it has to do in these number types; in fp32 by default."""
        counted = kernel_work(self.operator, self.sizes, types or _FP32, phase=self.phase)
        assert counted is not None
        return Work(float(counted.flops), float(counted.bytes))

    @property
    def flops(self) -> float:
        """Operations of the plain algorithm: of a convolution with its whole kernel, which `work` leaves out."""
        area = self.sizes.get("kernel_height", 1) * self.sizes.get("kernel_width", 1)
        return float(self.work().flops * area)

    @property
    def moves(self) -> bool:
        """Whether traffic is all of it: depthwise convolutions count as that."""
        return self.function == DEPTHWISE or self.operator in ("softmax", "norm", "elementwise")


_FP32 = KernelTypes(weights="fp32", activations="fp32", arithmetic="fp32")


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How large kernels are: the side of the largest product, elements that are streamed, the side of the matrix of a
    decoding step, and the batch of kernels that models have.
    """

    side: int
    stream: int
    decode: int
    items: int


def scale_of(
    kind: str | None,
    *,
    peak_flops: float | None = None,
    bandwidth_bytes_per_s: float | None = None,
    cache_bytes: float | None = None,
    memory_bytes: float | None = None,
) -> Scale:
    """Return the sizes for a device by its fp32 peak, bandwidth, last-level cache and memory; unknown figures are usual ones."""
    like = "cpu" if kind == "cpu" else "gpu"
    usual_peak, usual_cache = USUAL[like]
    peak = peak_flops or usual_peak
    bandwidth = bandwidth_bytes_per_s or peak / USUAL_INTENSITY[like]
    cache, memory = cache_bytes or usual_cache, memory_bytes or 8e9
    tensor = memory * MEMORY_SHARE
    streamed = max(STREAM_CACHES * cache, bandwidth * STREAM_S, STREAM_LEAST)
    streamed = min(streamed, bandwidth * STREAM_MOST_S, 2 * tensor, *([2 * HOST_TENSOR] if like == "cpu" else []))
    weights = min(max(STREAM_CACHES * cache, bandwidth * STREAM_S), bandwidth * STREAM_MOST_S, tensor)
    return Scale(
        side=_rounded(min((PRODUCT_S * peak / 2) ** (1 / 3), (tensor / 4) ** 0.5), 128, SIDES),
        # Half is read and half is written, four bytes an element, and two halves are joined.
        stream=max(2 * ROW, int(streamed / 8) // (2 * ROW) * 2 * ROW),
        decode=_rounded((weights / 4) ** 0.5, 256, DECODE_SIDES),
        items=min(ITEMS, 1 << max(0, int(peak / ITEM_FLOPS).bit_length() - 1)),
    )


def _rounded(value: float, step: int, bounds: tuple[int, int]) -> int:
    return min(max(int(value / step) * step, bounds[0]), bounds[1])


def kernels_for(scale: Scale) -> list[Kernel]:
    """Return the kernels in the order in which they are measured: those of one group follow each other."""
    return [*_products(scale), *_batched(scale), *_convolutions(scale), *_attention(scale), *_moving(scale)]


def _products(scale: Scale) -> list[Kernel]:
    side, tokens = scale.side, 128 * scale.items
    odd = side * 3 // 4 | 1
    sizes = {
        "tiny": (1, 64, 64),
        "square": (side, side, side),
        "half": (side // 2, side // 2, side // 2),
        "tall": (4 * side, side // 4, side // 2),
        "deep": (side // 4, side // 4, 8 * side),
        "odd": (odd, odd + 2, odd + 4),
        "decode": (1, scale.decode, scale.decode),
        "decode8": (8, scale.decode, scale.decode),
        "projection": (tokens, 768, 768),
        "widening": (tokens, 3072, 768),
    }
    return [Kernel(name=name, operator="gemm", sizes={"m": m, "n": n, "k": k}) for name, (m, n, k) in sizes.items()]


def _batched(scale: Scale) -> list[Kernel]:
    block = max(64, scale.side // 4)
    sizes = {"scores": (12 * scale.items, 128, 128, 64), "batched": (16, block, block, block)}
    return [
        Kernel(name=name, operator="bmm", sizes={"batch": batch, "m": m, "n": n, "k": k})
        for name, (batch, m, n, k) in sizes.items()
    ]


def _convolutions(scale: Scale) -> list[Kernel]:
    made = []
    for name, into, out, image, area, stride, groups in (
        ("stem", 3, 64, 224, 7, 2, 1),
        ("body", 64, 64, 56, 3, 1, 1),
        ("late", 512, 512, 7, 3, 1, 1),
        ("pointwise", 64, 256, 56, 1, 1, 1),
        ("depthwise", 192, 192, 56, 3, 1, 192),
    ):
        sizes = {"batch": scale.items, "in_channels": into, "out_channels": out, "height": image, "width": image}
        sizes |= {"kernel_height": area, "kernel_width": area, "stride": stride, "padding": area // 2, "groups": groups}
        function = DEPTHWISE if groups > 1 else None
        made.append(Kernel(name=name, operator="convolution", function=function, sizes=sizes))
    return made


def _attention(scale: Scale) -> list[Kernel]:
    items = scale.items
    some = max(1, items // 4)
    made = []
    for name, phase, batch, query, cached, heads in (
        ("context", "context", some, 1024, 0, 16),
        ("generation", "generation", items, 1, 2047, 32),
        ("encoder", "encoder", items, 128, 0, 12),
        ("encoder512", "encoder", items, 512, 0, 12),
    ):
        sizes = {"batch": batch, "query_tokens": query, "cached_tokens": cached, "heads": heads, "head_dim": 64}
        made.append(Kernel(name=name, operator="attention", phase=phase, sizes={**sizes, "kv_heads": heads}))
    return made


def _moving(scale: Scale) -> list[Kernel]:
    rows, items = scale.stream // ROW, scale.items
    large = {"rows": rows, "row_size": ROW}
    elementwise = [
        Kernel(name=name, operator="elementwise", function=name, sizes={**large, "inputs": inputs})
        for name, inputs in (("relu", 1), ("concat", 1), ("add", 2), ("gelu", 1))
    ]
    return [
        Kernel(
            name="softmax-small", operator="softmax", function="softmax", sizes={"rows": 1536 * items, "row_size": 128}
        ),
        Kernel(name="softmax-large", operator="softmax", function="softmax", sizes=large),
        Kernel(
            name="layer-norm-small",
            operator="norm",
            function="layer_norm",
            sizes={"rows": 128 * items, "row_size": 768},
        ),
        Kernel(name="layer-norm-large", operator="norm", function="layer_norm", sizes=large),
        *elementwise,
    ]


def quantizable(kernel: Kernel, platform: str) -> bool:
    """Return whether a platform computes this kernel in eight bits: products with weights; convolutions in OpenVINO alone."""
    return kernel.operator == "gemm" or (
        platform == "openvino" and kernel.operator == "convolution" and not kernel.moves
    )


def chosen(kernels: Sequence[Kernel], words: Collection[str]) -> list[Kernel]:
    """Return the kernels whose operator or name is among the words; all where none is given."""
    return [kernel for kernel in kernels if not words or kernel.operator in words or kernel.name in words]
