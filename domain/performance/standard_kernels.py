"""The standard kernels: operators of sizes that models have, chosen so that devices that differ answer them differently.

They are what a device is calibrated with and what a prediction of its kernels is shown for. The small ones say what a launch
costs, the large products what arithmetic reaches, the vectors times matrices and the large vectors what bandwidth reaches;
what lies between says where one limit takes over from the other.
"""

from __future__ import annotations

import msgspec

__all__ = ["STANDARD_KERNELS", "StandardKernel"]


class StandardKernel(msgspec.Struct, frozen=True, kw_only=True):
    """An operator of an `assay.kernel.measured.v1` event with its sizes; `id` names it in answers and tables."""

    id: str
    operator: str
    sizes: dict[str, int]
    name: str | None = None
    phase: str | None = None


def _gemm(id_: str, m: int, n: int, k: int) -> StandardKernel:
    return StandardKernel(id=id_, operator="gemm", sizes={"m": m, "n": n, "k": k})


def _bmm(id_: str, batch: int, m: int, n: int, k: int) -> StandardKernel:
    return StandardKernel(id=id_, operator="bmm", sizes={"batch": batch, "m": m, "n": n, "k": k})


def _convolution(
    id_: str, batch: int, channels: tuple[int, int], side: int, kernel: int, stride: int
) -> StandardKernel:
    into, out = channels
    sizes = {
        "batch": batch,
        "in_channels": into,
        "out_channels": out,
        "height": side,
        "width": side,
        "kernel_height": kernel,
        "kernel_width": kernel,
        "stride": stride,
        "padding": kernel // 2,
    }
    return StandardKernel(id=id_, operator="convolution", sizes=sizes)


def _attention(id_: str, phase: str, batch: int, heads: int, tokens: tuple[int, int], width: int) -> StandardKernel:
    queries, cached = tokens
    sizes = {"batch": batch, "query_tokens": queries, "heads": heads, "head_dim": width, "cached_tokens": cached}
    return StandardKernel(id=id_, operator="attention", sizes=sizes, phase=phase)


def _rowwise(id_: str, operator: str, name: str, rows: int, row_size: int, inputs: int | None = None) -> StandardKernel:
    sizes = {"rows": rows, "row_size": row_size} | ({} if inputs is None else {"inputs": inputs})
    return StandardKernel(id=id_, operator=operator, sizes=sizes, name=name)


STANDARD_KERNELS: tuple[StandardKernel, ...] = (
    _gemm("product-128", 128, 128, 128),
    _gemm("product-512", 512, 512, 512),
    _gemm("product-1024", 1024, 1024, 1024),
    _gemm("product-2048", 2048, 2048, 2048),
    _gemm("product-4096", 4096, 4096, 4096),
    _gemm("vector-1024", 1, 1024, 1024),
    _gemm("vector-4096", 1, 4096, 4096),
    _gemm("vector-11008", 1, 11008, 4096),
    _gemm("rows-8", 8, 4096, 4096),
    _gemm("rows-64", 64, 4096, 4096),
    _gemm("bert-feed-forward", 1024, 3072, 768),
    _gemm("vit-projection", 197, 768, 768),
    _bmm("scores-64", 12, 128, 128, 64),
    _bmm("scores-512", 96, 512, 512, 64),
    _convolution("stem-7x7", 8, (3, 64), 224, 7, 2),
    _convolution("conv-3x3-56", 8, (64, 64), 56, 3, 1),
    _convolution("conv-3x3-14", 8, (256, 256), 14, 3, 1),
    _convolution("conv-1x1-28", 8, (512, 128), 28, 1, 1),
    _attention("encoder-197", "encoder", 8, 12, (197, 0), 64),
    _attention("prompt-512", "context", 1, 32, (512, 0), 128),
    _attention("prompt-2048", "context", 1, 32, (2048, 0), 128),
    _attention("token-after-512", "generation", 1, 32, (1, 512), 128),
    _attention("token-after-4096", "generation", 8, 32, (1, 4096), 128),
    _rowwise("softmax-512", "softmax", "softmax", 6144, 512),
    _rowwise("norm-768", "norm", "layer_norm", 1024, 768),
    _rowwise("norm-4096", "norm", "layer_norm", 4096, 4096),
    _rowwise("add-small", "elementwise", "add", 128, 768, 2),
    _rowwise("add-large", "elementwise", "add", 8192, 4096, 2),
    _rowwise("gelu-3072", "elementwise", "gelu", 1024, 3072, 1),
)
"""29 kernels; a product of `m` × `k` and `k` × `n` has its operands in that order."""
