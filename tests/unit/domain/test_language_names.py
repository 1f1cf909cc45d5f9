"""Language models by any spelling: what tells a size decides, what tells none does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.catalogues import language_models

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
    ],
)
def test_a_spelling_names_the_model_of_that_size(name: str, id_: str) -> None:
    found = language_models.find(name)
    assert found is not None
    assert found.id == id_


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
