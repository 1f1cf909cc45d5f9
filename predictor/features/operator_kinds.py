"""Finer kinds of operators than the classes of a trace: which software path an operator takes follows from them.

A class says what is computed. What it costs beside the roofline depends on the kernel's size, the width of a group,
whether lengths fill the matrix units, and which pointwise function it is; all of it stands in the rows of a trace.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import ARITHMETIC_CLASSES, OPERATOR_CLASSES
from predictor.features.table import Array
from predictor.features.traces import Trace

__all__ = ["KINDS", "MATRIX_UNIT", "NAMED", "Kinds", "kinds_of"]

Mask = NDArray[np.bool_]
MATRIX_UNIT = 8
"""Lengths that are not a multiple of this many 16-bit numbers are padded, or leave the matrix units idle."""
_NAMES = {
    "relu": "relu hardtanh clamp clamp_min threshold leaky_relu",
    "gelu": "gelu erf",
    "silu": "silu mish",
    "hard": "hardswish hardsigmoid",
    "sigmoid": "sigmoid tanh softplus exp log",
    "add": "add sub rsub",
    "mul": "mul div pow sqrt rsqrt reciprocal neg square",
    "layer_norm": "native_layer_norm",
    "batch_norm": "native_batch_norm cudnn_batch_norm _native_batch_norm_legit_no_training",
    "group_norm": "native_group_norm",
    "clone": "clone contiguous copy _to_copy",
    "cat": "cat stack",
    "pad": "constant_pad_nd",
    "roll": "roll",
    "index": "index index_select gather _unsafe_index",
    "pool": "avg_pool2d max_pool2d_with_indices adaptive_max_pool2d",
    "mean": "mean sum _adaptive_avg_pool2d adaptive_avg_pool2d amax",
    "variance": "var_mean var std std_mean linalg_vector_norm norm",
    "unfold": "im2col col2im",
    "upsample": (
        "upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
        "grid_sampler_2d"
    ),
    "probabilities": "_softmax _safe_softmax",
}
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}
NAMED = tuple(_NAMES)
"""Kinds that an operator's name tells, of those that do no counted arithmetic."""
_DEPTHWISE = ((1, 2), (3, 3), (4, 5), (6, 7), (8, 99))
_GROUPED = ((0, 4), (5, 8), (9, 16), (17, 32), (33, 10**9))
_CONVOLVED = ((0, 4), (5, 32), (33, 128), (129, 10**9))
KINDS = (
    *NAMED,
    *(f"depthwise.kernel_{low}" for low, _ in _DEPTHWISE),
    "depthwise.strided",
    "depthwise.multiplied",
    *(f"grouped.width_{low}" for low, _ in _GROUPED),
    *(f"conv.width_{low}" for low, _ in _CONVOLVED),
    "conv.large",
    "conv.strided",
    "odd_inner",
    "odd_outer",
    "thin_product",
    "thin_attention",
    "odd_attention",
)


class Kinds(NamedTuple):
    """Of each operator row of one trace: its kinds, its channels a group, and what else decides its software path."""

    masks: dict[str, Mask]
    width: Array
    outer: Array
    odd: Mask
    arithmetic: Mask
    backward: Mask
    by_class: dict[str, Mask]


@lru_cache(maxsize=4096)
def kinds_of(trace: Trace) -> Kinds:
    """Return the kinds of a trace's operator rows; kept, because many configurations ask for the same trace."""
    by_class = {name: trace.class_index == index for index, name in enumerate(OPERATOR_CLASSES)}
    arithmetic = trace.class_index < len(ARITHMETIC_CLASSES)
    kernel, stride = trace.kernel, trace.stride
    names = [row["name"].rpartition(".")[2].rstrip("_").removesuffix("_data") for row in trace.operators]
    named = np.array([_KIND_OF.get(name.removesuffix("_backward"), "") for name in names], dtype=str)
    backward = np.array([name.endswith("_backward") for name in names], dtype=bool)
    masks: dict[str, Mask] = {name: (named == name) & ~arithmetic for name in NAMED}
    width = np.where(kernel > 0, trace.inner / np.maximum(kernel, 1) ** 2, 0.0)
    per_group = np.maximum(trace.inner, 1) * np.maximum(trace.groups, 1)
    outer = np.where((trace.inner > 0) & (trace.weights > 0), np.round(trace.weights / per_group), 0.0)
    depthwise, grouped, conv = by_class["depthwise"], by_class["grouped"], by_class["conv"]
    for low, high in _DEPTHWISE:
        masks[f"depthwise.kernel_{low}"] = depthwise & (kernel >= low) & (kernel <= high)
    masks["depthwise.strided"] = depthwise & (stride > 1)
    masks["depthwise.multiplied"] = depthwise & (trace.inner != kernel**2)
    for low, high in _GROUPED:
        masks[f"grouped.width_{low}"] = grouped & (width >= low) & (width <= high)
    for low, high in _CONVOLVED:
        masks[f"conv.width_{low}"] = conv & (width >= low) & (width <= high)
    masks["conv.large"], masks["conv.strided"] = conv & (kernel >= 4), conv & (stride > 1)
    inner = np.where(kernel > 0, width, trace.inner)
    dense = conv | by_class["conv1x1"] | by_class["mm"]
    masks["odd_inner"] = (dense | grouped) & (inner % MATRIX_UNIT != 0)
    masks["odd_outer"] = (dense | grouped) & (outer % MATRIX_UNIT != 0)
    masks["thin_product"] = (by_class["mm"] | by_class["bmm"]) & (trace.inner < 32)
    masks["thin_attention"] = by_class["attention"] & (trace.inner < 32)
    masks["odd_attention"] = by_class["attention"] & ~np.isin(trace.inner, (32, 64, 128))
    odd = dense & ((inner % MATRIX_UNIT != 0) | (outer % MATRIX_UNIT != 0))
    return Kinds(masks, width, outer, odd, arithmetic, backward, by_class)
