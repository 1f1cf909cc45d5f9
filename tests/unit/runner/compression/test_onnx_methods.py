"""ONNX forms: right outputs at any batch, narrow where they should be, and nothing of this machine in them."""

import numpy as np
import onnxruntime as ort
import pytest
import torch

from tests.unit.runner.compression.conftest import carried_out


def run(path, pixels):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"pixel_values": pixels})[0]


@pytest.mark.parametrize(
    ("recipe", "precision", "smaller"),
    [("int8-ptq-onnx", "int8", True), ("int8-dynamic-onnx", "int8", True), ("onnx-optimised", "fp32", False)],
)
def test_form_gives_nearly_the_bases_outputs_and_names_no_path_of_this_machine(
    vit, pictures, tmp_path, recipe, precision, smaller
):
    made = carried_out(recipe, vit, tmp_path, pictures)
    path = tmp_path / "onnx" / "model.onnx"
    pixels = pictures.inputs["pixel_values"]
    for rows in (1, 5):
        with torch.no_grad():
            expected = vit.module(torch.from_numpy(pixels[:rows])).logits.numpy()
        given = run(path, pixels[:rows])
        assert np.linalg.norm(given - expected) < 0.1 * np.linalg.norm(expected)
    content = path.read_bytes()
    assert b"stack_trace" not in content and b"/runner/" not in content
    assert made.forms[0].precision == precision
    assert (content.count(b"QuantizeLinear") > 0) == smaller
    assert (made.used == 40) == (recipe == "int8-ptq-onnx")
    if recipe == "onnx-optimised":
        assert made.parameters["nodes"] < made.parameters["nodes_before"]
        assert made.parameters["fused"]["SkipLayerNormalization"] > 0
