"""What OpenVINO's own graph says of a compiled model: which precision each layer that multiplies runs in, by FLOPs."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

__all__ = ["fill", "with_edges", "work_of"]

_NAMES = {"f32": "fp32", "bf16": "bf16", "f16": "fp16", "i8": "int8", "u8": "int8", "i4": "int4", "u4": "int4"}
_MULTIPLYING = frozenset(
    {
        "FullyConnected",
        "MatMul",
        "Gemm",
        "Convolution",
        "GroupConvolution",
        "Deconvolution",
        "ScaledDotProductAttention",
        "ScaledDotProductAttentionWithKVCache",
        "PagedAttention",
        "QKVProjection",
        "LLMMLP",
        "RNNSeq",
        "RNNCell",
    }
)
_QUANTIZED = frozenset({"i8", "u8", "i4", "u4"})


def fill(request: Any, port: Any, value: Any) -> None:
    """Give a request's input a tensor of its own, in the type that the port wants."""
    import numpy as np
    import openvino as ov

    array = np.ascontiguousarray(np.asarray(value))
    if port.get_element_type() == ov.Type.bf16:
        # numpy has no bf16: its bits are the upper half of those of fp32.
        tensor = ov.Tensor(ov.Type.bf16, ov.Shape(port.get_shape()))
        tensor.data.view(np.uint16)[...] = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        request.set_tensor(port, tensor)
        return
    request.set_tensor(port, ov.Tensor(array.astype(port.get_element_type().to_dtype(), copy=False).copy()))


def with_edges(model: Any, kind: str) -> Any:
    """Return the model with floating inputs and outputs of that type (`bf16`, `f16`) in place of fp32."""
    import openvino as ov
    from openvino.preprocess import PrePostProcessor

    narrow, processor = getattr(ov.Type, kind), PrePostProcessor(model)
    for index, port in enumerate(model.inputs):
        if port.get_element_type() == ov.Type.f32:
            processor.input(index).tensor().set_element_type(narrow)
    for index, port in enumerate(model.outputs):
        if port.get_element_type() == ov.Type.f32:
            processor.output(index).tensor().set_element_type(narrow)
    return processor.build()


def work_of(compiled: Any) -> Counter[str]:
    """Return FLOPs by precision over the layers that multiply; elements over all layers where none does.

    A layer whose weights are stored in four or eight bits counts as these, also where it multiplies in a wider type:
    that is what a weight-only form is. Lengths that are free in the graph count as 1.
    """
    multiplying: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for layer in compiled.get_runtime_model().get_ordered_ops():
        information = layer.get_rt_info()
        kind = information["layerType"].astype(str)
        ran = information["runtimePrecision"].astype(str)
        if kind in _MULTIPLYING:
            stored = _stored(layer)
            name = stored if stored in _QUANTIZED else ran
            multiplying[_NAMES.get(name, name)] += _flops(kind, layer)
        elif kind not in {"Const", "Input", "Output"}:
            others[_NAMES.get(ran, ran)] += max(1, prod(_shape(layer.output(0)) if layer.get_output_size() else ()))
    return multiplying or others


def _stored(layer: Any) -> str | None:
    """Return the type of a layer's constant weights, or None where it multiplies what it computed."""
    for port in list(layer.inputs())[1:2]:
        source = port.get_source_output().get_node()
        kind = source.get_rt_info()["layerType"].astype(str)
        if kind == "Const":
            return str(port.get_element_type().get_type_name())
    return None


def _shape(port: Any) -> tuple[int, ...]:
    return tuple(size.get_length() if size.is_static else 1 for size in port.get_partial_shape())


def _flops(kind: str, layer: Any) -> int:
    """Return 2 × outputs × length of the sum of one layer; at least 1."""
    produced = _shape(layer.output(0))
    operands = [_shape(port) for port in layer.inputs()]
    if "onvolution" in kind and len(operands) > 1 and len(produced) > 1:
        inner = prod(operands[1]) // max(1, produced[1])
    else:
        inner = operands[0][-1] if operands and operands[0] else 1
    return max(1, 2 * prod(produced) * inner)
