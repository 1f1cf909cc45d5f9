"""ONNX Runtime's own compression: int8 with ranges from examples, int8 weights alone, and operators fused beforehand."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from domain.errors import UnsupportedWorkload
from runner.compression.contract import Made, MadeForm, OnStep, Work
from runner.compression.examples import Tensors, example_inputs, tensors_of
from runner.compression.exporting import flat_module, quiet_tools, save_onnx, strip_metadata, tool_versions

__all__ = ["optimise", "quantize_dynamic", "quantize_static"]

_TOOLS = ("onnxruntime", "onnx", "torch", "transformers")
_MODEL = "model.onnx"


def _exported(work: Work, tensors: Tensors | None, folder: str, on_step: OnStep) -> tuple[Path, tuple[str, ...]]:
    """Write the fp32 graph, prepared by ONNX Runtime for its quantizers, into a passing folder and return where."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    on_step("exporting to ONNX", None)
    plain, prepared = Path(folder) / "plain.onnx", Path(folder) / "prepared.onnx"
    flat = flat_module(work.built.module, example_inputs(work, tensors))
    with quiet_tools():
        notes = save_onnx(flat, plain)
        try:
            quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        except Exception:
            # It only folds constants and infers shapes; quantizers take the graph without that too.
            prepared = plain
    return prepared, notes


def _target(work: Work) -> Path:
    folder = work.folder / "onnx"
    folder.mkdir()
    return folder / _MODEL


def quantize_static(work: Work, on_step: OnStep) -> Made:
    """Quantize weights and activations to int8 (QDQ) with ranges that ONNX Runtime takes from the examples."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static as quantize

    settings = work.recipe.parameters
    tensors = tensors_of(work, settings["least_examples"])
    chosen = tensors.choice(settings["subset"], work.seed)
    methods = {"minmax": CalibrationMethod.MinMax, "entropy": CalibrationMethod.Entropy}
    with tempfile.TemporaryDirectory() as folder:
        source, notes = _exported(work, tensors, folder, on_step)
        target = _target(work)
        on_step("calibrating and quantizing", None)
        with quiet_tools():
            quantize(
                str(source),
                str(target),
                _reader(tensors, settings["subset"], work.seed),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=settings["operators"],
                per_channel=settings["per_channel"],
                weight_type=QuantType.QInt8,
                activation_type=QuantType.QInt8,
                calibrate_method=methods[settings["calibration"]],
            )
    counts = _finished(target, work, "DequantizeLinear")
    return _made(work, target, settings | counts, "int8", "onnxruntime.quantize_static QDQ", len(chosen), notes)


def _reader(tensors: Tensors, count: int, seed: int) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Gives ONNX Runtime one example at a time."""

        def __init__(self) -> None:
            self._examples: Iterator[dict[str, Any]] = tensors.one_by_one(count, seed)

        def get_next(self) -> dict[str, Any] | None:
            """Return the next example, None after the last."""
            inputs = next(self._examples, None)
            return None if inputs is None else {name: tensor.numpy() for name, tensor in inputs.items()}

    return Reader()


def quantize_dynamic(work: Work, on_step: OnStep) -> Made:
    """Write weights in int8; activations are quantized call by call with ranges of their own."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization import quantize_dynamic as quantize

    settings = work.recipe.parameters
    with tempfile.TemporaryDirectory() as folder:
        source, notes = _exported(work, None, folder, on_step)
        target = _target(work)
        on_step("quantizing weights", None)
        with quiet_tools():
            quantize(
                str(source),
                str(target),
                weight_type=QuantType.QInt8,
                per_channel=settings["per_channel"],
                op_types_to_quantize=settings["operators"],
            )
    counts = _finished(target, work, "DynamicQuantizeLinear")
    return _made(work, target, settings | counts, "int8", "onnxruntime.quantize_dynamic", 0, notes)


def optimise(work: Work, on_step: OnStep) -> Made:
    """Fuse operators for ONNX Runtime beforehand: those that it knows of the family, then what it does for any graph."""
    import onnx
    import onnxruntime as ort

    settings = work.recipe.parameters
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "plain.onnx"
        on_step("exporting to ONNX", None)
        flat = flat_module(work.built.module, example_inputs(work))
        with quiet_tools():
            notes = save_onnx(flat, source)
        before = len(onnx.load(str(source), load_external_data=False).graph.node)
        on_step("fusing operators", None)
        fused = _fused(work, source, settings) if settings.get("fusions") else {}
        target = _target(work)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(
            ort.GraphOptimizationLevel, f"ORT_ENABLE_{settings['level'].upper()}"
        )
        options.optimized_model_filepath = str(target)
        ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    strip_metadata(target)
    after = len(onnx.load(str(target), load_external_data=False).graph.node)
    counts = {"nodes_before": before, "nodes": after, "fused": fused}
    return _made(work, target, settings | counts, "fp32", None, 0, notes)


def _fused(work: Work, path: Path, settings: dict[str, Any]) -> dict[str, int]:
    """Apply the fusions of the family in place and return how often each found its pattern."""
    from onnxruntime.transformers import optimizer

    config = work.built.config
    with quiet_tools():
        model = optimizer.optimize_model(
            str(path),
            model_type=settings["fusions"],
            num_heads=getattr(config, "num_attention_heads", 0),
            hidden_size=getattr(config, "hidden_size", 0),
            opt_level=0,
        )
        model.save_model_to_file(str(path))
    return {name: count for name, count in model.get_fused_operator_statistics().items() if count}


def _finished(path: Path, work: Work, marker: str) -> dict[str, Any]:
    """Drop the exporter's notes and return how many operators of each kind the quantizer left; raises where it did nothing."""
    import onnx

    strip_metadata(path)
    kinds = Counter(node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node)
    if not kinds[marker]:
        raise UnsupportedWorkload(
            f"ONNX Runtime quantized no operator of {work.built.id}.",
            field="recipe",
            remedy="Take int8-ptq-onnx, which quantizes convolutions too."
            if marker == "DynamicQuantizeLinear"
            else "Take int8-ptq, which quantizes by OpenVINO's rules.",
        )
    multiplying = ("Conv", "Gemm", "MatMul", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv")
    return {"quantizers": kinds[marker], "layers": {name: kinds[name] for name in multiplying if kinds[name]}}


def _made(
    work: Work,
    target: Path,
    parameters: dict[str, Any],
    precision: str,
    quantization: str | None,
    used: int,
    notes: tuple[str, ...],
) -> Made:
    form = MadeForm(kind="onnx", precision=precision, folder=target.parent.name, quantization=quantization)
    parameters = {"seed": work.seed} | parameters
    return Made(forms=(form,), parameters=parameters, tools=tool_versions(*_TOOLS), used=used, notes=notes)
