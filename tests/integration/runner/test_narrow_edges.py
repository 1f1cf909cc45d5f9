"""A converted graph that stands for one operator takes and gives 16-bit values, and computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.calibration.kernels import Kernel
from runner.calibration.modules import module_of
from runner.platforms.base import Converted, Recipe, Settings
from runner.platforms.onnx_export import export, halve
from runner.platforms.registry import create

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
KERNEL = Kernel(name="square", operator="gemm", sizes={"m": 32, "n": 48, "k": 64})


@pytest.fixture
def openvino(tmp_path: Any) -> Any:
    pytest.importorskip("openvino")
    module, inputs = module_of(KERNEL)
    create("openvino").convert(module, inputs, tmp_path, Recipe())
    return module(**inputs).numpy(), inputs, Converted(folder=tmp_path)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2)])
def test_openvino_computes_right_on_narrow_values(openvino, precision, tolerance):
    right, inputs, converted = openvino
    platform = create("openvino")
    if precision not in platform.precisions():
        pytest.skip(f"this processor has no {precision}")
    platform.load(converted, Settings(precision=precision, threads=1, narrow_edges=True))
    platform.compile()
    placed = platform.place(inputs)
    ((_, got),) = platform.outputs(platform.run(placed))
    if precision == "bf16":
        # numpy reads the 16 bits as fp16: put them where fp32 has its upper half.
        bits = placed[0].get_output_tensor(0).data.view(np.uint16)
        got = (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.linalg.norm(got - right) / np.linalg.norm(right) < tolerance
    assert platform.observe(placed).precision == precision
    assert platform.options()["inference_precision_hint"] == {"fp32": "f32", "bf16": "bf16"}[precision]
    platform.close()


@pytest.mark.parametrize("edges", [False, True])
def test_onnx_graphs_keep_fp32_edges_unless_they_are_told_not_to(tmp_path, edges):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    module, inputs = module_of(KERNEL)
    export(module, inputs, tmp_path / "model.onnx", before_outputs="result/")
    model = onnx.load(str(halve(tmp_path / "model.onnx", edges=edges)))
    kinds = {port.type.tensor_type.elem_type for port in (*model.graph.input, *model.graph.output)}
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    assert kinds == {onnx.TensorProto.FLOAT16 if edges else onnx.TensorProto.FLOAT}
    assert bool(casts) is not edges
