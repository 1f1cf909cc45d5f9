"""The sizes give the published counts, and every name finds its model."""

import pytest

from domain.catalogues.language_models import catalogue, find, nearest, twin

PUBLISHED_B = {
    "deepseek-ai/DeepSeek-V3": (671, 37),
    "moonshotai/Kimi-K2.5": (1026, 32),
    "zai-org/GLM-5": (744, 40),
    "openai/gpt-oss-120b": (116.8, 5.1),
    "MiniMaxAI/MiniMax-M2.5": (229, 10),
    "Qwen/Qwen3.5-397B-A17B": (397, 17),
    "Qwen/Qwen3-235B-A22B": (235, 22),
    "mistralai/Mixtral-8x7B-v0.1": (46.7, 12.9),
    "meta-llama/Llama-3.1-70B": (70.6, 70.6),
    "bigscience/bloom-7b1": (7.07, 7.07),
    "EleutherAI/gpt-j-6b": (6.05, 6.05),
}
"""Billions of parameters, all and active, as the publishers state them."""


@pytest.mark.parametrize("name", PUBLISHED_B)
def test_parameters_counted_from_the_sizes_are_the_published_ones(name: str) -> None:
    model = catalogue()[name]
    total, active = PUBLISHED_B[name]
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert model.active_parameters / 1e9 == pytest.approx(active, rel=0.05)


@pytest.mark.parametrize("model", catalogue().values(), ids=lambda model: model.id)
def test_every_model_is_whole_and_says_its_source(model) -> None:
    assert model.source
    assert model.kv_kept(1000) > 0
    assert 0 < model.active_parameters <= model.parameters + model.hidden_size * model.vocabulary
    assert bool(model.experts) == bool(model.expert_size) == bool(model.experts_per_token)


def test_an_alias_finds_the_model_whatever_its_case_and_an_unknown_name_finds_none() -> None:
    assert find("DeepSeek-AI/deepseek-r1") is catalogue()["deepseek-ai/DeepSeek-V3"]
    assert find("nobody/nothing-7b") is None


def test_names_are_given_once() -> None:
    names = [name.lower() for model in catalogue().values() for name in (model.id, *model.aliases)]
    assert len(names) == len(set(names))


def test_compressed_keys_are_few_and_a_window_ends_the_growth() -> None:
    compressed, plain = catalogue()["deepseek-ai/DeepSeek-V3"], catalogue()["meta-llama/Llama-2-7b-hf"]
    assert compressed.kv_elements == 512 + 64
    assert plain.kv_elements == 2 * 32 * 128
    windowed = catalogue()["mistralai/Mistral-7B-v0.1"]
    assert windowed.kv_read(4096) == windowed.kv_read(20000) == windowed.kv_kept(20000)
    assert plain.kv_read(20000) == 5 * plain.kv_read(4000)


def test_sparse_attention_reads_fewer_tokens_than_it_keeps() -> None:
    sparse = catalogue()["zai-org/GLM-5"]
    assert sparse.kv_read(20000) == sparse.kv_read(2048) < sparse.kv_kept(20000)


def test_two_names_for_one_architecture_are_one_group_and_other_sizes_another() -> None:
    assert find("deepseek-ai/DeepSeek-R1").architecture == find("deepseek-ai/DeepSeek-V3").architecture
    same = {model.id: other.id for model in catalogue().values() if (other := twin(model)) is not model and other}
    # Distilled models keep a family of their own: their output is not tied.
    assert not same


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Llama-3.1-9B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("qwen3-16b", "Qwen/Qwen3-1.7B"),
        ("gemma-3-28b-it-Q4_K_M.gguf", "google/gemma-3-27b-it"),
    ],
)
def test_the_nearest_spellings_of_an_unknown_name_are_told(name: str, first: str) -> None:
    assert find(name) is None
    assert first in nearest(name)


def test_nothing_is_near_a_name_of_another_kind() -> None:
    assert nearest("vit-large-patch16") == ()
    assert nearest("") == ()
