"""Pruned checkpoints: which weights are zero, which are not touched, and what training keeps."""

import numpy as np
import pytest
import torch

from domain.errors import UnsupportedWorkload
from runner.compression.recipes import recipe_named
from runner.models.build import build
from runner.models.sources import resolve
from tests.unit.runner.compression.conftest import build_saved, carried_out, examples


def weights_of(folder):
    """The tensors by the names of the loaded module; files have some under older names."""
    return build(resolve(str(folder / "checkpoint"))).module.state_dict()


def prunable(weights):
    return {name: each for name, each in weights.items() if "layers." in name and each.ndim == 2}


def share_of_zeros(weights):
    return sum(int((each == 0).sum()) for each in weights.values()) / sum(each.numel() for each in weights.values())


@pytest.mark.parametrize(("name", "share"), [("prune-50", 0.5), ("prune-90", 0.9)])
def test_smallest_weights_become_zero_and_the_reached_share_is_recorded(vit, tmp_path, name, share):
    made = carried_out(name, vit, tmp_path)
    after, before = weights_of(tmp_path), vit.module.state_dict()
    assert made.parameters["sparsity"] == pytest.approx(share, abs=0.01)
    assert made.parameters["sparsity"] == pytest.approx(share_of_zeros(prunable(after)), abs=1e-6)
    assert made.parameters["model_sparsity"] == pytest.approx(share_of_zeros(after), abs=0.01)
    for key, weight in prunable(after).items():
        zero = weight == 0
        assert torch.equal(weight[~zero], before[key][~zero])
        assert before[key][zero].abs().max() <= before[key][~zero].abs().min()
    for key in ("classifier.weight", "vit.embeddings.patch_embeddings.projection.weight"):
        assert torch.equal(after[key], before[key])


def test_pruning_more_moves_the_outputs_further_and_leaves_the_base_alone(vit, pictures, tmp_path):
    pixels = torch.from_numpy(pictures.inputs["pixel_values"])
    before = {name: each.clone() for name, each in vit.module.state_dict().items()}
    expected = vit.module(pixels).logits
    distances = []
    for name in ("prune-50", "prune-90"):
        carried_out(name, vit, tmp_path / name)
        pruned = type(vit.module).from_pretrained(tmp_path / name / "checkpoint").eval()
        distances.append(float((pruned(pixels).logits - expected).detach().pow(2).mean()))
    assert 0 < distances[0] < distances[1]
    assert all(torch.equal(each, before[name]) for name, each in vit.module.state_dict().items())


def test_two_of_every_four_inputs_are_zero(vit, tmp_path):
    made = carried_out("prune-2:4", vit, tmp_path)
    for weight in prunable(weights_of(tmp_path)).values():
        assert ((weight.reshape(-1, 4) == 0).sum(dim=1) == 2).all()
    assert made.parameters["groups_with_two_zeros"] == 1.0
    assert made.parameters["sparsity"] == 0.5


def test_retraining_changes_the_weights_that_are_left_and_keeps_the_zeros(vit, pictures, tmp_path):
    made = carried_out("prune-70", vit, tmp_path, pictures, epochs=6)
    after, before = weights_of(tmp_path), vit.module.state_dict()
    assert made.parameters["sparsity"] == pytest.approx(0.7, abs=0.01)
    assert made.parameters["last_loss"] < made.parameters["first_loss"]
    assert (made.used, made.parameters["epochs"]) == (40, 6)
    assert not torch.equal(after["classifier.weight"], before["classifier.weight"])


def test_the_same_seed_gives_the_same_bytes(vit, pictures, tmp_path):
    for name in ("one", "two"):
        carried_out("prune-70", vit, tmp_path / name, pictures, epochs=1)
    one, two = ((tmp_path / name / "checkpoint" / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_transposed_layers_and_tied_weights_survive(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=40, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    built = build_saved(tmp_path / "small-gpt2", GPT2LMHeadModel, config)
    carried_out("prune-2:4", built, tmp_path / "out")
    after, before = weights_of(tmp_path / "out"), built.module.state_dict()
    weight = after["transformer.h.0.mlp.c_fc.weight"]
    # Its inputs are its first dimension.
    assert ((weight.t().reshape(-1, 4) == 0).sum(dim=1) == 2).all()
    assert torch.equal(after["transformer.wte.weight"], before["transformer.wte.weight"])
    assert after["lm_head.weight"].data_ptr() == after["transformer.wte.weight"].data_ptr()
    tokens = np.random.default_rng(0).integers(0, 40, (34, 8))
    made = carried_out(
        "prune-70", built, tmp_path / "trained", examples({"input_ids": tokens}, tokens), epochs=6, learning_rate=5e-3
    )
    assert made.parameters["last_loss"] < made.parameters["first_loss"]


def test_training_without_logits_is_refused_with_a_recipe_that_needs_none(tmp_path):
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=40)
    built = build_saved(tmp_path / "small-bert", BertModel, config)
    data = examples({"input_ids": np.ones((32, 4), np.int64)}, np.zeros(32, np.int64))
    with pytest.raises(UnsupportedWorkload, match="prune-50"):
        carried_out("prune-70", built, tmp_path / "out", data)
    assert not any((tmp_path / "out").iterdir())


def test_a_model_without_layers_to_prune_is_refused(vit, tmp_path):
    keep = [*recipe_named("prune-50").parameters["keep"], "layers"]
    with pytest.raises(UnsupportedWorkload, match="no linear or convolutional layer"):
        carried_out("prune-50", vit, tmp_path, keep=keep)
