"""The kernels of a traced model: sizes of each operator, from what the trace says of its work.

A trace gives floating-point operations, elements read, written and of weights, and the inner length of each operator; the
sizes of a product follow from those. Batched products and attention count as square where the trace does not say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import OPERATOR_CLASSES, Limits
from predictor.features.table import Array
from predictor.features.traces import Trace
from predictor.kernels.columns import ATTENTION, MOVING, MOVING_KINDS, PRODUCT, Columns, device_columns

__all__ = ["TracedKernels", "kernels_of", "kernels_under"]

_PRODUCTS = ("conv", "conv1x1", "grouped", "mm", "bmm")
_KIND = {
    "depthwise": "elementwise",
    "elementwise": "elementwise",
    "norm": "norm",
    "softmax": "softmax",
    "copy": "copy",
    "reduce": "reduce",
    "embedding": "embedding",
    "other": "copy",
}
_COSTLY = ("gelu", "tanh", "erf", "exp", "sigmoid", "silu", "pow", "log", "sin", "cos", "hardswish", "softplus", "mish")
ROW = 1024.0
"""Elements of a row where the trace does not say how long rows are."""


class TracedKernels(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The kernels of one item by class: which operators of the trace they are, and sizes at batch 1, precision left out."""

    index: dict[str, NDArray[np.intp]]
    sizes: dict[str, dict[str, Array]]


@lru_cache(maxsize=512)
def kernels_of(trace: Trace) -> TracedKernels:
    """Return the kernels of a trace at batch 1, kept a trace; `kernels_under` gives them at a batch under limits."""
    names = np.array(OPERATOR_CLASSES)[trace.class_index]
    written = np.maximum(trace.written, 1.0)
    read = np.maximum(trace.activations - trace.written, 0.0)
    inner = np.maximum(trace.inner, 1.0)
    products = np.isin(names, _PRODUCTS) & (trace.flops > 0)
    attention = (names == "attention") & (trace.flops > 0) & (trace.inner > 0)
    index = {
        PRODUCT: np.flatnonzero(products),
        ATTENTION: np.flatnonzero(attention),
        MOVING: np.flatnonzero(~products & ~attention),
    }
    sizes = {
        PRODUCT: _products(trace, index[PRODUCT], written, read, inner),
        ATTENTION: _attention(trace, index[ATTENTION], written, read, inner),
        MOVING: _moving(trace, index[MOVING], names, written, read, inner),
    }
    return TracedKernels(index=index, sizes=sizes)


def _products(trace: Trace, here: NDArray[np.intp], written: Array, read: Array, inner: Array) -> dict[str, Array]:
    k, out, into = inner[here], written[here], read[here]
    weights, groups = trace.weights[here], np.maximum(trace.groups[here], 1.0)
    weighted = weights > 0
    # A bias makes the weights of a column one longer.
    column = np.where(np.mod(weights, k + 1) == 0, k + 1, k)
    square = np.maximum(2 * k * out / np.maximum(into, 1.0), 1.0)
    n = np.where(weighted, np.maximum(np.round(weights / column / groups), 1.0), square)
    batch = np.where(weighted, groups, np.maximum(out / np.maximum(square**2, 1.0), 1.0))
    m = np.maximum(out / (n * batch), 1.0)
    kernel = np.maximum(trace.kernel[here], 1.0)
    area = np.maximum(np.square(kernel / np.maximum(trace.stride[here], 1.0)), 1.0)
    return {"batch": batch, "m": m, "n": n, "k": k, "area": area, "grows": weighted.astype(np.float64)}


def _attention(trace: Trace, here: NDArray[np.intp], written: Array, read: Array, inner: Array) -> dict[str, Array]:
    width, out = inner[here], written[here]
    keys = np.maximum(trace.flops[here] / (4 * out), 1.0)
    heads = np.maximum(np.round((read[here] - out) / (2 * width * keys)), 1.0)
    return {
        "heads": heads,
        "kv_heads": heads,
        "queries": np.maximum(out / (width * heads), 1.0),
        "keys": keys,
        "width": width,
        "causal": np.zeros(len(here)),
    }


def _moving(
    trace: Trace, here: NDArray[np.intp], names: NDArray[np.str_], written: Array, read: Array, inner: Array
) -> dict[str, Array]:
    out = written[here]
    row = np.where(trace.inner[here] > 1, inner[here], np.minimum(ROW, out))
    costly = [any(word in trace.operators[index]["name"] for word in _COSTLY) for index in here.tolist()]
    kinds = [
        "costly elementwise" if names[index] == "elementwise" and dear else _KIND[str(names[index])]
        for index, dear in zip(here.tolist(), costly, strict=True)
    ]
    return {
        "rows": np.maximum(out / row, 1.0),
        "row": row,
        "activations": read[here] + out,
        "weights": trace.weights[here],
        "kind": np.array([float(MOVING_KINDS.index(kind)) for kind in kinds]),
    }


def kernels_under(
    kernels: TracedKernels, limits: Sequence[Limits], batches: Sequence[int], regime: str
) -> dict[str, Columns]:
    """Return the kernels of each class under several limits and batches: configurations one after the other."""
    count = len(limits)
    made: dict[str, Columns] = {}
    for name, sizes in kernels.sizes.items():
        each = len(kernels.index[name])
        device = {key: np.repeat(values, each) for key, values in device_columns(limits).items()}
        batch = np.repeat(np.array(batches, dtype=np.float64), each)
        activation = np.repeat([item.activation_bytes for item in limits], each)
        weight = np.repeat([item.weight_bytes for item in limits], each)
        own = {key: np.tile(values, count) for key, values in sizes.items()}
        if name == PRODUCT:
            grows = own.pop("grows") > 0
            own["m"] = np.where(grows, own["m"] * batch, own["m"])
            own["batch"] = np.where(grows, own["batch"], own["batch"] * batch)
            own |= {
                "left_bytes": activation,
                "right_bytes": np.where(grows, weight, activation),
                "out_bytes": activation,
            }
        elif name == ATTENTION:
            own |= {"batch": batch, "bytes": activation, "kv_bytes": activation}
        else:
            elements = own.pop("activations") * batch * activation + own.pop("weights") * weight
            own["rows"] = own["rows"] * batch
            own |= {"moved": elements / activation / own["rows"], "bytes": activation}
        made[name] = Columns(sizes=own, device=device, regime=np.full(len(batch), regime))
    return made
