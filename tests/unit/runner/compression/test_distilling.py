"""Students: how many layers, from where their weights come, and what they are trained on."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from domain.errors import UnsupportedWorkload
from runner.models.build import build
from runner.models.sources import resolve
from tests.unit.runner.compression.conftest import build_saved, carried_out, examples


def distance(student, teacher, pixels):
    with torch.no_grad():
        return float((student(pixels).logits - teacher(pixels).logits).pow(2).mean())


def test_student_has_half_the_layers_and_comes_nearer_to_its_teacher_by_training(vit, pictures, tmp_path):
    made = carried_out("distill-half", vit, tmp_path / "half", pictures, epochs=8)
    carried_out("distill-tiny", vit, tmp_path / "tiny", pictures)
    half, tiny = (build(resolve(str(tmp_path / name / "checkpoint"))) for name in ("half", "tiny"))
    assert (half.config.num_hidden_layers, made.parameters["kept_layers"]) == (1, [0])
    assert made.parameters["parameters"] == half.parameters < vit.parameters == made.parameters["teacher_parameters"]
    assert made.parameters["last_loss"] < made.parameters["first_loss"]
    assert (made.parameters["labels"], made.parameters["objective"]) == (True, "logits")
    pixels = torch.from_numpy(pictures.inputs["pixel_values"])
    assert distance(half.module, vit.module, pixels) < distance(tiny.module, vit.module, pixels)


def test_student_begins_with_the_teachers_layers(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, n_head=2, n_embd=16, vocab_size=40, n_positions=16)
    built = build_saved(tmp_path / "small-gpt2", GPT2LMHeadModel, config)
    tokens = np.random.default_rng(0).integers(0, 40, (32, 8))
    made = carried_out(
        "distill-half", built, tmp_path / "out", examples({"input_ids": tokens}), epochs=1, learning_rate=0
    )
    student, teacher = load_file(tmp_path / "out" / "checkpoint" / "model.safetensors"), built.module.state_dict()
    assert made.parameters["kept_layers"] == [0, 3]
    assert torch.equal(student["transformer.h.1.attn.c_attn.weight"], teacher["transformer.h.3.attn.c_attn.weight"])
    assert torch.equal(student["transformer.wte.weight"], teacher["transformer.wte.weight"])
    assert made.parameters["labels"] is False


def test_stages_of_a_convolutional_model_are_shortened(tmp_path):
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        num_channels=1, embedding_size=8, hidden_sizes=[8, 16], depths=[2, 3], layer_type="basic", num_labels=4
    )
    built = build_saved(tmp_path / "small-resnet", ResNetForImageClassification, config)
    pixels = np.random.default_rng(0).standard_normal((32, 1, 16, 16)).astype(np.float32)
    made = carried_out("distill-half", built, tmp_path / "out", examples({"pixel_values": pixels}), epochs=1)
    student = build(resolve(str(tmp_path / "out" / "checkpoint")))
    assert list(student.config.depths) == made.parameters["kept_layers"] == [1, 2]


def test_hidden_states_are_the_objective_where_there_are_no_logits(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=40)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.initializer_range = 0.3
    built = build_saved(tmp_path / "small-bert", BertModel, config)
    tokens = np.random.default_rng(0).integers(0, 40, (32, 8))
    data = examples({"input_ids": tokens, "attention_mask": np.ones_like(tokens)})
    made = carried_out("distill-half", built, tmp_path / "out", data, epochs=10, learning_rate=1e-3)
    assert made.parameters["objective"] == "outputs"
    assert made.parameters["last_loss"] < made.parameters["first_loss"]


def test_a_single_layer_cannot_be_halved(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=40)
    built = build_saved(tmp_path / "small-bert", BertModel, config)
    data = examples({"input_ids": np.ones((32, 4), np.int64)})
    with pytest.raises(UnsupportedWorkload, match="no stack of layers"):
        carried_out("distill-half", built, tmp_path / "out", data)
