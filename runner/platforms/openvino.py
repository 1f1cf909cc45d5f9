"""OpenVINO: converted once by tracing, compiled with an explicit precision, run one request at a time.

The precision hint is always set: left alone, OpenVINO computes in bf16 where the processor can and calls it fp32.
What ran is read from the runtime's own graph: the precision of every layer that multiplies, weighted by its FLOPs.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from domain.configuration import Runtime
from runner.platforms.base import Converted, Observation, Platform, Probe, Settings

__all__ = ["OpenVino"]

_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}
_NAMES = {"f32": "fp32", "bf16": "bf16", "f16": "fp16", "i8": "int8", "u8": "int8", "i4": "int4", "u4": "int4"}
_CAPABILITIES = {"FP32": "fp32", "BF16": "bf16", "FP16": "fp16"}
_MULTIPLYING = frozenset({
    "FullyConnected", "MatMul", "Gemm", "Convolution", "GroupConvolution", "Deconvolution",
    "ScaledDotProductAttention", "ScaledDotProductAttentionWithKVCache", "PagedAttention", "QKVProjection", "LLMMLP",
    "RNNSeq", "RNNCell",
})  # fmt: skip
_STEERING = frozenset({"image_sizes"})


class OpenVino(Platform):
    """OpenVINO on one of the devices that it lists; the processor unless another is named."""

    name = "openvino"
    converts = True

    def __init__(self) -> None:
        self._model: Any = None
        self._compiled: Any = None
        self._request: Any = None
        self._settings: Settings | None = None

    def probe(self) -> Probe:
        """Return the devices that OpenVINO lists, shown by adding two numbers on the first."""
        if importlib.util.find_spec("openvino") is None:
            return Probe(
                available=False,
                reason="openvino is not installed.",
                remedy="Install the runner extra: pip install 'assay-bench[runner]'.",
            )
        import numpy as np
        import openvino as ov

        core = ov.Core()
        devices = tuple(core.available_devices)
        if not devices:
            return Probe(available=False, reason="OpenVINO lists no device.")
        operand = ov.opset13.parameter([1], np.float32)
        compiled = core.compile_model(ov.Model([ov.opset13.add(operand, operand)], [operand]), devices[0])
        total = float(compiled([np.ones(1, np.float32)])[0][0])
        if total != 2.0:
            return Probe(available=False, reason=f"1 + 1 gave {total} on {devices[0]}.")
        evidence = f"OpenVINO {ov.__version__.split('-')[0]}: a small model compiled for and ran on {devices[0]}"
        return Probe(available=True, devices=devices, evidence=evidence)

    def runtime(self) -> Runtime:
        """Return openvino and its version, without the build's number."""
        import importlib.metadata

        try:
            version: str | None = importlib.metadata.version("openvino").split("-")[0]
        except importlib.metadata.PackageNotFoundError:
            version = None
        return Runtime(name="openvino", version=version)

    def precisions(self) -> tuple[str, ...]:
        """Return those that the device's own list of capabilities names."""
        import openvino as ov

        capabilities = ov.Core().get_property(self._device(), "OPTIMIZATION_CAPABILITIES")
        return tuple(ours for theirs, ours in _CAPABILITIES.items() if theirs in capabilities)

    def _device(self) -> str:
        return (self._settings.device if self._settings else None) or "CPU"

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path) -> None:
        """Write `model.xml` and `model.bin` in fp32, with the shapes of the inputs made static."""
        import openvino as ov
        import torch

        from runner.platforms.outputs import FlatOutputs, flatten

        # Sizes that decide which operators run have to be plain numbers while the model is recorded.
        fixed = {name: tensor.tolist() for name, tensor in inputs.items() if name in _STEERING}
        free = {name: tensor for name, tensor in inputs.items() if name not in _STEERING}
        with torch.no_grad():
            names = [name for name, _ in flatten(module(**inputs))]
            model = _recorded(FlatOutputs(module, list(free), fixed).eval(), tuple(free.values()))
        ports = list(model.inputs)
        if len(ports) != len(free):
            raise ValueError(f"the conversion kept {len(ports)} of {len(free)} inputs")
        for port, name in zip(ports, free, strict=True):
            port.get_node().set_friendly_name(name)
        model.reshape({port: list(tensor.shape) for port, tensor in zip(ports, free.values(), strict=True)})
        for port, name in zip(model.outputs, names, strict=True):
            port.get_node().set_friendly_name(name)
        ov.save_model(model, str(folder / "model.xml"), compress_to_fp16=False)

    def load(self, model: Any, settings: Settings) -> None:
        """Read the converted model from its folder."""
        import openvino as ov

        assert isinstance(model, Converted)
        self._settings = settings
        self._model = ov.Core().read_model(str(model.folder / "model.xml"))

    def compile(self) -> bool:
        """Compile for lowest latency with the precision and the threads that were asked for, and nothing cached."""
        import openvino as ov

        assert self._settings is not None
        options = {
            "INFERENCE_PRECISION_HINT": _HINTS[self._settings.precision],
            "PERFORMANCE_HINT": "LATENCY",
        }
        if self._device() == "CPU":
            options["INFERENCE_NUM_THREADS"] = str(self._settings.threads)
        self._compiled = ov.Core().compile_model(self._model, self._device(), options)
        self._request = self._compiled.create_infer_request()
        return True

    def place(self, inputs: dict[str, Any]) -> Any:
        """Give the request its input tensors; they stay there for every run."""
        import numpy as np
        import openvino as ov

        for port in self._compiled.inputs:
            array = np.ascontiguousarray(np.asarray(inputs[port.get_node().get_friendly_name()]))
            wanted = port.get_element_type().to_dtype()
            self._request.set_tensor(port, ov.Tensor(array.astype(wanted, copy=False).copy()))
        return self._request

    def run(self, inputs: Any) -> Any:
        """Run the request and wait for it."""
        inputs.start_async()
        inputs.wait()
        return inputs

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return copies of the request's output tensors."""
        return [
            (port.get_node().get_friendly_name(), result.get_tensor(port).data.astype("float32"))
            for port in self._compiled.outputs
        ]

    def observe(self, inputs: Any) -> Observation:  # noqa: ARG002
        """Return the executing device and the precision that carries most FLOPs in the runtime's graph."""
        assert self._settings is not None
        device = str(next(iter(self._compiled.get_property("EXECUTION_DEVICES"))))
        work = self._work()
        precision, _ = work.most_common(1)[0]
        elsewhere = sum(flops for kind, flops in work.items() if kind != self._settings.precision)
        return Observation(
            device=device, platform=self.name, precision=precision, fallback_share=elsewhere / work.total()
        )

    def _work(self) -> Counter[str]:
        """Return FLOPs by precision over the layers that multiply; elements over all layers where none does."""
        multiplying: Counter[str] = Counter()
        others: Counter[str] = Counter()
        for layer in self._compiled.get_runtime_model().get_ordered_ops():
            information = layer.get_rt_info()
            kind, precision = (str(information[key].astype(str)) for key in ("layerType", "runtimePrecision"))
            name = _NAMES.get(precision, precision)
            if kind in _MULTIPLYING:
                multiplying[name] += _flops(kind, layer)
            elif kind not in {"Const", "Input", "Output"}:
                others[name] += max(1, prod(_shape(layer.output(0)) if layer.get_output_size() else ()))
        return multiplying or others

    def close(self) -> None:
        """Drop the request, the compiled model and the model."""
        self._request = self._compiled = self._model = None


def _recorded(module: Any, inputs: tuple[Any, ...]) -> Any:
    """Convert by tracing; by exporting where the trace holds an operator that OpenVINO has no rule for."""
    import openvino as ov
    import torch

    try:
        traced = torch.jit.trace(module, inputs, strict=False, check_trace=False)
        return ov.convert_model(traced, example_input=inputs)
    except Exception as first:
        try:
            return ov.convert_model(torch.export.export(module, inputs, strict=False))
        except Exception:
            # Tracing is the common way, so its reason says more than that of the second attempt.
            raise first from None


def _shape(port: Any) -> tuple[int, ...]:
    shape = port.get_partial_shape()
    return tuple(shape.to_shape()) if shape.is_static else ()


def _flops(kind: str, layer: Any) -> int:
    """Return 2 × outputs × length of the sum of one layer; at least 1."""
    produced = _shape(layer.output(0))
    operands = [_shape(port) for port in layer.inputs()]
    if "onvolution" in kind and len(operands) > 1 and len(produced) > 1:
        inner = prod(operands[1]) // max(1, produced[1])
    else:
        inner = operands[0][-1] if operands and operands[0] else 1
    return max(1, 2 * prod(produced) * inner)
