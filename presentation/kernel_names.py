"""Kernels and their roofs in words, as charts, tables and the terminal name them."""

from __future__ import annotations

from collections.abc import Mapping

from domain.answers.kernels import KernelRoof
from presentation import formatting

__all__ = ["kernel_name", "roof_words", "sizes_words"]


def roof_words(roof: KernelRoof) -> str:
    """Name a roof by what says it and its figures."""
    by = {"kernels": f"as {formatting.count(roof.kernels)} kernels say"}.get(roof.source, roof.source)
    figures = [
        formatting.si(figure, unit)
        for figure, unit in ((roof.flops_per_s, "FLOP/s"), (roof.bandwidth_bytes_per_s, "B/s"))
        if figure is not None
    ]
    return f"{by} {', '.join(figures)}"


def sizes_words(operator: str, sizes: Mapping[str, int]) -> str:
    """Write the sizes of a kernel shortly: `1024×3072×768`."""
    if operator in ("gemm", "bmm"):
        product = "×".join(str(sizes[name]) for name in ("m", "n", "k"))
        return f"{sizes['batch']} of {product}" if operator == "bmm" else product
    if operator == "attention":
        tokens = "×".join(str(sizes[name]) for name in ("batch", "heads", "query_tokens", "head_dim"))
        return f"{tokens} after {sizes['cached_tokens']}" if sizes.get("cached_tokens") else tokens
    if operator == "convolution":
        image = f"{sizes['batch']}×{sizes['in_channels']}×{sizes['height']}×{sizes['width']}"
        stride = f" / {sizes['stride']}" if (sizes.get("stride") or 1) > 1 else ""
        return f"{image} by {sizes['out_channels']} of {sizes['kernel_height']}×{sizes['kernel_width']}{stride}"
    if "rows" in sizes and "row_size" in sizes:
        return f"{sizes['rows']}×{sizes['row_size']}"
    return ", ".join(f"{name} {value}" for name, value in sizes.items())


def kernel_name(operator: str, name: str | None, phase: str | None, sizes: Mapping[str, int]) -> str:
    """Name a kernel by its operator, its own name, its phase and its sizes."""
    own = f" {name}" if name and name.lower() != operator else ""
    part = f" {phase}" if phase and phase != "forward" else ""
    return f"{operator}{own}{part} · {sizes_words(operator, sizes)}"
