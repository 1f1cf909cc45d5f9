"""Work read from profiles in the form that ONNX Runtime writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.platforms.onnx_runtime_work import work_of

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def node(kind: str, taken: list[Any], given: list[Any], provider: str = CPU) -> dict[str, Any]:
    told = {"op_name": kind, "provider": provider, "input_type_shape": taken, "output_type_shape": given}
    return {"cat": "Node", "name": f"{kind}_1_kernel_time", "dur": 5, "args": told}


def profile(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "profile.json"
    session = {"cat": "Session", "name": "model_run", "dur": 9, "args": {}}
    path.write_text(json.dumps([session, *events]))
    return path


@pytest.mark.parametrize(
    ("event", "precision", "flops"),
    [
        (node("MatMul", [{"float": [2, 3, 8]}, {"float": [8, 5]}], [{"float": [2, 3, 5]}]), "fp32", 2 * 2 * 3 * 5 * 8),
        # A packed weight is absent: the bias stands second.
        (node("Gemm", [{"float": [4, 8]}, {"float": [5]}], [{"float": [4, 5]}]), "fp32", 2 * 4 * 5 * 8),
        (node("FusedMatMul", [{"float16": [4, 8]}, {"float16": [8, 5]}], [{"float16": [4, 5]}]), "fp16", 2 * 4 * 5 * 8),
        (
            node("DynamicQuantizeMatMul", [{"float": [4, 8]}, {"float": []}, {"int8": []}], [{"float": [4, 5]}]),
            "int8",
            2 * 4 * 5 * 8,
        ),
        (
            node("Conv", [{"float": [1, 3, 8, 8]}, {"float": [4, 3, 3, 3]}], [{"float": [1, 4, 6, 6]}]),
            "fp32",
            2 * 4 * 36 * 27,
        ),
        (
            node("ConvInteger", [{"uint8": [1, 3, 8, 8]}, {"int8": [4, 3, 3, 3]}], [{"int32": [1, 4, 6, 6]}]),
            "int8",
            2 * 4 * 36 * 27,
        ),
        (
            node("Attention", [{"float": [1, 2, 7, 4]}, {"float": [1, 2, 9, 4]}], [{"float": [1, 2, 7, 4]}]),
            "fp32",
            4 * 2 * 7 * 4 * 9,
        ),
    ],
)
def test_a_node_counts_by_its_flops(tmp_path: Path, event: dict[str, Any], precision: str, flops: int) -> None:
    moved = node("Reshape", [{"float": [999]}], [{"float": [999]}])
    work, nodes = work_of(profile(tmp_path, event, moved))
    assert work == {(CPU, precision): flops}
    assert nodes == {CPU: 2}


def test_what_another_provider_ran_is_told_apart(tmp_path: Path) -> None:
    ran = [{"float": [4, 8]}, {"float": [8, 5]}], [{"float": [4, 5]}]
    work, nodes = work_of(
        profile(tmp_path, node("MatMul", *ran, CUDA), node("MatMul", *ran), node("MatMul", *ran, CUDA))
    )
    assert work == {(CUDA, "fp32"): 640, (CPU, "fp32"): 320}
    assert nodes == {CUDA: 2, CPU: 1}


def test_without_products_elements_are_counted(tmp_path: Path) -> None:
    work, _ = work_of(profile(tmp_path, node("Relu", [{"float": [4]}], [{"float": [4]}])))
    assert work == {(CPU, "fp32"): 4}
    work, _ = work_of(profile(tmp_path, node("Shape", [{"float": [4]}], [{"int64": [1]}])))
    assert work == {(CPU, "fp32"): 1}
