"""Language models by any spelling: what tells a size decides, what tells none does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues import language_models
from domain.catalogues.language_names import precision_in

IDS = sorted(language_models.catalogue())


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B"),
        ("llama3.1:8b", "meta-llama/Llama-3.1-8B"),
        ("Llama-3.2-3B-Instruct-Q4_K_M.gguf", "meta-llama/Llama-3.2-3B"),
        ("TheBloke/Llama-2-13B-chat-GGUF", "meta-llama/Llama-2-13b-hf"),
        ("gemma-2-9b-it", "google/gemma-2-9b"),
        ("Qwen3-30B-A3B-Q4_K_M", "Qwen/Qwen3-30B-A3B"),
        ("deepseek-r1-distill-qwen-32b", "Qwen/Qwen2.5-32B"),
        ("opt-1.3b", "facebook/opt-1.3b"),
        ("opt-13b", "facebook/opt-13b"),
        ("mistralai/mixtral-8x7b-instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
        ("llama3.1:8b-instruct-q4_K_M", "meta-llama/Llama-3.1-8B"),
        ("mixtral:8x7b-instruct-v0.1-q4_0", "mistralai/Mixtral-8x7B-v0.1"),
        ("deepseek-r1:8b", "Qwen/Qwen3-8B"),
        ("deepseek-r1:8b-llama-distill-q4_K_M", "meta-llama/Llama-3.1-8B"),
        ("deepseek-r1:14b", "Qwen/Qwen2.5-14B"),
        ("qwen3:30b", "Qwen/Qwen3-30B-A3B"),
        ("mistral:7b", "mistralai/Mistral-7B-v0.3"),
        ("ollama.com/library/gpt-oss:20b", "openai/gpt-oss-20b"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B"),
        ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "Qwen/Qwen3-14B"),
        ("unsloth/gpt-oss-20b-GGUF", "openai/gpt-oss-20b"),
        ("TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "mistralai/Mistral-7B-v0.2"),
        ("TheBloke/CodeLlama-34B-Instruct-GPTQ", "codellama/CodeLlama-34b-hf"),
        ("lmstudio-community/Qwen2.5-7B-Instruct-GGUF", "Qwen/Qwen2-7B"),
        ("lmstudio-community/gemma-3-12b-it-GGUF", "google/gemma-3-12b-it"),
        ("mlx-community/Llama-3.3-70B-Instruct-4bit", "meta-llama/Llama-3.1-70B"),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-32B"),
        ("lmstudio-community/Qwen3-8B-MLX-4bit", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B-MLX-4bit", "Qwen/Qwen3-8B"),
        ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF/Meta-Llama-3.1-8B-Instruct-IQ4_XS.gguf", "meta-llama/Llama-3.1-8B"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "meta-llama/Llama-3.1-70B"),
        ("google/gemma-3-27b-it-qat-q4_0-gguf", "google/gemma-3-27b-it"),
    ],
)
def test_a_spelling_names_the_model_of_that_size(name: str, id_: str) -> None:
    found = language_models.find(name)
    assert found is not None
    assert found.id == id_


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("llama3.1:8b-instruct-q4_K_M", "q4_k_m"),
        ("llama3.1:8b", None),
        ("meta-llama/Llama-3.1-8B-Instruct", None),
        ("Meta-Llama-3.1-8B-Instruct-IQ4_XS.gguf", "iq4_xs"),
        ("Llama-3.2-3B-Instruct-Q8_0", "q8_0"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "q4_k_m"),
        ("llama.q5_k_s.gguf", "q5_k_s"),
        ("TheBloke/Llama-2-13B-chat-GGUF", None),
        ("TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "int4"),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", "int4"),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int8", "int8"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "int4"),
        ("mlx-community/Qwen3-8B-6bit", "int6"),
        ("lmstudio-community/Qwen3-8B-MLX-4bit", "int4"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8"),
        ("nvidia/DeepSeek-R1-NVFP4", "fp4"),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "int4"),
        ("ggml-org/gpt-oss-20b-MXFP4", "mxfp4"),
        ("llama-3.1-8b-f16.gguf", "fp16"),
    ],
)
def test_a_name_tells_the_precision_of_its_weights(name: str, precision: str | None) -> None:
    assert precision_in(name) == precision


def test_no_id_of_the_catalogue_tells_a_precision_that_its_publisher_did_not_mean() -> None:
    told = {id_: precision_in(id_) for id_ in IDS}
    assert {id_: told[id_] for id_ in IDS if told[id_]} == {
        "openbmb/MiniCPM-2B-sft-bf16": "bf16",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "bf16",
    }


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Llama-3.1-9B", "meta-llama/Llama-3.1-8B"),
        ("Qwen3-33B", "Qwen/Qwen3-32B"),
        ("gemma-3-13b-it", "google/gemma-3-12b-it"),
    ],
)
def test_an_unknown_name_has_nearest_models(name: str, near: str) -> None:
    assert language_models.find(name) is None
    assert near in language_models.nearest(name)


def test_nothing_is_near_a_name_of_another_kind() -> None:
    assert language_models.nearest("") == ()
    assert language_models.nearest("zzzzzzzzzzzz") == ()


@pytest.mark.parametrize("name", ["", "instruct", "8b", "llama", "bert-base-uncased", "google/vit-base-patch16-224"])
def test_what_names_no_size_is_no_language_model(name: str) -> None:
    assert language_models.find(name) is None


@given(st.sampled_from(IDS), st.sampled_from(["", "-GGUF", "-AWQ", "-FP8", "-Q4_K_M", ".gguf"]), st.booleans())
def test_a_quantisation_or_another_owner_changes_no_architecture(id_: str, ending: str, owned: bool) -> None:
    last = id_.rsplit("/", 1)[-1]
    found = language_models.find((f"someone/{last}" if owned else last.upper()) + ending)
    assert found is not None
    assert found.architecture == language_models.catalogue()[id_].architecture


def test_names_of_a_model_are_those_that_share_its_work() -> None:
    names = language_models.names_of("meta-llama/Llama-3.1-8B-Instruct")
    assert names[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert {"meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3-8B"} <= set(names)
    assert language_models.names_of("acme/unknown") == ("acme/unknown",)


def test_counted_parameters_are_those_that_the_names_say() -> None:
    """A size in a name is rounded, or leaves out a large embedding; of the others none is off by more than a quarter."""
    import re

    for id_ in IDS:
        said = re.search(r"-([0-9.]+)[bB](?:[-_]|$)", id_.rsplit("/", 1)[-1])
        facts = language_models.catalogue()[id_]
        if said is None or facts.experts or facts.vocabulary > 120_000:
            continue
        assert 0.75 < facts.parameters / 1e9 / float(said[1]) < 1.34, (id_, facts.parameters)
