"""What ONNX Runtime's own profile says of one call: which provider ran each node, in which type, by FLOPs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["work_of"]

_TYPES = {"float": "fp32", "double": "fp64", "float16": "fp16", "bfloat16": "bf16"}
_INTEGER = frozenset(
    {
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul",
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
        "QAttention",
    }
)
_ATTENTION = frozenset({"Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"})
_PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul", "FusedGemm", "TransposeMatMul", "MatMulNBits"})
_CONVOLUTIONS = frozenset({"Conv", "FusedConv", "NhwcConv", "ConvTranspose", "NhwcFusedConv"})
_TAKEN = "_kernel_time"

Shape = Sequence[int]


def work_of(profile: Path) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
    """Return FLOPs by (provider, precision) over the nodes that multiply, and how many nodes each provider ran.

    Elements written in floating point are counted where no node multiplies. `profile` is the JSON file of
    `end_profiling` of one call. Weights that were packed beforehand are absent from it: a product's length of the sum
    is the last side of its first operand, which is there.
    """
    multiplying: Counter[tuple[str, str]] = Counter()
    others: Counter[tuple[str, str]] = Counter()
    nodes: Counter[str] = Counter()
    for event in msgspec.json.decode(profile.read_bytes()):
        if event.get("cat") != "Node" or not event["name"].endswith(_TAKEN):
            continue
        args: Mapping[str, Any] = event["args"]
        kind, provider = args["op_name"], args["provider"]
        taken, sides = _sides(args["input_type_shape"]), _sides(args["output_type_shape"])
        nodes[provider] += 1
        written = prod(sides[0][1]) if sides else 0
        if kind in _INTEGER:
            multiplying[provider, "int8"] += _flops(kind, taken, sides)
        elif kind in _PRODUCTS | _CONVOLUTIONS | _ATTENTION:
            multiplying[provider, _TYPES.get(taken[0][0], taken[0][0])] += _flops(kind, taken, sides)
        elif sides and sides[0][0] in _TYPES:
            others[provider, _TYPES[sides[0][0]]] += max(1, written)
    return multiplying or others or Counter({(provider, "fp32"): count for provider, count in nodes.items()}), dict(
        nodes
    )


def _sides(document: Sequence[Mapping[str, Shape]]) -> list[tuple[str, Shape]]:
    return [next(iter(item.items())) for item in document if item]


def _flops(kind: str, taken: Sequence[tuple[str, Shape]], values: Sequence[tuple[str, Shape]]) -> int:
    """Return 2 × outputs × length of the sum; of attention both of its products. At least 1."""
    written, first = prod(values[0][1]), taken[0][1]
    if "Conv" in kind:
        weights = taken[1][1] if len(taken) > 1 and len(taken[1][1]) > 2 else ()
        return max(1, 2 * written * (prod(weights[1:]) if weights else first[1] if len(first) > 1 else 1))
    if kind in _ATTENTION:
        keys = taken[1][1] if len(taken) > 1 and len(taken[1][1]) > 2 else first
        return max(1, 4 * written * (keys[-2] if len(keys) > 1 else 1))
    return max(1, 2 * written * (first[-1] if first else 1))
