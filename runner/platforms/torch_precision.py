"""Precisions of torch modules: the type of the weights, autocast around a call, and quantized weights by torchao.

int8 is dynamic: weights per channel and activations per token in eight bits, multiplied as integers. int4 is weights
alone, in groups, multiplied with bf16 activations by torch's own kernel. Only linear layers are quantized.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from domain.errors import PartMissing, UnsupportedPrecision

__all__ = ["AUTOCAST", "DTYPES", "QUANTIZED", "autocast_refusals", "observed_name", "quantize", "refusals"]

DTYPES = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "amp-bf16": "float32",
    "amp-fp16": "float32",
    "int8": "float32",
    "int4": "bfloat16",
    "fp8": "bfloat16",
}
"""The type of weights and floating inputs that are not quantized."""
AUTOCAST = {"amp-bf16": "bfloat16", "amp-fp16": "float16"}
QUANTIZED = ("int8", "int4")
GROUP_SIZES = (128, 64, 32)
_NAMES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float64": "fp64",
    "uint8": "int8",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
    "float8_e5m2fnuz": "fp8",
}


def observed_name(dtype: str) -> str:
    """Return the vocabulary's word for a torch type without its prefix."""
    return _NAMES.get(dtype, dtype)


def refusals() -> dict[str, str]:
    """Return why quantized precisions are not possible here, with the command that helps."""
    if importlib.util.find_spec("torchao") is None:
        return dict.fromkeys(QUANTIZED, "torchao is not installed: pip install torchao.")
    return {}


@contextlib.contextmanager
def autocast_refusals() -> Iterator[None]:
    """Raise UnsupportedPrecision where a model writes a number into a tensor that autocast made too narrow for it.

    DeBERTa does: it fills masked scores, narrow by then, with the least number of its wide queries.
    """
    try:
        yield
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        raise UnsupportedPrecision(
            f"the model's own code does not run under autocast: {error}.",
            field="precision",
            remedy="Take bf16, which makes all of it narrow, or fp32.",
        ) from error


def quantize(module: Any, precision: str, device: str) -> dict[str, Any]:
    """Quantize the linear layers in place and return the options that say how; raises UnsupportedPrecision."""
    if importlib.util.find_spec("torchao") is None:
        raise PartMissing(f"{precision} needs torchao.", field="precision", remedy="pip install torchao")
    with _quiet():
        from torchao.quantization import quantize_  # type: ignore[import-untyped]

        _make_linear(module)
        made = {"int8": _int8, "fp8": _fp8}
        method, config, fits = made[precision]() if precision in made else _int4(module, device)
        layers = sum(fits(each, name) for name, each in module.named_modules())
        if not layers:
            raise UnsupportedPrecision(
                f"no layer of {type(module).__name__} can be quantized to {precision}: {method['why']}",
                field="precision",
                remedy="Take bf16, or int8 in OpenVINO, which quantizes convolutions too.",
            )
        quantize_(module, config, filter_fn=fits)
    return {"quantization": method["name"], **({"group_size": config.group_size} if precision == "int4" else {})}


def _make_linear(module: Any) -> None:
    """Replace the transposed linear layers of GPT-2 and its kin by plain ones, which are what can be quantized."""
    import torch
    from transformers.pytorch_utils import Conv1D

    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, Conv1D):
                plain = torch.nn.Linear(*layer.weight.shape, device="meta")
                plain.weight = torch.nn.Parameter(layer.weight.detach().t().contiguous(), requires_grad=False)
                plain.bias = layer.bias
                setattr(parent, name, plain)


def _int8() -> tuple[dict[str, str], Any, Any]:
    import torch
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig

    def fits(layer: Any, _: str) -> bool:
        return isinstance(layer, torch.nn.Linear)

    name = "torchao.Int8DynamicActivationInt8Weight"
    return {"name": name, "why": "it has no linear layers."}, Int8DynamicActivationInt8WeightConfig(), fits


def _fp8() -> tuple[dict[str, str], Any, Any]:
    """Weights and activations in fp8 (e4m3) with a scale for each row, multiplied by torch._scaled_mm."""
    import torch
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow

    def fits(layer: Any, _: str) -> bool:
        # torch._scaled_mm takes sizes that are multiples of 16.
        return isinstance(layer, torch.nn.Linear) and not (layer.in_features % 16 or layer.out_features % 16)

    why = "it has no linear layers whose sizes are multiples of 16."
    name = "torchao.Float8DynamicActivationFloat8Weight"
    return {"name": name, "why": why}, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()), fits


def _int4(module: Any, device: str) -> tuple[dict[str, str], Any, Any]:
    import torch

    widths = [each.in_features for each in module.modules() if isinstance(each, torch.nn.Linear)]
    group = next((size for size in GROUP_SIZES if widths and all(width % size == 0 for width in widths)), 32)

    def fits(layer: Any, _: str) -> bool:
        # torch's kernels take blocks of 32 outputs.
        return isinstance(layer, torch.nn.Linear) and not (layer.in_features % group or layer.out_features % 32)

    why = f"it has no linear layers whose sizes are multiples of {group} and 32."
    if device.split(":")[0] == "cpu":
        return {"name": "torchao.PrototypeInt4WeightOnly", "why": why}, _int4_on_processor(group), fits
    from torchao.quantization import Int4WeightOnlyConfig

    config = Int4WeightOnlyConfig(group_size=group, int4_packing_format="tile_packed_to_4d")
    return {"name": "torchao.Int4WeightOnly", "why": why}, config, fits


def _int4_on_processor(group: int) -> Any:
    try:
        from torchao.prototype.quantization.int4 import (  # type: ignore[import-untyped]
            PrototypeInt4WeightOnlyConfig,
        )
    except ImportError as error:
        raise UnsupportedPrecision(
            "this torchao has no int4 weights for the processor.",
            field="precision",
            remedy="Install torchao 0.18 or newer, or take int4 in OpenVINO.",
        ) from error
    return PrototypeInt4WeightOnlyConfig(group_size=group, set_inductor_config=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torchao tells of kernels for other machines when it is imported; nothing there is about this one."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
