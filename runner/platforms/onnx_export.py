"""A torch module as an ONNX file with fixed shapes, and that file in other number formats."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["export", "halve", "quantize", "quantize_to_4_bits"]


def export(module: Any, inputs: Mapping[str, Any], path: Path, *, before_outputs: str = "") -> None:
    """Write the module, in eval mode, with the shapes of these inputs; its inputs keep their names.

    Outputs are named by `runner.platforms.outputs.flatten` with `before_outputs` in front: a graph has each name once,
    and some inputs are called what an output is. By exporting; by tracing where that fails; the reason of the failure is then reported.
    """
    import torch

    from runner.platforms.openvino_recording import settled
    from runner.platforms.outputs import FlatOutputs, flatten

    with torch.no_grad(), warnings.catch_warnings():
        # Both ways warn of constants and shapes that are fixed here on purpose.
        warnings.simplefilter("ignore")
        free, fixed = settled(module, inputs)
        named = [before_outputs + name for name, _ in flatten(module(**inputs))]
        flat = FlatOutputs(module, list(free), fixed).eval()
        names: dict[str, Any] = {"input_names": list(free), "output_names": named}
        try:
            program = torch.onnx.export(flat, tuple(free.values()), dynamo=True, verbose=False, **names)
            program.save(str(path), external_data=True)
        except Exception as first:
            try:
                torch.onnx.export(flat, tuple(free.values()), str(path), dynamo=False, opset_version=18, **names)
            except Exception:
                raise first from None


def quantize(path: Path, into: Path) -> None:
    """Write the model with weights in int8; activations are quantized call by call, with ranges taken from each."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(path), str(into), weight_type=QuantType.QInt8, use_external_data_format=True)


def quantize_to_4_bits(path: Path, into: Path) -> None:
    """Write the model with the weights of its products in four bits, in blocks of 32 with a scale each."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(str(path)), bits=4, block_size=32, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    quantizer.model.save_model_to_file(str(into), use_external_data_format=True)


def halve(path: Path, *, edges: bool = False) -> Path:
    """Write the model beside itself with its arithmetic in fp16; return where. Inputs and outputs stay, but with `edges`."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    into = path.with_name("fp16.onnx")
    halved = convert_float_to_float16(onnx.load(str(path)), keep_io_types=not edges)
    onnx.save(halved, str(into), save_as_external_data=True, location="fp16.data")
    return into
