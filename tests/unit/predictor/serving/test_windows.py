"""What windows and states keep of a sequence, in memory, steps and prompts."""

from __future__ import annotations

from typing import Any

import pytest

from domain.catalogues import hardware, language_models
from domain.catalogues.language_models import LanguageModel
from predictor.llm_serving.deployment import deployment_of
from predictor.llm_serving.physics import device_of, holding, places, prompt, step

CARD = hardware.require("nvidia-h100-sxm")


def kept(served: Any, name: str, tokens: int) -> tuple[float, LanguageModel]:
    model = language_models.catalogue()[name]
    spread = deployment_of(served(precision="bf16", count=1, parallelism={}, concurrency=1), model.heads)
    return holding(model, spread.decode, spread.storage, tokens).sequence_bytes, model


def test_gemma_3_keeps_all_tokens_in_one_layer_of_six(served: Any) -> None:
    long, model = kept(served, "google/gemma-3-27b-it", 131072)
    # 10 of 62 layers keep everything, the others 1,024 tokens; 16 heads of 128 numbers of two bytes, keys and values.
    each = 2 * 16 * 128 * 2
    assert long == pytest.approx(each * (10 * 131072 + 52 * 1024), rel=1e-6)
    assert long < each * model.layers * 131072 / 5


def test_mistral_keeps_its_window_and_the_version_without_one_everything(served: Any) -> None:
    windowed, _ = kept(served, "mistralai/Mistral-7B-v0.1", 32768)
    whole, _ = kept(served, "mistralai/Mistral-7B-v0.3", 32768)
    assert windowed == pytest.approx(whole * 4096 / 32768, rel=1e-6)


@pytest.mark.parametrize("name", ["tiiuae/falcon-mamba-7b"])
def test_a_model_of_states_alone_keeps_the_same_at_any_length(served: Any, name: str) -> None:
    short, model = kept(served, name, 16)
    long, _ = kept(served, name, 1_000_000)
    assert short == long > 0
    assert model.kv_kept(16) == model.kv_kept(32)


def test_a_hybrid_grows_by_its_attention_layers_only(served: Any) -> None:
    short, model = kept(served, "Qwen/Qwen3-Next-80B-A3B-Instruct", 1000)
    long, _ = kept(served, "Qwen/Qwen3-Next-80B-A3B-Instruct", 2000)
    # 12 of 48 layers, 2 heads of 256 numbers.
    assert long - short == pytest.approx(1000 * 12 * 2 * 2 * 256 * 2)
    assert model.full_layers == 12


def test_more_long_sequences_fit_beside_a_model_with_windows(served: Any) -> None:
    rooms = {}
    for name in ("mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3"):
        model = language_models.catalogue()[name]
        spread = deployment_of(served(precision="bf16", count=1, parallelism={}, concurrency=1), model.heads)
        device = device_of(CARD, "cuda", spread.storage, 4e-6)
        assert device is not None
        rooms[name] = places(model, spread.decode, spread.storage, device, 32768)
    windowed, whole = rooms.values()
    assert windowed == pytest.approx(8 * whole, rel=0.01)


def test_attention_of_steps_and_prompts_ends_at_the_window(served: Any) -> None:
    windowed, whole = (language_models.catalogue()[f"mistralai/Mistral-7B-{name}"] for name in ("v0.1", "v0.3"))
    spread = deployment_of(served(precision="bf16", count=1, parallelism={}, concurrency=1), 32)
    device = device_of(CARD, "cuda", spread.storage, 4e-6)
    assert device is not None
    near, far = (step(windowed, spread.decode, spread.storage, device, 1, tokens) for tokens in (4096, 65536))
    assert near.attention == far.attention
    all_far = step(whole, spread.decode, spread.storage, device, 1, 65536)
    assert all_far.attention == pytest.approx(16 * far.attention)
    first, all_first = (
        prompt(model, spread.prefill, spread.storage, device, 65536).attention for model in (windowed, whole)
    )
    # Each token looks back at 4,096 tokens instead of 32,768 in the mean; the first ones at fewer.
    assert first / all_first == pytest.approx(4096 * (1 - 4096 / (2 * 65536)) / 32768, rel=1e-3)
