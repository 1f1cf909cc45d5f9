"""Quantized forms: what is narrow in them, that the batch is free, and that bytes repeat."""

import msgspec
import numpy as np
import openvino as ov
import pytest
import torch

from domain.errors import UnsupportedWorkload, UsageError
from tests.unit.runner.compression.conftest import build_saved, carried_out, examples

FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}


def logits_of(folder, pixels):
    return ov.Core().compile_model(str(folder / "openvino" / "model.xml"), "CPU", FLOAT32)({"pixel_values": pixels})[0]


def expected(vit, pixels):
    with torch.no_grad():
        return vit.module(torch.from_numpy(pixels)).logits.numpy()


def cosine(left, right):
    return float((left * right).sum() / np.linalg.norm(left) / np.linalg.norm(right))


def test_int8_for_openvino_has_narrow_weights_and_takes_any_batch(vit, pictures, tmp_path):
    pixels = pictures.inputs["pixel_values"]
    made = carried_out("int8-ptq", vit, tmp_path, pictures, subset=12)
    assert made.parameters["quantized_layers"] == made.parameters["layers"] == 14
    assert (made.used, made.forms[0].precision) == (12, "int8")
    graph = ov.Core().read_model(str(tmp_path / "openvino" / "model.xml"))
    assert "i8" in {
        node.get_element_type().get_type_name() for node in graph.get_ops() if node.get_type_name() == "Constant"
    }
    for rows in (1, 3):
        assert cosine(logits_of(tmp_path, pixels[:rows]), expected(vit, pixels[:rows])) > 0.95


@pytest.mark.torture
def test_the_same_seed_gives_the_same_bytes_for_openvino(vit, pictures, tmp_path):
    for name in ("one", "two"):
        carried_out("int8-ptq", vit, tmp_path / name, pictures, subset=12)
    for file in ("model.xml", "model.bin"):
        one, two = ((tmp_path / name / "openvino" / file).read_bytes() for name in ("one", "two"))
        assert one == two


@pytest.mark.torture
def test_mixed_takes_layers_back_to_fp32_until_the_limit_holds(vit, pictures, tmp_path):
    unlabelled = msgspec.structs.replace(pictures, targets=None)
    made = carried_out("mixed", vit, tmp_path, unlabelled, subset=8, max_cosine_drop=0.001)
    assert made.parameters["criterion"] == "cosine"
    assert 0 < len(made.parameters["wide_layers"]) < made.parameters["layers"]
    pixels = pictures.inputs["pixel_values"]
    assert cosine(logits_of(tmp_path, pixels[:8]), expected(vit, pixels[:8])) > 0.99


@pytest.mark.torture
def test_mixed_is_all_narrow_for_a_loose_limit_and_refused_where_nothing_may_be(vit, pictures, tmp_path):
    unlabelled = msgspec.structs.replace(pictures, targets=None)
    made = carried_out("mixed", vit, tmp_path / "loose", unlabelled, subset=8, max_cosine_drop=0.5)
    assert made.parameters["wide_layers"] == []
    with pytest.raises(UnsupportedWorkload, match="max_cosine_drop"):
        carried_out("mixed", vit, tmp_path / "none", unlabelled, subset=8, max_cosine_drop=-1.0)
    assert not any((tmp_path / "none").iterdir())


@pytest.mark.torture
def test_training_in_int8_ends_in_narrow_weights_near_the_base(vit, pictures, tmp_path):
    """NNCF compiles its extension with g++ first, which takes a minute on a new machine."""
    made = carried_out("int8-qat", vit, tmp_path, pictures, epochs=1, subset=4)
    assert made.parameters["quantized_layers"] == made.parameters["layers"] == 14
    assert (made.parameters["epochs"], made.used) == (1, 40)
    pixels = pictures.inputs["pixel_values"]
    assert cosine(logits_of(tmp_path, pixels), expected(vit, pixels)) > 0.95


def test_int8_at_load_says_how_many_layers_are_narrow_and_keeps_the_weights(vit, tmp_path):
    made = carried_out("int8-dynamic", vit, tmp_path)
    assert made.parameters["linear_layers"] == made.parameters["quantized_layers"] == 13
    after = type(vit.module).from_pretrained(tmp_path / "checkpoint").state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in vit.module.state_dict().items())


def test_int4_has_a_form_for_each_tool_and_four_bits_in_openvinos(vit, tmp_path):
    made = carried_out("int4-weights", vit, tmp_path)
    assert [form.kind for form in made.forms] == ["openvino", "checkpoint"]
    assert made.parameters["weights"]["i4"] > 0
    whole = sum(each.numel() * 4 for each in vit.module.parameters())
    assert (tmp_path / "openvino" / "model.bin").stat().st_size < whole / 3


def test_examples_that_are_needed_and_absent_name_the_option(vit, tmp_path):
    with pytest.raises(UsageError, match="--calibrate"):
        carried_out("int8-ptq", vit, tmp_path)
    assert not any(tmp_path.iterdir())


def test_int4_of_convolutions_that_stay_in_eight_bits_is_refused(tmp_path):
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=32, hidden_sizes=[32], depths=[1], layer_type="basic", num_labels=4)
    built = build_saved(tmp_path / "small-resnet", ResNetForImageClassification, config)
    pixels = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
    with pytest.raises(UnsupportedWorkload, match="int8-ptq"):
        carried_out("int4-weights", built, tmp_path / "out", examples({"pixel_values": pixels}))
    assert not any((tmp_path / "out").iterdir())
